SELECT s.version, s.first, s.closed, s.forget_at, e.*
FROM tidelock.streams s LEFT JOIN LATERAL (
    SELECT :event_columns FROM tidelock.events e
    WHERE e.stream = s.name AND e.version <= coalesce($2, s.version)
    ORDER BY e.version DESC LIMIT $3) e ON true
WHERE s.name = $1
