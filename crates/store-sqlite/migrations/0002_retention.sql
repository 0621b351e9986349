-- Rows that are done leave the store. Each says when, and an index finds those that are due without looking at the rest.
-- What must not come back, although no row says it any more, is kept as a floor.

ALTER TABLE tidelock_streams ADD COLUMN forget_at INTEGER; -- forgotten from then on, if it is still empty

CREATE INDEX tidelock_streams_leaving ON tidelock_streams (forget_at) WHERE forget_at IS NOT NULL;

ALTER TABLE tidelock_items ADD COLUMN forget_at INTEGER;   -- forgotten from then on, if it is still idle

CREATE INDEX tidelock_items_leaving ON tidelock_items (forget_at) WHERE forget_at IS NOT NULL;

-- A record that was deleted has a time as well, an hour later: from then on it is forgotten.
UPDATE tidelock_records SET expires_at = (SELECT clock FROM tidelock_meta) + 3600000000 WHERE value IS NULL;

-- A commit says for how long it is remembered. Those from before this migration, and those of an older program that still has
-- the file open, do not: they are remembered for seven days.
ALTER TABLE tidelock_commits ADD COLUMN forget_at INTEGER;

DROP INDEX tidelock_commits_by_age;

CREATE INDEX tidelock_commits_leaving ON tidelock_commits (coalesce(forget_at, committed_at + 604800000000));

-- The highest version of the streams that were forgotten, by the part of their names up to the first slash.
CREATE TABLE tidelock_version_floors (
    category TEXT    NOT NULL PRIMARY KEY,
    version  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE tidelock_meta ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;             -- of the rows in tidelock_epochs, the newest
ALTER TABLE tidelock_meta ADD COLUMN revision_floor INTEGER NOT NULL DEFAULT 0;    -- no new record has a revision up to here
ALTER TABLE tidelock_meta ADD COLUMN fence_floor INTEGER NOT NULL DEFAULT 0;       -- no new lease has a fence up to here
ALTER TABLE tidelock_meta ADD COLUMN streams_forgotten INTEGER NOT NULL DEFAULT 0; -- how many; their ids may be used again

-- Where the file was when an epoch began. What came after last_before in an earlier epoch, and is not here, is lost.
--
-- An epoch's number is the moment at which it began, in microseconds since 1970; the first has 0. Positions, fences and
-- revisions go on from there. So of two copies that go on from the same state, the later one begins above all that the other
-- gave out, for a million commits in a second are not made; and a number stays below 2^53, which every JSON parser can
-- read, until 2255.
CREATE TABLE tidelock_epochs (
    epoch       INTEGER PRIMARY KEY,
    home        TEXT    NOT NULL,        -- which file this was; another one begins an epoch
    last_before INTEGER NOT NULL         -- the last position of the epochs before that is still here
) STRICT;
