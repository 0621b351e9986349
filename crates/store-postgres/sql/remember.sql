INSERT INTO tidelock.commits (id, fingerprint, committed, positions, committed_at, forget_at)
SELECT n.id, n.fingerprint, n.committed, e.positions, coalesce(e.recorded_at, $7), n.forget_at
FROM unnest($1, $2, $3, $5, $6, $8)
    AS n (id, fingerprint, committed, mentions_from, mentions_to, forget_at), LATERAL (
    SELECT coalesce(array_agg(position ORDER BY position), '{}') AS positions, max(recorded_at) AS recorded_at
    FROM tidelock.events WHERE id = ANY ($4[n.mentions_from:n.mentions_to])) e
ORDER BY n.id
