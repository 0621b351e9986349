WITH moment AS MATERIALIZED (SELECT :now AS now)
SELECT moment.now, r.*
FROM moment LEFT JOIN LATERAL (
    SELECT :record_columns FROM tidelock.records r
    WHERE r.key >= $1 AND r.key <> $2 ORDER BY r.key LIMIT $3) r ON true
