CREATE TABLE IF NOT EXISTS tidelock.migrations (
    number     integer PRIMARY KEY,
    name       text    NOT NULL,
    checksum   text    NOT NULL,
    applied_at timestamptz NOT NULL,
    works_with integer
)
