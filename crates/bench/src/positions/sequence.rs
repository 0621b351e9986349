//! A sequence, as many a log has it. Nobody waits for anybody, and who draws a number first may be seen last: a reader
//! who has passed it never comes back. The limit of what the others can reach, and the proof that skips are noticed.

use super::mechanism::Sql;

pub(super) const SQL: Sql = Sql {
    tables: "CREATE SEQUENCE drawn;",
    append: "
        WITH wanted AS (
            SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[])
                WITH ORDINALITY AS w (stream, id, type, payload, metadata, ordinal)
        ), head AS (
            INSERT INTO heads AS h (stream, version) SELECT stream, 1 FROM wanted ORDER BY ordinal
            ON CONFLICT (stream) DO UPDATE SET version = h.version + 1
            RETURNING stream, version
        )
        INSERT INTO events (position, stream, version, id, type, payload, metadata, recorded_at)
        SELECT nextval('drawn'), stream, version, id, type, payload, metadata,
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        FROM wanted JOIN head USING (stream)
        RETURNING stream, position",
    page: "
        SELECT position, stream, version, id, type, payload, metadata, recorded_at
        FROM events WHERE position > $1 ORDER BY position LIMIT 1000",
};
