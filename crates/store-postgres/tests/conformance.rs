//! The PostgreSQL store against the whole conformance suite, each case in its own schema.

mod subject;

fn main() {
    tidelock_store_conformance::main(|| subject::PostgresSubject::over(""));
}
