//! Record keys of this module, spelled only here.

use tidelock_store::{RecordKey, Result};

/// Record of the value of a unit of work under an operation id.
pub(crate) fn operation(id: &str) -> Result<RecordKey> {
    RecordKey::new(format!("~transaction/{id}"))
}
