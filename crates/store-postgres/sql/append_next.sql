WITH stream AS (
    UPDATE tidelock.streams s SET version = s.version + 1, forget_at = NULL
    WHERE s.name = $1 AND NOT s.closed AND (s.version = $2 OR $2 = -2) RETURNING s.version)
INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
    SELECT nextval('tidelock.positions'), $1, t.version, $3, $4, $5, $6,
           greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at)
    FROM (SELECT l.version, tidelock.take_ticket(l.last) AS taken
          FROM (SELECT version, pg_sequence_last_value('tidelock.positions') AS last FROM stream) l) t
    CROSS JOIN tidelock.meta m
    LEFT JOIN LATERAL (
        SELECT e.recorded_at FROM tidelock.events e ORDER BY e.position DESC LIMIT 1) e ON true
    WHERE m.one AND t.taken
RETURNING ARRAY[recorded_at, version - 1, position]
