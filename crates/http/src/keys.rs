//! Record keys of the API, spelled only here.

use tidelock::problem::Problem;
use tidelock::store::RecordKey;

/// Record of a commit that was made under an idempotency key.
pub(crate) fn commit(operation: &str) -> Result<RecordKey, Problem> {
    Ok(RecordKey::new(format!("~commit/{operation}"))?)
}

/// The record whose write is always refused. It never exists.
pub(crate) fn refused_commit() -> RecordKey {
    RecordKey::new("~commit/refused").expect("it is short and plain")
}
