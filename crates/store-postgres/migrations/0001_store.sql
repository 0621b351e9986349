-- Every name is spelled `tidelock.…`; a store in another schema gets that schema's name put in its place.
--
-- Names are compared byte by byte (COLLATE "C"), so that every store pages in the same order, and so that an upgrade
-- of the operating system's collations cannot break an index.

-- What the machine's calendar says, in microseconds since 1970. The one place where a time is read; a function, so that
-- tests can put another calendar in its place.
CREATE FUNCTION tidelock.calendar() RETURNS bigint
    LANGUAGE sql VOLATILE
    AS $$ SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint $$;

-- Where positions come from. Whoever appends draws one for each event; nobody waits for anybody, so a position can become
-- visible after a later one. Tickets, below, keep readers of the feed from passing it meanwhile.
--
-- It keeps no numbers back for a session (CACHE 1), and must never: those would have been drawn before the ticket. It has
-- given out 0, which no event has.
CREATE SEQUENCE tidelock.positions AS bigint MINVALUE 0 START 0 CACHE 1;

SELECT nextval('tidelock.positions');

-- One row: what must survive although no other row says it. It changes about once a second, while somebody writes.
CREATE TABLE tidelock.meta (
    one            boolean PRIMARY KEY CHECK (one),
    position_floor bigint  NOT NULL,     -- positions up to here were given out, though their events may be gone
    clock          bigint  NOT NULL,     -- a moment that the store's clock is past
    shift          bigint  NOT NULL,     -- how far the store's clock is ahead of the calendar, since that was set back
    epoch          bigint  NOT NULL      -- of the rows in `epochs`, the newest
);

INSERT INTO tidelock.meta (one, position_floor, clock, shift, epoch) VALUES (true, 0, 0, 0, 0);

-- Where the database was when an epoch began. What came after `last_before` in an earlier epoch, and is not here, is lost.
--
-- An epoch's number is the moment at which it began, in microseconds since 1970; the first has 0. Positions and fences go on
-- from there. So of two copies that go on from the same state, the later one begins above all that the other gave out, for
-- nobody makes a million commits in a second; and a number stays below 2^53, which every JSON parser can read, until 2255.
CREATE TABLE tidelock.epochs (
    epoch       bigint PRIMARY KEY,
    home        text   NOT NULL,         -- which run of which server and which table this is; another one begins an epoch
    last_before bigint NOT NULL          -- the last position of the epochs before that is still here
);

-- The log: streams, and their events in the order of the feed.
CREATE TABLE tidelock.streams (
    name    text    COLLATE "C" PRIMARY KEY,
    version bigint  NOT NULL,                -- how many events it ever had
    first   bigint  NOT NULL DEFAULT 1,      -- the oldest that was not trimmed away
    closed  boolean NOT NULL DEFAULT false   -- refuses every append
) WITH (fillfactor = 80);

CREATE TABLE tidelock.events (
    position    bigint NOT NULL PRIMARY KEY,
    stream      text   COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    id          uuid   NOT NULL UNIQUE,
    type        text   COLLATE "C" NOT NULL,
    payload     text   NOT NULL,             -- JSON, as it was given
    metadata    text   NOT NULL,             -- a JSON object, as it was given
    recorded_at bigint NOT NULL,             -- microseconds since 1970
    UNIQUE (stream, version)
);

-- Records. A row stays when its record is deleted: its revision must never be used again.
CREATE TABLE tidelock.records (
    key        text   COLLATE "C" PRIMARY KEY,
    revision   bigint NOT NULL,
    value      text,                         -- JSON; NULL: deleted
    expires_at bigint                        -- reads as deleted from then on
) WITH (fillfactor = 80);

CREATE INDEX records_expiring ON tidelock.records (expires_at) WHERE expires_at IS NOT NULL;

-- Work items. They change often and stay small: room is left in each page, and dead rows are cleared away early.
CREATE TABLE tidelock.items (
    queue    text     COLLATE "C" NOT NULL,
    key      text     COLLATE "C" NOT NULL,
    lane     text     COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    at       bigint   NOT NULL,              -- done up to here
    mark     bigint   NOT NULL,              -- work up to here
    due      bigint,                         -- has something to do from then on
    hold     bigint,                         -- not to be leased before then
    ready    bigint,                         -- derived from the rest: can be leased from then on
    attempts integer  NOT NULL,
    failures integer  NOT NULL,
    expiries integer  NOT NULL,
    blocked  boolean  NOT NULL,
    error    text,
    fence    bigint,                         -- of the newest lease
    worker   text,                           -- who holds it
    since    bigint,
    deadline bigint,
    settled  text,                           -- how the newest lease ended
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);

-- Only what is or will be ready is in here, so that leasing never looks at what is idle.
CREATE INDEX items_ready ON tidelock.items (queue, lane, priority, ready, key) WHERE ready IS NOT NULL;

-- What somebody who looks asks for most, and what there are few of: neither is looked for among what is idle.
CREATE INDEX items_blocked ON tidelock.items (queue, key) WHERE blocked;
CREATE INDEX items_held ON tidelock.items (queue, key) WHERE worker IS NOT NULL;

-- Commits that had an id, with what they did.
CREATE TABLE tidelock.commits (
    id           uuid   PRIMARY KEY,
    fingerprint  uuid   NOT NULL,
    committed    text   NOT NULL,            -- JSON; new positions in it say which of `positions` they are
    positions    bigint[] NOT NULL,
    committed_at bigint NOT NULL
);

CREATE INDEX commits_by_age ON tidelock.commits (committed_at);

-- The last position that an event was given, and the moment.
CREATE FUNCTION tidelock.last(OUT base bigint, OUT moment bigint)
    LANGUAGE sql VOLATILE
    AS $$
        SELECT greatest(m.position_floor, e.position), greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at)
        FROM tidelock.meta m
        LEFT JOIN LATERAL (
            SELECT position, recorded_at FROM tidelock.events ORDER BY position DESC LIMIT 1) e ON true
        WHERE m.one
    $$;

-- Takes a ticket: says that this transaction may have positions after this one, which nobody sees until it ends. Whoever appends
-- takes one after all row locks and before the first position, with the last position drawn so far: every position that is
-- drawn from then on is above. The server takes it back at the very end of the transaction, when what was written is
-- visible, or never will be.
--
-- A ticket is two advisory locks, which all share and nobody waits for: the upper and the lower half of a number that is too
-- long for one. The upper one comes first, so that there is never a lower one without it.
--
-- The last position is pg_sequence_last_value('tidelock.positions'), and never read as a column of the sequence: such a read can
-- fall into the moment in which the server has put a number there that is ahead, for its own log.
--
-- One expression, which the server puts where it is called, if the position is a variable or a column there: a call takes longer
-- than what it does. Gives true, because what gives nothing cannot stand in an expression.
CREATE FUNCTION tidelock.take_ticket(after bigint) RETURNS boolean
    LANGUAGE sql VOLATILE
    AS $$
        SELECT pg_advisory_xact_lock_shared(
                   'tidelock.positions'::regclass::oid::integer, (-1 - (after >> 31))::integer) IS NOT NULL
           AND pg_advisory_xact_lock_shared(
                   'tidelock.positions'::regclass::oid::integer, (after & 2147483647)::integer) IS NOT NULL
    $$;

-- The tickets that are out, and after which position each of them may have some.
CREATE VIEW tidelock.tickets AS
    SELECT pid, virtualtransaction,
           (min(4294967295 - objid::bigint) FILTER (WHERE objid::bigint > 2147483647) << 31)
               + min(objid::bigint) FILTER (WHERE objid::bigint <= 2147483647) AS after
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 'tidelock.positions'::regclass AND objsubid = 2 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY pid, virtualtransaction;

-- Up to where the feed is settled: whatever has a position up to there is visible to every snapshot taken from now on, or
-- will never be. And the last position drawn, which is read first: whoever takes a ticket too late to be seen here draws
-- after it.
CREATE FUNCTION tidelock.settled(OUT last bigint, OUT settled bigint)
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    last := pg_sequence_last_value('tidelock.positions');
    settled := least(last, (SELECT min(t.after) FROM tidelock.tickets t));
END $$;

-- Appends one event to a stream, if that is open and at the version that is expected: -1 is any, -2 is any but none, 0 is
-- none. Gives the moment, the version that the stream had and the event's position; null, if nothing happened because it
-- was not as expected. An array, because a row would be stored away and fetched again.
CREATE FUNCTION tidelock.append_one(
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
    IF expected = 0 THEN
        INSERT INTO tidelock.streams AS s (name, version) VALUES (to_stream, 1)
            ON CONFLICT (name) DO NOTHING RETURNING 0 INTO before;
    ELSIF expected = -1 THEN
        INSERT INTO tidelock.streams AS s (name, version) VALUES (to_stream, 1)
            ON CONFLICT (name) DO UPDATE SET version = s.version + 1 WHERE NOT s.closed
            RETURNING s.version - 1 INTO before;
    ELSE
        UPDATE tidelock.streams s SET version = s.version + 1
            WHERE s.name = to_stream AND NOT s.closed AND (expected = -2 OR s.version = expected)
            RETURNING s.version - 1 INTO before;
    END IF;
    IF before IS NULL THEN
        RETURN NULL;
    END IF;
    last := pg_sequence_last_value('tidelock.positions');
    ticket := tidelock.take_ticket(last);
    -- The moment is as tidelock.last() has it; spelled out, because a function in SQL is planned anew with every call.
    INSERT INTO tidelock.events (position, stream, version, id, type, payload, metadata, recorded_at)
        SELECT nextval('tidelock.positions'), to_stream, before + 1, new_id, new_type, new_payload, new_metadata,
               greatest(tidelock.calendar() + m.shift, m.clock, e.recorded_at)
        FROM tidelock.meta m LEFT JOIN LATERAL (
            SELECT e.recorded_at FROM tidelock.events e ORDER BY e.position DESC LIMIT 1) e ON true
        WHERE m.one
        RETURNING position, recorded_at INTO placed, moment;
    RETURN ARRAY[moment, before, placed];
END $$;

-- The same for many streams, each named once and sorted by name, with any number of events. Rows that are there are changed
-- in that order; then those that are not are created in that order. So no two batches ever wait for each other. That order hangs
-- on the plan, which must take name by name; behind a pooler nobody but the function itself can say so.
--
-- The leases that are named, sorted by item, must stand. They are locked where the long way locks them: after the streams that are
-- there. If one is lost, nothing of the batch is made this way.
--
-- The events are listed in the order of the streams; `owners` says which each belongs to, and `ordinals` which of that
-- stream's it is, both counted from 1. Gives the moment, the version that each stream had, which is -1 for one that was not
-- as expected, and a position for each event. The positions of events that are not written are left out of the feed.
CREATE FUNCTION tidelock.append_many(
        names text[], expectations bigint[], counts bigint[],
        owners integer[], ordinals bigint[], streams text[], ids uuid[], types text[], payloads text[], metadata text[],
        queues text[], items text[], fences bigint[])
    RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    stand  bigint;
    before bigint[] := array_fill(-1::bigint, ARRAY[cardinality(names)]);
    nth    bigint;
    had    bigint;
    made   text;
    last   bigint;
    ticket boolean;
    placed bigint[];
    moment bigint;
BEGIN
    FOR nth, had IN
        UPDATE tidelock.streams s SET version = s.version + n.count
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
        FOR made IN
            INSERT INTO tidelock.streams (name, version)
            SELECT n.name, n.count FROM unnest(names, expectations, counts, before) AS n (name, expected, count, before)
            WHERE n.expected IN (-1, 0) AND n.before < 0
            ON CONFLICT (name) DO NOTHING RETURNING name
        LOOP
            before[array_position(names, made)] := 0;
        END LOOP;
    END IF;
    IF 0 > ALL (before) THEN
        RETURN NULL;
    END IF;
    last := pg_sequence_last_value('tidelock.positions');
    ticket := tidelock.take_ticket(last);
    -- As tidelock.last() has it; spelled out, because a function in SQL is planned anew with every call.
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

-- Writes records for many commits, each key named once and sorted. `owners` says which commit each belongs to. An expectation is
-- -1: anything, -2: a record, -3: a key that was never written, 0: no record, or else the revision of the record that must be there.
-- A value that is null takes the record away, for which one must be there. A record goes away by itself at `ends`, or after `lives`.
-- `makers` are those of the commits that have an id; their results are remembered.
--
-- First it looks, without a lock: whoever is refused by what is there has held up nobody, and has nothing to wait for. What is
-- left is written where it is still as it looked; if any of it is not, the server undoes it all, as for any other race. The
-- moment is later than the look, and a record that ran out since then is no longer what was judged.
--
-- As above, rows are changed and created in the order of their keys.
--
-- Gives the moment, the revision that each key had (0: none), and which keys were not as expected, counted from 1, with the value
-- and the expiry that were seen there. Of a commit that has one of those nothing is written.
CREATE FUNCTION tidelock.write_many(
        keys text[], owners integer[], expectations bigint[], new_values text[], ends bigint[], lives bigint[],
        makers integer[], ids uuid[], fingerprints uuid[], results text[],
        OUT moment bigint, OUT before bigint[], OUT clashes bigint[], OUT seen text[], OUT expiries bigint[])
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    refused   integer[];
    changes   bigint;
    creations bigint;
    written   bigint;
    runs_out  bigint;
BEGIN
    SELECT max(l.moment), array_agg(l.revision),
           array_agg(l.nth) FILTER (WHERE NOT l.holds), array_agg(l.owner) FILTER (WHERE NOT l.holds),
           array_agg(l.value) FILTER (WHERE NOT l.holds), array_agg(l.expires_at) FILTER (WHERE NOT l.holds),
           min(l.expires_at) FILTER (WHERE l.expires_at > l.moment),
           count(*) FILTER (WHERE l.revision > 0), count(*) FILTER (WHERE l.revision = 0)
        INTO moment, before, clashes, refused, seen, expiries, runs_out, changes, creations
        FROM (
            SELECT m.moment, n.nth, n.owner, coalesce(r.revision, 0) AS revision, r.value, r.expires_at,
                   CASE n.expected
                       WHEN -1 THEN true
                       WHEN -2 THEN r.value IS NOT NULL AND (r.expires_at IS NULL OR r.expires_at > m.moment)
                       WHEN -3 THEN r.key IS NULL
                       WHEN 0 THEN r.value IS NULL OR r.expires_at <= m.moment
                       ELSE r.revision = n.expected AND r.value IS NOT NULL
                           AND (r.expires_at IS NULL OR r.expires_at > m.moment)
                   END IS TRUE AS holds
            FROM (SELECT greatest(tidelock.calendar() + shift, clock) AS moment FROM tidelock.meta WHERE one OFFSET 0) m
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
            SET revision = r.revision + 1, value = n.value, expires_at = coalesce(n.ends, write_many.moment + n.lives)
            FROM unnest(keys, owners, before, new_values, ends, lives) AS n (key, owner, revision, value, ends, lives)
            WHERE r.key = n.key AND r.revision = n.revision AND n.owner <> ALL (refused);
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written < changes OR runs_out <= (SELECT greatest(tidelock.calendar() + shift, clock) FROM tidelock.meta) THEN
            RAISE serialization_failure USING MESSAGE = 'a record has changed since it was looked at';
        END IF;
    END IF;
    IF creations > 0 THEN
        INSERT INTO tidelock.records (key, revision, value, expires_at)
            SELECT n.key, 1, n.value, coalesce(n.ends, write_many.moment + n.lives)
            FROM unnest(keys, owners, before, new_values, ends, lives) AS n (key, owner, revision, value, ends, lives)
            WHERE n.revision = 0 AND n.owner <> ALL (refused);
    END IF;
    IF cardinality(ids) > 0 THEN
        INSERT INTO tidelock.commits (id, fingerprint, committed, positions, committed_at)
            SELECT n.id, n.fingerprint, n.result, '{}', write_many.moment
            FROM unnest(makers, ids, fingerprints, results) AS n (maker, id, fingerprint, result)
            WHERE n.maker <> ALL (refused);
    END IF;
END $$;

-- The only way in which events go away. It runs with its owner's rights: the application's role may not delete events.
CREATE FUNCTION tidelock.trim(trimmed text, through bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE tidelock.streams SET first = greatest(first, through + 1)
        WHERE name = trimmed AND closed AND through <= version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream %: only a closed stream can be trimmed, and only up to its version', trimmed;
    END IF;
    -- The newest positions may be among those that go; they must not be given out again.
    UPDATE tidelock.meta
        SET position_floor = greatest(position_floor, (SELECT coalesce(max(position), 0) FROM tidelock.events));
    DELETE FROM tidelock.events WHERE stream = trimmed AND version <= through;
END $$;

-- Takes away rows that were there only to keep others from creating them meanwhile. Nobody else ever sees one: they are
-- made and taken away in the same transaction.
CREATE FUNCTION tidelock.let_go(held_streams text[], held_records text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM tidelock.streams WHERE name = ANY (held_streams) AND version = 0;
    DELETE FROM tidelock.records WHERE key = ANY (held_records) AND revision = 0;
END $$;

-- Where this database lives: which server, since which of its starts and on which of its timelines, and which copy of the
-- tables. A promoted standby, a restored backup, a copied database and tables that were filled anew each have another.
-- So has a server that was merely started again, because nothing else tells that from one whose files were put back.
CREATE FUNCTION tidelock.home() RETURNS text
    LANGUAGE sql VOLATILE
    AS $$
        SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
                         (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
                         left(pg_walfile_name(pg_current_wal_lsn()), 8),
                         (SELECT oid FROM pg_database WHERE datname = current_database()),
                         'tidelock.meta'::regclass::oid, pg_relation_filenode('tidelock.meta'))
    $$;

INSERT INTO tidelock.epochs (epoch, home, last_before) VALUES (0, tidelock.home(), 0);

-- Begins an epoch if this one is over: if the database is not where it was when that began. An epoch without an event ends
-- where the one before it did. It runs with its owner's rights: the application's role may draw positions, but not say
-- which come next. Here they only ever move ahead.
CREATE FUNCTION tidelock.begin_epoch(ended bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    here text := tidelock.home();
    next bigint;
    last bigint;
BEGIN
    PERFORM FROM tidelock.meta WHERE epoch = ended FOR UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM tidelock.epochs e WHERE e.epoch = ended AND e.home = here) THEN
        RETURN;
    END IF;
    SELECT greatest(l.moment, l.base + 1, pg_sequence_last_value('tidelock.positions') + 1),
           CASE l.base WHEN ended THEN e.last_before ELSE l.base END
        INTO next, last
        FROM tidelock.epochs e, tidelock.last() l WHERE e.epoch = ended;
    PERFORM setval('tidelock.positions', next);
    UPDATE tidelock.meta SET epoch = next, position_floor = next;
    INSERT INTO tidelock.epochs (epoch, home, last_before) VALUES (next, here, last);
END $$;

-- Functions can be called by everybody unless that is taken back.
REVOKE ALL ON FUNCTION tidelock.trim(text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION tidelock.let_go(text[], text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION tidelock.begin_epoch(bigint) FROM PUBLIC;
