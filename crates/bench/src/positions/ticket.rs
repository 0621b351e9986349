//! A sequence, and tickets. Who is about to draw says after which number, by a lock that all share and that the server takes
//! back when the transaction is visible or gone. Readers stay behind the oldest of them. Nobody waits for anybody, and
//! only those who write to this log hold its readers back. Positions have gaps.
//!
//! The last number is asked for by a function: read as a column of the sequence it can be ahead of what was drawn. A reader
//! asks for it first, then for the tickets, and looks at the events in a later statement than both.

use super::mechanism::Sql;

pub(super) const SQL: Sql = Sql {
    tables: "
        CREATE SEQUENCE drawn MINVALUE 0 START 0;
        SELECT nextval('drawn');
        CREATE FUNCTION append(streams text[], ids uuid[], types text[], payloads text[], metadatas text[])
        RETURNS TABLE (of_stream text, at_position bigint) LANGUAGE plpgsql AS $$
        DECLARE
            versions bigint[];
        BEGIN
            WITH head AS (
                INSERT INTO heads AS h (stream, version)
                SELECT stream, 1 FROM unnest(streams) WITH ORDINALITY AS w (stream, ordinal) ORDER BY ordinal
                ON CONFLICT (stream) DO UPDATE SET version = h.version + 1
                RETURNING stream, version
            )
            SELECT array_agg(version ORDER BY stream) INTO versions FROM head;
            PERFORM pg_advisory_xact_lock_shared('drawn'::regclass::oid::integer, pg_sequence_last_value('drawn')::integer);
            RETURN QUERY
            INSERT INTO events (position, stream, version, id, type, payload, metadata, recorded_at)
            SELECT nextval('drawn'), stream, version, id, type, payload, metadata,
                (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
            FROM unnest(streams, versions, ids, types, payloads, metadatas)
                AS w (stream, version, id, type, payload, metadata)
            RETURNING stream, position;
        END $$;
        CREATE FUNCTION page(after bigint) RETURNS SETOF events LANGUAGE plpgsql AS $$
        DECLARE
            settled bigint := pg_sequence_last_value('drawn');
        BEGIN
            SELECT least(settled, min(objid::bigint)) INTO settled FROM pg_locks
            WHERE locktype = 'advisory' AND classid = 'drawn'::regclass AND objsubid = 2 AND granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
            RETURN QUERY
            SELECT * FROM (
                SELECT * FROM events WHERE position > after ORDER BY position LIMIT 1000
            ) AS page
            WHERE position <= settled ORDER BY position;
        END $$;",
    append: "SELECT of_stream, at_position FROM append($1, $2, $3, $4, $5)",
    page: "SELECT position, stream, version, id, type, payload, metadata, recorded_at FROM page($1)",
};
