//! Schedule 120: the whole conformance suite on a schema that the next version has migrated.
//!
//! That version only adds, and says that this one works with it: a table, and to every table a
//! column without a value, a column with a default, and an index. Each handle of each case is
//! opened on that, as a program is that is restarted while its fleet is being upgraded.

mod subject;

use tidelock_store_postgres::SCHEMA_VERSION;

/// What the next version's migration does.
const EXPAND: &str = "
    CREATE TABLE @.next (a bigint PRIMARY KEY);
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '@' LOOP
            EXECUTE format('ALTER TABLE @.%1$I ADD COLUMN next_note text,
                ADD COLUMN next_count integer NOT NULL DEFAULT 7', name);
            EXECUTE format('CREATE INDEX ON @.%1$I (next_note) WHERE next_note IS NOT NULL', name);
        END LOOP;
    END $$;
    INSERT INTO @.migrations (number, name, checksum, applied_at, works_with)
        VALUES (OWN + 1, 'next', 'of a script that this version does not have', now(), OWN)";

fn main() {
    let script: &str = EXPAND.replace("OWN", &SCHEMA_VERSION.to_string()).leak();
    tidelock_store_conformance::main(|| subject::PostgresSubject::over(script));
}
