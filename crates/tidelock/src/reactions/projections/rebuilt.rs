//! How far the row of one target is rebuilt: a record beside the row, for as long as the rebuild
//! lasts.

use serde::{Deserialize, Serialize};
use tidelock_store::{ExpectedRevision, Mark, RawJson, RecordKey, RecordWrite, Result, Slot};

/// The content of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rebuilt {
    /// Events up to this mark are in the row.
    pub(crate) at: Mark,
    /// Why there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Rebuilt {
    pub(crate) fn read(slot: &Slot) -> Result<Option<Self>> {
        slot.live().map(|record| record.value.to()).transpose()
    }

    pub(crate) fn write(&self, key: &RecordKey) -> Result<RecordWrite> {
        Ok(RecordWrite::put(key, ExpectedRevision::Any, RawJson::new(self)?))
    }
}
