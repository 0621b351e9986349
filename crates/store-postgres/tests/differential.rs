//! Differential test: the same random histories on PostgreSQL and on the other stores must give the
//! same answers.

#[path = "../../store-sqlite/tests/subject/mod.rs"]
mod sqlite_subject;
mod subject;

use sqlite_subject::SqliteSubject;
use subject::PostgresSubject;
use tidelock_store_conformance::{MemorySubject, Runs, check_differential};

#[test]
fn memory_and_postgres_give_the_same_answers() {
    check_differential(
        || async { MemorySubject::default() },
        || PostgresSubject::over(""),
        Runs::new(32),
    );
}

#[test]
fn sqlite_and_postgres_give_the_same_answers() {
    check_differential(
        || async { SqliteSubject::over(|_, _| ()) },
        || PostgresSubject::over(""),
        Runs::new(32),
    );
}
