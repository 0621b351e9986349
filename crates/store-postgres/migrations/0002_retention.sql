-- Rows that are past their retention leave, and floors keep their numbers from being used again.
--
-- Columns are added without rewriting a table: they are null, or have one default for all rows. What old rows lack is filled in
-- later (`undated_from`) or has a meaning without it (`commits.forget_at`). What takes time here is one index over each of items, streams
-- and commits, and a look for tombstones: each reads its table once.
--
-- A program of the version before, if it is still running, goes on with these tables: every column that it does not know has a
-- default, and every function that it calls is still there under the same parameters.

-- The moment at which an idle item is forgotten.
ALTER TABLE tidelock.items ADD COLUMN forget_at bigint;
CREATE INDEX items_leaving ON tidelock.items (forget_at) WHERE forget_at IS NOT NULL;

-- The moment at which an empty stream is forgotten.
ALTER TABLE tidelock.streams ADD COLUMN forget_at bigint;
CREATE INDEX streams_leaving ON tidelock.streams (forget_at) WHERE forget_at IS NOT NULL;

-- The moment at which a commit is forgotten; seven days after it, if there is none. `revisions` are those of the records that the
-- commit wrote, in the order of its writes, if `committed` leaves them out.
ALTER TABLE tidelock.commits ADD COLUMN forget_at bigint, ADD COLUMN revisions bigint[];
DROP INDEX tidelock.commits_by_age;
CREATE INDEX commits_leaving ON tidelock.commits ((coalesce(forget_at, committed_at + 604800000000)));

-- Floors: at or above the revisions and fences of everything that was forgotten. `undated_from` is the key up to which tombstones
-- have got the moment at which they leave; null once all have.
ALTER TABLE tidelock.meta
    ADD COLUMN revision_floor bigint NOT NULL DEFAULT 0,
    ADD COLUMN fence_floor    bigint NOT NULL DEFAULT 0,
    ADD COLUMN undated_from   text COLLATE "C";

UPDATE tidelock.meta SET undated_from = ''
    WHERE EXISTS (SELECT FROM tidelock.records WHERE value IS NULL AND expires_at IS NULL);

-- At or above the versions of all forgotten streams of a category.
CREATE TABLE tidelock.version_floors (
    category text   COLLATE "C" PRIMARY KEY,
    version  bigint NOT NULL
);

-- Rows come and go: dead ones are cleared away early, as those of items are.
ALTER TABLE tidelock.records SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
                                  autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tidelock.streams SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
                                  autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tidelock.commits SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
                                  autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tidelock.events SET (autovacuum_vacuum_scale_factor = 0.05);

-- The category of a stream: its name up to the first slash, included; the whole name, if it has none. One expression, which the
-- server puts where it is called.
CREATE FUNCTION tidelock.category(stream text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
        SELECT CASE strpos(stream COLLATE "C", '/') WHEN 0 THEN stream COLLATE "C"
                    ELSE left(stream COLLATE "C", strpos(stream COLLATE "C", '/')) END
    $$;

-- Fails as for any other race if one of these streams, which the caller has just created above this floor of its category, had to be
-- created above a higher one. An insert that waits for the row of a stream that is being forgotten goes on with the floor from
-- before the wait; this is called in a statement of its own, and so sees the floor from after it.
CREATE FUNCTION tidelock.check_floors(names text[], floors bigint[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM unnest(names, floors) AS n (name, floor)
        WHERE n.floor < (SELECT f.version FROM tidelock.version_floors f WHERE f.category = tidelock.category(n.name)))
    THEN
        RAISE serialization_failure USING MESSAGE = 'a stream of that category was forgotten meanwhile';
    END IF;
END $$;

-- As before, with the floor under a new stream; and a stream that is appended to is not forgotten.
CREATE OR REPLACE FUNCTION tidelock.append_one(
        to_stream text, expected bigint, new_id uuid, new_type text, new_payload text, new_metadata text)
    RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE
    AS $$
DECLARE
    before bigint;
    last   bigint;
    ticket boolean;
    placed bigint;
    moment bigint;
BEGIN
    IF expected <> 0 THEN
        UPDATE tidelock.streams s SET version = s.version + 1, forget_at = NULL
            WHERE s.name = to_stream AND NOT s.closed AND (expected < 0 OR s.version = expected)
            RETURNING s.version - 1 INTO before;
    END IF;
    IF before IS NULL AND expected IN (-1, 0) THEN
        INSERT INTO tidelock.streams AS s (name, version, first)
            SELECT to_stream, coalesce(max(f.version), 0) + 1, coalesce(max(f.version), 0) + 1
            FROM tidelock.version_floors f WHERE f.category = tidelock.category(to_stream)
            ON CONFLICT (name) DO NOTHING RETURNING s.version - 1 INTO before;
        IF before IS NOT NULL THEN
            PERFORM tidelock.check_floors(ARRAY[to_stream], ARRAY[before]);
        END IF;
    END IF;
    IF before IS NULL THEN
        RETURN NULL;
    END IF;
    last := pg_sequence_last_value('tidelock.positions');
    ticket := tidelock.take_ticket(last);
    -- The moment is as tidelock.last() has it; spelled out, because a function in SQL is planned again with every call.
    INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
        SELECT nextval('tidelock.positions'), to_stream, before + 1, new_id, new_type, new_payload, new_metadata,
               greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at)
        FROM tidelock.meta m LEFT JOIN LATERAL (
            SELECT e.recorded_at FROM tidelock.events e ORDER BY e.position DESC LIMIT 1) e ON true
        WHERE m.one
        RETURNING position, recorded_at INTO placed, moment;
    RETURN ARRAY[moment, before, placed];
END $$;

-- The same.
CREATE OR REPLACE FUNCTION tidelock.append_many(
        names text[], expectations bigint[], counts bigint[],
        owners integer[], ordinals bigint[], streams text[], ids uuid[], types text[], payloads text[], metadata text[],
        queues text[], items text[], fences bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    stand   bigint;
    before  bigint[] := array_fill(-1::bigint, ARRAY[cardinality(names)]);
    nth     bigint;
    had     bigint;
    made    text;
    created text[] := '{}';
    floors  bigint[] := '{}';
    last    bigint;
    ticket  boolean;
    placed  bigint[];
    moment  bigint;
BEGIN
    FOR nth, had IN
        UPDATE tidelock.streams s SET version = s.version + n.count, forget_at = NULL
        FROM unnest(names, expectations, counts) WITH ORDINALITY AS n (name, expected, count, nth)
        WHERE s.name = n.name AND NOT s.closed AND n.expected <> 0 AND (n.expected < 0 OR n.expected = s.version)
        RETURNING n.nth, s.version - n.count
    LOOP
        before[nth] := had;
    END LOOP;
    IF cardinality(queues) > 0 THEN
        PERFORM FROM unnest(queues, items, fences) AS n (queue, key, fence)
            JOIN tidelock.items i ON i.queue = n.queue AND i.key = n.key
            WHERE i.fence = n.fence AND i.worker IS NOT NULL
            ORDER BY i.queue, i.key FOR NO KEY UPDATE OF i;
        GET DIAGNOSTICS stand = ROW_COUNT;
        IF stand < cardinality(queues) THEN
            RAISE serialization_failure USING MESSAGE = 'a lease was lost';
        END IF;
    END IF;
    IF 0 = ANY (expectations) OR -1 = ANY (expectations) THEN
        FOR made, had IN
            INSERT INTO tidelock.streams AS s (name, version, first)
            SELECT n.name, n.floor + n.count, n.floor + 1
            FROM (SELECT u.name, u.count, coalesce((SELECT f.version FROM tidelock.version_floors f
                                                    WHERE f.category = tidelock.category(u.name)), 0) AS floor
                  FROM unnest(names, expectations, counts, before) AS u (name, expected, count, before)
                  WHERE u.expected IN (-1, 0) AND u.before < 0) n
            ON CONFLICT (name) DO NOTHING RETURNING s.name, s.first - 1
        LOOP
            before[array_position(names, made)] := had;
            created := created || made;
            floors := floors || had;
        END LOOP;
        IF cardinality(created) > 0 THEN
            PERFORM tidelock.check_floors(created, floors);
        END IF;
    END IF;
    IF 0 > ALL (before) THEN
        RETURN NULL;
    END IF;
    last := pg_sequence_last_value('tidelock.positions');
    ticket := tidelock.take_ticket(last);
    -- As tidelock.last() has it; spelled out, because a function in SQL is planned again with every call.
    SELECT greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at) INTO moment
        FROM tidelock.meta m LEFT JOIN LATERAL (
            SELECT e.recorded_at FROM tidelock.events e ORDER BY e.position DESC LIMIT 1) e ON true
        WHERE m.one;
    SELECT array_agg(nextval('tidelock.positions')) INTO placed FROM generate_series(1, cardinality(ids));
    INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
        SELECT n.position, n.stream, before[n.owner] + n.ordinal, n.id, n.type, n.payload, n.metadata, moment
        FROM unnest(placed, owners, ordinals, streams, ids, types, payloads, metadata)
            AS n (position, owner, ordinal, stream, id, type, payload, metadata)
        WHERE before[n.owner] >= 0;
    RETURN moment || before || placed;
END $$;

-- Writes records as the function of the same name with fewer parameters does, which is kept for programs that know no other.
-- An expectation is -1: anything, -2: a record, 0: no record, or else the revision of the record that must be there.
--
-- The revision of a record that is there goes on by one, and is above the epoch; that of a record that is not is above everything that
-- was forgotten. So it is known here and not beforehand, and what the results of commits with an id say of it is kept beside them:
-- `mentions` are the writes of those commits, by their place among the keys and in the order of each commit's writes, one commit's
-- from `mentions_from` to `mentions_to`. An id is remembered for `memories`.
--
-- A record that is deleted (its value is null) is forgotten after `lives`. None expires before it was written.
--
-- Gives the revisions that the keys have afterwards, too, unless their commit is refused.
CREATE FUNCTION tidelock.write_many(
        keys text[], owners integer[], expectations bigint[], new_values text[], ends bigint[], lives bigint[],
        makers integer[], ids uuid[], fingerprints uuid[], results text[], memories bigint[],
        mentions integer[], mentions_from integer[], mentions_to integer[],
        OUT moment bigint, OUT before bigint[], OUT after bigint[],
        OUT clashes bigint[], OUT seen text[], OUT expiries bigint[])
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    refused   integer[];
    changes   bigint;
    creations bigint;
    written   bigint;
    runs_out  bigint;
BEGIN
    SELECT max(l.moment), array_agg(l.revision), array_agg(l.after),
           array_agg(l.nth) FILTER (WHERE NOT l.holds), array_agg(l.owner) FILTER (WHERE NOT l.holds),
           array_agg(l.value) FILTER (WHERE NOT l.holds), array_agg(l.expires_at) FILTER (WHERE NOT l.holds),
           min(l.expires_at) FILTER (WHERE l.expires_at > l.moment AND l.value IS NOT NULL),
           count(*) FILTER (WHERE l.revision > 0), count(*) FILTER (WHERE l.revision = 0)
        INTO moment, before, after, clashes, refused, seen, expiries, runs_out, changes, creations
        FROM (
            SELECT m.moment, n.nth, n.owner, coalesce(r.revision, 0) AS revision, r.value, r.expires_at,
                   CASE WHEN r.key IS NULL THEN m.floor ELSE greatest(r.revision, m.epoch) END + 1 AS after,
                   CASE n.expected
                       WHEN -1 THEN true
                       WHEN -2 THEN r.value IS NOT NULL AND (r.expires_at IS NULL OR r.expires_at > m.moment)
                       WHEN 0 THEN r.value IS NULL OR r.expires_at <= m.moment
                       ELSE r.revision = n.expected AND r.value IS NOT NULL
                           AND (r.expires_at IS NULL OR r.expires_at > m.moment)
                   END IS TRUE AS holds
            FROM (SELECT greatest(tidelock.calendar() + shift, clock) AS moment, epoch,
                         greatest(revision_floor, epoch) AS floor
                  FROM tidelock.meta WHERE one OFFSET 0) m
            CROSS JOIN unnest(keys, owners, expectations) WITH ORDINALITY AS n (key, owner, expected, nth)
            LEFT JOIN tidelock.records r ON r.key = n.key
            ORDER BY n.nth) l;
    IF refused IS NULL THEN
        refused := '{}';
    ELSE
        SELECT count(*) FILTER (WHERE n.revision > 0), count(*) FILTER (WHERE n.revision = 0) INTO changes, creations
            FROM unnest(owners, before) AS n (owner, revision) WHERE n.owner <> ALL (refused);
    END IF;
    IF changes > 0 THEN
        UPDATE tidelock.records r
            SET revision = n.after, value = n.value,
                expires_at = CASE WHEN n.ends IS NULL THEN write_many.moment + n.lives
                                  ELSE greatest(n.ends, write_many.moment) END
            FROM unnest(keys, owners, before, after, new_values, ends, lives)
                AS n (key, owner, revision, after, value, ends, lives)
            WHERE r.key = n.key AND r.revision = n.revision AND n.owner <> ALL (refused);
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written < changes OR runs_out <= (SELECT greatest(tidelock.calendar() + shift, clock) FROM tidelock.meta WHERE one) THEN
            RAISE serialization_failure USING MESSAGE = 'a record has changed since it was looked at';
        END IF;
    END IF;
    IF creations > 0 THEN
        INSERT INTO tidelock.records (key, revision, value, expires_at)
            SELECT n.key, n.after, n.value,
                   CASE WHEN n.ends IS NULL THEN write_many.moment + n.lives ELSE greatest(n.ends, write_many.moment) END
            FROM unnest(keys, owners, before, after, new_values, ends, lives)
                AS n (key, owner, revision, after, value, ends, lives)
            WHERE n.revision = 0 AND n.owner <> ALL (refused);
    END IF;
    IF cardinality(ids) > 0 THEN
        INSERT INTO tidelock.commits (id, fingerprint, committed, positions, committed_at, forget_at, revisions)
            SELECT n.id, n.fingerprint, n.result, '{}', write_many.moment, write_many.moment + n.memory,
                   ARRAY(SELECT after[w.nth] FROM unnest(mentions[n.mentions_from:n.mentions_to])
                         WITH ORDINALITY AS w (nth, place) ORDER BY w.place)
            FROM unnest(makers, ids, fingerprints, results, memories, mentions_from, mentions_to)
                AS n (maker, id, fingerprint, result, memory, mentions_from, mentions_to)
            WHERE n.maker <> ALL (refused);
    END IF;
END $$;

-- Sweeping: each of the functions below removes at most so many rows that are past their retention, in the order of their time, and
-- says how many; null if another session is at it. One session at a time sweeps, by an advisory lock on the table `meta` that lasts
-- for one transaction. A row that is locked is left for later, so a sweep waits for nothing but the row of `meta`; and every row is
-- judged as it is once it is locked. The floor that the rows' numbers are kept by is raised first, in the same transaction: a
-- snapshot that does not see a row any more sees the floor.
--
-- Each says itself how it is planned: from the front of the index of what leaves, row by row, whatever the server takes for cheaper, and
-- without compiling anything.
--
-- They run with their owner's rights, since the application's role may not delete such rows, and take nothing else away.
CREATE FUNCTION tidelock.begin_sweep() RETURNS bigint
    LANGUAGE sql VOLATILE
    AS $$
        SELECT CASE WHEN pg_try_advisory_xact_lock('tidelock.meta'::regclass::oid::integer, 0)
                    THEN (SELECT greatest(tidelock.calendar() + shift, clock) FROM tidelock.meta WHERE one) END
    $$;

-- A record that has expired becomes a tombstone, as if it had been deleted at that moment, and a tombstone goes after an hour; both at
-- once, if both are due.
CREATE FUNCTION tidelock.forget_records(most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    AS $$
DECLARE
    now     bigint := tidelock.begin_sweep();
    gone    text[];
    highest bigint;
    expired text[];
BEGIN
    IF now IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(d.key) FILTER (WHERE d.goes), '{}'), max(d.revision) FILTER (WHERE d.goes),
           coalesce(array_agg(d.key) FILTER (WHERE NOT d.goes), '{}')
        INTO gone, highest, expired
        FROM (
            SELECT r.key, r.revision, r.value IS NULL OR r.expires_at + 3600000000 <= now AS goes
            FROM tidelock.records r WHERE r.expires_at <= now ORDER BY r.expires_at LIMIT most
            FOR UPDATE SKIP LOCKED) d;
    UPDATE tidelock.meta SET revision_floor = highest WHERE one AND revision_floor < highest;
    DELETE FROM tidelock.records WHERE key = ANY (gone);
    UPDATE tidelock.records SET value = NULL, expires_at = expires_at + 3600000000 WHERE key = ANY (expired);
    RETURN cardinality(gone) + cardinality(expired);
END $$;

-- An item that has got something to do is kept, though its time has passed: a program that knows no such time woke it.
CREATE FUNCTION tidelock.forget_items(most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
        SET enable_mergejoin = off SET jit = off
    AS $$
DECLARE
    now     bigint := tidelock.begin_sweep();
    queues  text[];
    keys    text[];
    highest bigint;
BEGIN
    IF now IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(d.queue), '{}'), coalesce(array_agg(d.key), '{}'), max(d.fence)
        INTO queues, keys, highest
        FROM (
            SELECT i.queue, i.key, i.fence FROM tidelock.items i
            WHERE i.forget_at <= now AND i.due IS NULL AND i.worker IS NULL ORDER BY i.forget_at LIMIT most
            FOR UPDATE SKIP LOCKED) d;
    UPDATE tidelock.meta SET fence_floor = highest WHERE one AND fence_floor < highest;
    DELETE FROM tidelock.items i USING unnest(queues, keys) AS d (queue, key) WHERE i.queue = d.queue AND i.key = d.key;
    RETURN cardinality(keys);
END $$;

-- A stream that has got events is kept, though its time has passed: a program that knows no such time appended them.
CREATE FUNCTION tidelock.forget_streams(most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    AS $$
DECLARE
    now      bigint := tidelock.begin_sweep();
    names    text[];
    versions bigint[];
BEGIN
    IF now IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(d.name), '{}'), coalesce(array_agg(d.version), '{}') INTO names, versions
        FROM (
            SELECT s.name, s.version FROM tidelock.streams s
            WHERE s.forget_at <= now AND s.first > s.version ORDER BY s.forget_at LIMIT most
            FOR UPDATE SKIP LOCKED) d;
    INSERT INTO tidelock.version_floors AS f (category, version)
        SELECT tidelock.category(d.name), max(d.version) FROM unnest(names, versions) AS d (name, version) GROUP BY 1
        ON CONFLICT (category) DO UPDATE SET version = excluded.version WHERE f.version < excluded.version;
    DELETE FROM tidelock.streams WHERE name = ANY (names);
    RETURN cardinality(names);
END $$;

CREATE FUNCTION tidelock.forget_commits(most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    AS $$
DECLARE
    now  bigint := tidelock.begin_sweep();
    gone uuid[];
BEGIN
    IF now IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(d.id), '{}') INTO gone
        FROM (
            SELECT c.id FROM tidelock.commits c
            WHERE coalesce(c.forget_at, c.committed_at + 604800000000) <= now
            ORDER BY coalesce(c.forget_at, c.committed_at + 604800000000) LIMIT most
            FOR UPDATE SKIP LOCKED) d;
    DELETE FROM tidelock.commits WHERE id = ANY (gone);
    RETURN cardinality(gone);
END $$;

-- Gives tombstones from before this migration, which carry no time, an hour from now. There is no index to find them by: one over
-- `value` would take from every write of a record that it stays within its page. So all records are gone through once, a few at a
-- time. A page in which one is locked is gone through again.
CREATE FUNCTION tidelock.date_tombstones(most bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    AS $$
DECLARE
    now     bigint := tidelock.begin_sweep();
    begun   text;
    reached text;
    looked  bigint;
BEGIN
    IF now IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT undated_from INTO begun FROM tidelock.meta WHERE one;
    SELECT max(k.key), count(*) INTO reached, looked
        FROM (SELECT key FROM tidelock.records WHERE key > begun ORDER BY key LIMIT most) k;
    UPDATE tidelock.records SET expires_at = now + 3600000000 WHERE key = ANY (ARRAY(
        SELECT key FROM tidelock.records
        WHERE key > begun AND key <= reached AND value IS NULL AND expires_at IS NULL AND revision > 0
        ORDER BY key FOR UPDATE SKIP LOCKED));
    IF EXISTS (
        SELECT FROM tidelock.records
        WHERE key > begun AND key <= reached AND value IS NULL AND expires_at IS NULL AND revision > 0)
    THEN
        RETURN 0;
    END IF;
    UPDATE tidelock.meta SET undated_from = CASE WHEN looked = most THEN reached END WHERE one AND undated_from IS NOT NULL;
    RETURN looked;
END $$;

REVOKE ALL ON FUNCTION tidelock.forget_records(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION tidelock.forget_items(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION tidelock.forget_streams(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION tidelock.forget_commits(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION tidelock.date_tombstones(bigint) FROM PUBLIC;

-- Roles that may append may do so with what is new as well, so that they need not wait until `roles.sql` is run again.
DO $$
DECLARE
    role text;
BEGIN
    FOR role IN
        SELECT DISTINCT a.grantee::regrole::text
        FROM pg_attribute c, aclexplode(c.attacl) a
        WHERE c.attrelid = 'tidelock.streams'::regclass AND c.attname = 'version'
          AND a.privilege_type = 'UPDATE' AND a.grantee <> 0
    LOOP
        EXECUTE format('GRANT INSERT (first, forget_at), UPDATE (forget_at) ON tidelock.streams TO %s', role);
        EXECUTE format('GRANT UPDATE (forget_at) ON tidelock.items TO %s', role);
        EXECUTE format('GRANT SELECT ON tidelock.version_floors TO %s', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION tidelock.forget_records(bigint), tidelock.forget_items(bigint),
                            tidelock.forget_streams(bigint), tidelock.forget_commits(bigint),
                            tidelock.date_tombstones(bigint) TO %s', role);
    END LOOP;
END $$;
