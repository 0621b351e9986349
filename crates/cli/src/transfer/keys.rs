//! The only place where a name of this part is spelled.

use tidelock::{RecordKey, StoreError};
use uuid::Uuid;

const IMPORT: &str = "~import/";

/// How far an import has come.
pub(super) fn note(export: Uuid) -> Result<RecordKey, StoreError> {
    RecordKey::new(format!("{IMPORT}{export}"))
}

/// Whether a record is a note of an import; it is no part of what is exported.
pub(super) fn is_note(key: &RecordKey) -> bool {
    key.as_str().starts_with(IMPORT)
}
