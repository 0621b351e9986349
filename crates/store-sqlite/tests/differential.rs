//! The same random histories on memory and on SQLite: every answer must be the same, not only the
//! end.

mod subject;

use subject::SqliteSubject;
use tidelock_store_conformance::{MemorySubject, Runs, check_differential};

#[test]
fn memory_and_sqlite_give_the_same_answers() {
    check_differential(
        || async { MemorySubject::default() },
        || async { SqliteSubject::new() },
        Runs::new(128),
    );
}
