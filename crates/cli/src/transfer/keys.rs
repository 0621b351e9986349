//! The import's keys: the only place where they are spelled.

use tidelock::store::{RecordKey, StoreError};
use uuid::Uuid;

const IMPORT: &str = "~import/";

/// The record of an import's progress.
pub(super) fn note(export: Uuid) -> Result<RecordKey, StoreError> {
    RecordKey::new(format!("{IMPORT}{export}"))
}

/// Whether a record is the progress of an import; it is not exported.
pub(super) fn is_note(key: &RecordKey) -> bool {
    key.as_str().starts_with(IMPORT)
}
