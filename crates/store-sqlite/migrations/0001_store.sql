-- The log: streams, and their events in the order of the feed.
CREATE TABLE tidelock_streams (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,
    version INTEGER NOT NULL,            -- how many events it ever had
    first   INTEGER NOT NULL,            -- the oldest that was not trimmed away
    closed  INTEGER NOT NULL             -- 1: refuses every append
) STRICT;

CREATE TABLE tidelock_events (
    position    INTEGER PRIMARY KEY,
    stream      INTEGER NOT NULL REFERENCES tidelock_streams (id),
    version     INTEGER NOT NULL,
    id          BLOB    NOT NULL UNIQUE, -- 16 bytes
    type        TEXT    NOT NULL,
    payload     TEXT    NOT NULL,        -- JSON, as it was given
    metadata    TEXT    NOT NULL,        -- a JSON object, as it was given
    recorded_at INTEGER NOT NULL,        -- microseconds since 1970
    UNIQUE (stream, version)
) STRICT;

-- Records. A row stays when its record is deleted: its revision must never be used again.
CREATE TABLE tidelock_records (
    key        TEXT    NOT NULL UNIQUE,
    revision   INTEGER NOT NULL,
    value      TEXT,                     -- JSON; NULL: deleted
    expires_at INTEGER                   -- reads as deleted from then on
) STRICT;

CREATE INDEX tidelock_records_expiring ON tidelock_records (expires_at) WHERE expires_at IS NOT NULL;

-- Work items.
CREATE TABLE tidelock_items (
    queue    TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    lane     TEXT    NOT NULL,
    priority INTEGER NOT NULL,
    at       INTEGER NOT NULL,           -- done up to here
    mark     INTEGER NOT NULL,           -- work up to here
    due      INTEGER,                    -- has something to do from then on
    hold     INTEGER,                    -- not to be leased before then
    ready    INTEGER,                    -- derived from the rest: can be leased from then on
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    expiries INTEGER NOT NULL,
    blocked  INTEGER NOT NULL,
    error    TEXT,
    fence    INTEGER,                    -- of the newest lease
    worker   TEXT,                       -- who holds it
    since    INTEGER,
    deadline INTEGER,
    settled  TEXT,                       -- how the newest lease ended
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

-- Only what is or will be ready is in here, so that leasing never looks at what is idle.
CREATE INDEX tidelock_items_ready ON tidelock_items (queue, lane, priority, ready, key) WHERE ready IS NOT NULL;

-- What somebody who looks asks for most, and what there are few of: neither is looked for among what is idle.
CREATE INDEX tidelock_items_blocked ON tidelock_items (queue, key) WHERE blocked = 1;
CREATE INDEX tidelock_items_held ON tidelock_items (queue, key) WHERE worker IS NOT NULL;

-- Commits that had an id, with what they did.
CREATE TABLE tidelock_commits (
    id           BLOB    NOT NULL PRIMARY KEY, -- 16 bytes
    fingerprint  BLOB    NOT NULL,             -- 16 bytes
    committed    TEXT    NOT NULL,             -- JSON
    committed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tidelock_commits_by_age ON tidelock_commits (committed_at);

-- One row: what must survive although no other row says it.
CREATE TABLE tidelock_meta (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    clock          INTEGER NOT NULL,     -- a moment that every clock on this file is past
    position_floor INTEGER NOT NULL      -- positions up to here were given out, though trimmed since
) STRICT;

INSERT INTO tidelock_meta (one, clock, position_floor) VALUES (1, 0, 0);
