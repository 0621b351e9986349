ALTER TABLE tidelock.migrations ADD COLUMN IF NOT EXISTS works_with integer
