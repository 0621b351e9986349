//! The PostgreSQL store against the whole suite, each case in a schema of its own.

mod subject;

fn main() {
    tidelock_store_conformance::main(subject::PostgresSubject::new);
}
