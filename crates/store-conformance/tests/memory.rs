//! The in-memory store against the whole suite.

fn main() {
    tidelock_store_conformance::main(|| async {
        tidelock_store_conformance::MemorySubject::default()
    });
}
