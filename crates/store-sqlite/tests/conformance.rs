//! The SQLite store against the whole suite, each case on a file of its own.

mod subject;

fn main() {
    tidelock_store_conformance::main(|| async { subject::SqliteSubject::new() });
}
