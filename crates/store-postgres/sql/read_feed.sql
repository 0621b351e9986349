WITH seen AS MATERIALIZED (
    SELECT max(position) AS upto, count(*) AS count
    FROM (SELECT position FROM tidelock.events WHERE position > $1 ORDER BY position LIMIT $2) s)
SELECT seen.upto, seen.count, e.*,
       (SELECT min(last_before) FROM tidelock.epochs WHERE last_before < $1 AND $1 < epoch)
FROM seen LEFT JOIN LATERAL (
    SELECT e.stream, :event_columns FROM tidelock.events e
    WHERE e.position > $1 AND e.position <= seen.upto
      AND starts_with(e.stream, $3) AND (cardinality($4) = 0 OR e.type = ANY ($4))
    ORDER BY e.position LIMIT $5) e ON true
