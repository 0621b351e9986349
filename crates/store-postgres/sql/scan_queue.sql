WITH RECURSIVE moment AS MATERIALIZED (SELECT :now AS now),
lanes AS (
    (SELECT lane, priority, ready FROM tidelock.items
     WHERE queue = $1 AND ready IS NOT NULL ORDER BY lane, priority, ready LIMIT 1)
    UNION ALL
    SELECT n.lane, n.priority, n.ready FROM lanes l, LATERAL (
        SELECT i.lane, i.priority, i.ready FROM tidelock.items i
        WHERE i.queue = $1 AND i.ready IS NOT NULL AND (i.lane, i.priority) > (l.lane, l.priority)
        ORDER BY i.lane, i.priority, i.ready LIMIT 1) n)
:ready_items
