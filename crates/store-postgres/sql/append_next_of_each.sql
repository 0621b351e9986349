WITH moved AS (
    UPDATE tidelock.streams s SET version = s.version + 1, forget_at = NULL
    FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY
        AS n (name, expected, id, type, payload, metadata, nth)
    WHERE s.name = n.name AND NOT s.closed AND (s.version = n.expected OR n.expected = -2)
    RETURNING n.nth, n.name, s.version, n.id, n.type, n.payload, n.metadata),
ticket AS MATERIALIZED (
    SELECT a.nths, a.versions, tidelock.take_ticket(a.last) AS taken,
           greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at) AS moment
    FROM (SELECT array_agg(nth) AS nths, array_agg(version) AS versions,
                 pg_sequence_last_value('tidelock.positions') AS last FROM moved) a
    CROSS JOIN tidelock.meta m
    LEFT JOIN LATERAL (
        SELECT e.recorded_at FROM tidelock.events e ORDER BY e.position DESC LIMIT 1) e ON true
    WHERE m.one AND a.nths IS NOT NULL),
placed AS (
    INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
    SELECT nextval('tidelock.positions'), v.name, v.version, v.id, v.type, v.payload, v.metadata, t.moment
    FROM ticket t CROSS JOIN moved v WHERE t.taken
    RETURNING position)
SELECT t.moment || t.nths || t.versions || (SELECT array_agg(position) FROM placed) FROM ticket t
