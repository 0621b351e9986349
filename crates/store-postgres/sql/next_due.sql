SELECT min(r.ready) FROM unnest($2, $3, $4) AS l (lane, priority, ready), LATERAL (
    SELECT i.ready FROM tidelock.items i
    WHERE i.queue = $1 AND i.lane = l.lane AND i.priority = l.priority AND i.ready >= l.ready
    ORDER BY i.ready LIMIT 1) r
