-- Every name is spelled `tidelock.…`; a store in another schema gets that schema's name put in its place.
--
-- Names are compared byte by byte (COLLATE "C"), so that every store pages in the same order, and so that an upgrade
-- of the operating system's collations cannot break an index.

-- What the machine's calendar says, in microseconds since 1970. The one place where a time is read; a function, so that
-- tests can put another calendar in its place.
CREATE FUNCTION tidelock.calendar() RETURNS bigint
    LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- One row: the last position given out, and the store's clock. Whoever appends takes this row's lock last of all and
-- holds it until the commit is visible; that is why the feed never skips.
CREATE TABLE tidelock.meta (
    one           boolean PRIMARY KEY CHECK (one),
    last_position bigint  NOT NULL,
    clock         bigint  NOT NULL,      -- a moment that the store's clock is past
    shift         bigint  NOT NULL,      -- how far the store's clock is ahead of the calendar, since that was set back
    epoch         integer NOT NULL       -- how often the database was restored or promoted
);

INSERT INTO tidelock.meta (one, last_position, clock, shift, epoch) VALUES (true, 0, 0, 0, 0);

-- Where the database was when an epoch began. What came after `last_before` in an earlier epoch, and is not here, is lost.
CREATE TABLE tidelock.epochs (
    epoch       integer PRIMARY KEY,
    home        text    NOT NULL,        -- which server, timeline and table this is; another one begins an epoch
    last_before bigint  NOT NULL,        -- the last position of the epochs before that is still here
    first_after bigint  NOT NULL,        -- no position between the two was ever given out by what is here
    began_at    bigint  NOT NULL
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

-- Commits that had an id, with what they did.
CREATE TABLE tidelock.commits (
    id           uuid   PRIMARY KEY,
    fingerprint  uuid   NOT NULL,
    committed    text   NOT NULL,            -- JSON; new positions in it are counted from `base`
    base         bigint NOT NULL,
    committed_at bigint NOT NULL
);

CREATE INDEX commits_by_age ON tidelock.commits (committed_at);

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

-- Functions can be called by everybody unless that is taken back.
REVOKE ALL ON FUNCTION tidelock.trim(text, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION tidelock.let_go(text[], text[]) FROM PUBLIC;

-- Where this database lives: which server, which of its timelines, and which copy of the tables. A restored backup, a
-- promoted standby and a copied database each have another.
CREATE FUNCTION tidelock.home() RETURNS text
    LANGUAGE sql VOLATILE
    AS $$
        SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
                         left(pg_walfile_name(pg_current_wal_lsn()), 8),
                         (SELECT oid FROM pg_database WHERE datname = current_database()),
                         'tidelock.meta'::regclass::oid)
    $$;

INSERT INTO tidelock.epochs (epoch, home, last_before, first_after, began_at)
    VALUES (0, tidelock.home(), 0, 0, tidelock.calendar());
