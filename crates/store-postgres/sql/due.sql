SELECT (SELECT r.expires_at FROM tidelock.records r WHERE r.expires_at IS NOT NULL
        ORDER BY r.expires_at LIMIT 1) - m.now,
       (SELECT i.forget_at FROM tidelock.items i WHERE i.forget_at IS NOT NULL
        ORDER BY i.forget_at LIMIT 1) - m.now,
       (SELECT s.forget_at FROM tidelock.streams s WHERE s.forget_at IS NOT NULL
        ORDER BY s.forget_at LIMIT 1) - m.now,
       (SELECT :forget_at FROM tidelock.commits c ORDER BY :forget_at LIMIT 1) - m.now,
       CASE WHEN m.undated_from IS NOT NULL THEN 0::bigint END
FROM (SELECT greatest(tidelock.calendar() + shift, clock) AS now, undated_from
      FROM tidelock.meta WHERE one OFFSET 0) m
