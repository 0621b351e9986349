SELECT s.name, s.version, s.first, s.closed, s.forget_at, e.*
FROM tidelock.streams s LEFT JOIN LATERAL (
    SELECT :event_columns FROM tidelock.events e
    WHERE e.stream = s.name ORDER BY e.version DESC LIMIT 1) e ON true
