//! The record of a job: what the work item has no room for.
//!
//! Most jobs have none. It is written with the enqueue if there is metadata, by the handler if it
//! reports progress, and with the end of the job if something of it is kept; then it expires.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    ExpectedRevision, ItemRef, RawJson, RecordWrite, Result, Slot, Timestamp, When,
};

use super::keys;
use crate::metadata::Metadata;

/// How long the record of a job is kept that is neither finished nor handled: a worker in another
/// language may finish the job without knowing of its record.
const UNFINISHED: Duration = Duration::from_secs(90 * 24 * 3_600);

/// How long the record of a job is kept that an operator ended.
pub(crate) const OPERATED: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The content of a job's record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    /// Metadata of the enqueue, which events of the handler inherit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<RawJson>,
    /// The last progress that the handler reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<RawJson>,
    /// What became of it, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<JobEnd>,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobEnd {
    pub(crate) outcome: EndedAs,
    /// How long the record is kept. With its expiry, it tells when the job ended by the clock of
    /// the store.
    pub(crate) kept: Duration,
    /// The handler's result, if it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<RawJson>,
    /// Why an operator ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndedAs {
    Done,
    Cancelled,
    Discarded,
}

impl JobEnd {
    /// When the job ended, by the expiry of its record.
    pub(crate) fn at(&self, expires_at: Option<Timestamp>) -> Option<Timestamp> {
        let kept = i64::try_from(self.kept.as_micros()).ok()?;
        Timestamp::from_micros(expires_at?.micros().checked_sub(kept)?).ok()
    }
}

impl JobRecord {
    /// Reads the record; empty if there is none.
    pub(crate) fn read(slot: &Slot) -> Result<Self> {
        slot.live().map_or_else(|| Ok(Self::default()), |record| record.value.to())
    }

    /// The record of a new job; none, if it has nothing to say.
    pub(crate) fn enqueued(metadata: &Metadata) -> Result<Option<Self>> {
        if *metadata == Metadata::new() {
            return Ok(None);
        }
        Ok(Some(Self { metadata: Some(metadata.to_json()?), ..Self::default() }))
    }

    /// The metadata that events of the handler inherit.
    pub(crate) fn inherited(&self) -> Metadata {
        self.metadata.as_ref().map(Metadata::from_json).unwrap_or_default()
    }

    /// The write of the record of a job that has ended.
    pub(crate) fn ended(item: &ItemRef, end: JobEnd) -> Result<RecordWrite> {
        let kept = end.kept;
        Self { end: Some(end), ..Self::default() }.write_for(item, kept)
    }

    /// The write of an unfinished job's record.
    pub(crate) fn write(&self, item: &ItemRef) -> Result<RecordWrite> {
        self.write_for(item, UNFINISHED)
    }

    /// The write of the record, which is kept for this long.
    fn write_for(&self, item: &ItemRef, kept: Duration) -> Result<RecordWrite> {
        let write = RecordWrite::put(&keys::job(item), ExpectedRevision::Any, RawJson::new(self)?);
        Ok(write.expiring(When::In(kept)))
    }
}
