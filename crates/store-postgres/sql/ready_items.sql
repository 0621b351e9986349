SELECT moment.now, c.* FROM moment LEFT JOIN LATERAL (
    SELECT l.lane, l.priority, l.ready AS first, r.key, r.ready FROM lanes l LEFT JOIN LATERAL (
        SELECT i.key, i.ready FROM tidelock.items i
        WHERE i.queue = $1 AND i.lane = l.lane AND i.priority = l.priority
          AND i.ready >= l.ready AND i.ready <= moment.now
        ORDER BY i.ready, i.key LIMIT $2) r ON true) c ON true
