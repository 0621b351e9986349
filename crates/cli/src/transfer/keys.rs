//! The only place where a name of this part is spelled.

use tidelock::{LaneName, RecordKey, StoreError, WorkerName};
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

/// Where items are while they are made, so that those are leased and no others.
pub(super) fn lane() -> Result<LaneName, StoreError> {
    LaneName::new("~import")
}

pub(super) fn worker() -> Result<WorkerName, StoreError> {
    WorkerName::new("tidelock-import")
}
