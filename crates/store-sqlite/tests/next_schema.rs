//! Schedule 120: the whole conformance suite on a file that the next version has migrated.
//!
//! That version only adds, and says that this one works with it: a table, and to every table a
//! column without a value, a column with a default, and an index. Each handle of each case is
//! opened on that, as a program is that is restarted while its fleet is being upgraded.

mod subject;

use std::path::Path;

use rusqlite::Connection;
use tidelock_store_sqlite::{SCHEMA_VERSION, SqliteOptions, SqliteStore};

fn main() {
    tidelock_store_conformance::main(|| async { subject::SqliteSubject::over(expand) });
}

/// Does what the next version's migration does.
fn expand(path: &Path, options: &SqliteOptions) {
    drop(SqliteStore::open(path, options).expect("the file opens"));
    let file = Connection::open(path).expect("the file opens");
    let mut statement = file
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'tidelock%'")
        .expect("the tables are listed");
    let tables = statement.query_map([], |row| row.get::<_, String>(0)).expect("they are read");
    let tables: Vec<_> = tables.map(|name| name.expect("a name")).collect();
    assert!(tables.len() >= 7, "{tables:?}");
    let mut script = "BEGIN; CREATE TABLE tidelock_next (a INTEGER PRIMARY KEY) STRICT;".to_owned();
    for table in tables {
        script.push_str(&format!(
            "ALTER TABLE {table} ADD COLUMN next_note TEXT;
             ALTER TABLE {table} ADD COLUMN next_count INTEGER NOT NULL DEFAULT 7;
             CREATE INDEX {table}_next ON {table} (next_note) WHERE next_note IS NOT NULL;"
        ));
    }
    let next = SCHEMA_VERSION + 1;
    script.push_str(&format!(
        "INSERT INTO tidelock_migrations (number, name, checksum, applied_at, works_with)
             VALUES ({next}, 'next', 'of a script that this version does not have', 0, {SCHEMA_VERSION});
         COMMIT"
    ));
    file.execute_batch(&script).expect("the next version migrates");
}
