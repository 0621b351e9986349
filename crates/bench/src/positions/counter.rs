//! A counter row. It is advanced in the statement that writes the events and stays locked until they are durable, so
//! that nobody gets a higher position before all lower ones can be seen. Positions are dense.
//!
//! Counting the heads makes the statement lock all of them before the counter, which is therefore the last lock that
//! anybody takes.

use super::mechanism::Sql;

pub(super) const SQL: Sql = Sql {
    tables: "
        CREATE TABLE counter (one boolean PRIMARY KEY, position bigint NOT NULL) WITH (fillfactor = 10);
        INSERT INTO counter VALUES (true, 0);",
    append: "
        WITH wanted AS (
            SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[])
                WITH ORDINALITY AS w (stream, id, type, payload, metadata, ordinal)
        ), head AS (
            INSERT INTO heads AS h (stream, version) SELECT stream, 1 FROM wanted ORDER BY ordinal
            ON CONFLICT (stream) DO UPDATE SET version = h.version + 1
            RETURNING stream, version
        ), taken AS (
            UPDATE counter SET position = position + (SELECT count(*) FROM head)
            RETURNING position - (SELECT count(*) FROM head) AS before
        )
        INSERT INTO events (position, stream, version, id, type, payload, metadata, recorded_at)
        SELECT before + ordinal, stream, version, id, type, payload, metadata,
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        FROM wanted JOIN head USING (stream) CROSS JOIN taken
        RETURNING stream, position",
    page: "
        SELECT position, stream, version, id, type, payload, metadata, recorded_at
        FROM events WHERE position > $1 ORDER BY position LIMIT 1000",
};
