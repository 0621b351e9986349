WITH last AS MATERIALIZED (SELECT greatest(moment, $7) AS moment FROM tidelock.last()),
drawn AS MATERIALIZED (
    SELECT array_agg(nextval('tidelock.positions')) AS positions FROM generate_series(1, cardinality($3))),
added AS (
    INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
    SELECT n.position, n.stream, n.version, n.id, n.type, n.payload, n.metadata, moment
    FROM last, drawn, unnest(positions, $1, $2, $3, $4, $5, $6)
        AS n (position, stream, version, id, type, payload, metadata))
SELECT positions, moment FROM last, drawn
