WITH moment AS MATERIALIZED (SELECT :now AS now),
asked AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3) WITH ORDINALITY AS a (queue, key, fence, nth)),
locked AS MATERIALIZED (
    SELECT i.* FROM (SELECT DISTINCT queue, key FROM asked) a
    JOIN tidelock.items i ON i.queue = a.queue AND i.key = a.key
    ORDER BY i.queue, i.key FOR NO KEY UPDATE OF i SKIP LOCKED),
renewed AS (
    UPDATE tidelock.items i SET deadline = greatest(i.deadline, now + $4),
        ready = CASE WHEN NOT i.blocked THEN greatest(i.deadline, now + $4, i.hold) END
    FROM locked l, moment
    WHERE i.queue = l.queue AND i.key = l.key AND i.worker IS NOT NULL AND i.fence IN (
        SELECT a.fence FROM asked a WHERE a.queue = l.queue AND a.key = l.key)
    RETURNING i.queue, i.key, i.fence, i.deadline)
SELECT EXISTS (SELECT FROM tidelock.items t WHERE t.queue = a.queue AND t.key = a.key), r.deadline, :item_columns
FROM asked a LEFT JOIN locked i ON i.queue = a.queue AND i.key = a.key
LEFT JOIN renewed r ON r.queue = a.queue AND r.key = a.key AND r.fence = a.fence
ORDER BY a.nth
