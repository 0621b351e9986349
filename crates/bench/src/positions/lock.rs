//! A row that is locked and never changed. Who holds it gives out positions after the highest one there is. Dense too,
//! and no row is written again and again, so that an old snapshot somewhere keeps no dead versions of it alive.
//!
//! The highest position has to be read by a later statement than the one that waited for the lock, for a statement sees
//! what was there when it began. A function makes these several statements one call.

use super::mechanism::Sql;

pub(super) const SQL: Sql = Sql {
    tables: "
        CREATE TABLE turn (one boolean PRIMARY KEY);
        INSERT INTO turn VALUES (true);
        CREATE FUNCTION append(streams text[], ids uuid[], types text[], payloads text[], metadatas text[])
        RETURNS TABLE (of_stream text, at_position bigint) LANGUAGE plpgsql AS $$
        DECLARE
            versions bigint[];
            before bigint;
        BEGIN
            WITH head AS (
                INSERT INTO heads AS h (stream, version)
                SELECT stream, 1 FROM unnest(streams) WITH ORDINALITY AS w (stream, ordinal) ORDER BY ordinal
                ON CONFLICT (stream) DO UPDATE SET version = h.version + 1
                RETURNING stream, version
            )
            SELECT array_agg(version ORDER BY stream) INTO versions FROM head;
            PERFORM one FROM turn FOR UPDATE;
            SELECT coalesce(max(position), 0) INTO before FROM events;
            RETURN QUERY
            INSERT INTO events (position, stream, version, id, type, payload, metadata, recorded_at)
            SELECT before + ordinal, stream, version, id, type, payload, metadata,
                (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
            FROM unnest(streams, versions, ids, types, payloads, metadatas)
                WITH ORDINALITY AS w (stream, version, id, type, payload, metadata, ordinal)
            RETURNING stream, position;
        END $$;",
    append: "SELECT of_stream, at_position FROM append($1, $2, $3, $4, $5)",
    page: "
        SELECT position, stream, version, id, type, payload, metadata, recorded_at
        FROM events WHERE position > $1 ORDER BY position LIMIT 1000",
};
