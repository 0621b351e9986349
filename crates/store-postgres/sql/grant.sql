WITH moment AS MATERIALIZED (
    SELECT greatest(tidelock.calendar() + shift, clock) AS now, greatest(epoch, fence_floor) AS floor
    FROM tidelock.meta),
taken AS MATERIALIZED (
    SELECT i.queue, i.key, c.nth FROM unnest($2) WITH ORDINALITY AS c (key, nth)
    JOIN tidelock.items i ON i.queue = $1 AND i.key = c.key
    WHERE coalesce(i.ready <= (SELECT now FROM moment), false)
    ORDER BY c.nth LIMIT $3 FOR UPDATE OF i SKIP LOCKED)
UPDATE tidelock.items i SET
    attempts = i.attempts + 1, expiries = i.expiries + CASE WHEN i.worker IS NULL THEN 0 ELSE 1 END,
    fence = greatest(i.fence, floor) + 1, worker = $4, since = now, deadline = now + $5, ready = now + $5,
    settled = NULL, due = CASE WHEN i.due > now THEN i.due END, hold = NULL
FROM taken t, moment WHERE i.queue = t.queue AND i.key = t.key
RETURNING t.nth, now, :item_columns
