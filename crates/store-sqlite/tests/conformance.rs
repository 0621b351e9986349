//! The SQLite store against the whole conformance suite, each case on its own file.

mod subject;

fn main() {
    tidelock_store_conformance::main(|| async { subject::SqliteSubject::over(|_, _| ()) });
}
