//! Differential test: the same random histories in memory and on SQLite must give the same answers.

mod subject;

use subject::SqliteSubject;
use tidelock_store_conformance::{MemorySubject, Runs, check_differential};

#[test]
fn memory_and_sqlite_give_the_same_answers() {
    check_differential(
        || async { MemorySubject::default() },
        || async { SqliteSubject::over(|_, _| ()) },
        Runs::new(128),
    );
}
