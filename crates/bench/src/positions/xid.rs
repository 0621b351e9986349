//! The number of the transaction, then the place in the batch. Nobody waits for anybody; instead readers stay behind the
//! oldest transaction of the whole server that has a number and has not ended. Positions have gaps.
//!
//! An older transaction can get a stream's row after a younger one. It would put the later version at the earlier
//! position, so it leaves that stream alone, and the append is tried again in a transaction that is younger still.

use super::mechanism::Sql;

pub(super) const SQL: Sql = Sql {
    tables: "ALTER TABLE heads ADD position bigint NOT NULL;",
    append: "
        WITH wanted AS (
            SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[])
                WITH ORDINALITY AS w (stream, id, type, payload, metadata, ordinal)
        ), head AS (
            INSERT INTO heads AS h (stream, version, position)
            SELECT stream, 1, (pg_current_xact_id()::text::bigint << 20) + ordinal FROM wanted ORDER BY ordinal
            ON CONFLICT (stream) DO UPDATE SET version = h.version + 1, position = excluded.position
            WHERE h.position < excluded.position
            RETURNING stream, version, position
        )
        INSERT INTO events (position, stream, version, id, type, payload, metadata, recorded_at)
        SELECT position, stream, version, id, type, payload, metadata,
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        FROM wanted JOIN head USING (stream)
        RETURNING stream, position",
    // The horizon and the rows are of one snapshot: all that is below the one is in the other. The horizon stands outside,
    // for two bounds make the server expect few rows and sort all there are.
    page: "
        SELECT * FROM (
            SELECT position, stream, version, id, type, payload, metadata, recorded_at
            FROM events WHERE position > $1 ORDER BY position LIMIT 1000
        ) AS page
        WHERE position < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20)
        ORDER BY position",
};
