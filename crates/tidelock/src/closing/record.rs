//! The record of a closing: its plan and its progress.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    ExpectedRevision, RawJson, Record, RecordQuery, RecordWrite, Result, Revision, Store,
    StoreError, StoreExt, StreamName, Timestamp, Version, When,
};

use super::keys;

/// How long a finished closing is remembered. The stream itself records that it is closed.
const DONE_MEMORY: Duration = Duration::from_secs(7 * 24 * 3600);

/// One closing of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClosingRecord {
    pub(crate) plan: Plan,
    /// Events up to this version are to be removed.
    pub(crate) through: Version,
    /// Events up to this version are archived.
    pub(crate) archived: Option<Version>,
    /// When it began; unknown for closings that older programs began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begun_at: Option<Timestamp>,
    pub(crate) done: bool,
    /// Revision of this record.
    #[serde(skip)]
    pub(crate) revision: Option<Revision>,
}

/// What becomes of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plan {
    /// It stays closed.
    StayClosed,
    /// It is closed, emptied and opened again.
    Restart,
    /// Its oldest events are removed; it stays open for its users.
    Window {
        /// Number of events to keep.
        keep: u64,
    },
}

impl Plan {
    /// Whether the stream accepts events afterwards.
    pub(crate) fn goes_on(self) -> bool {
        self != Self::StayClosed
    }

    /// Whether a tombstone is appended first.
    pub(crate) fn shuts(self) -> bool {
        !matches!(self, Self::Window { .. })
    }

    /// Returns the last version to remove, for a stream at this version with this oldest event;
    /// `None` if there is nothing to remove.
    pub(super) fn through(self, version: Version, first: Option<Version>) -> Option<Version> {
        match self {
            Self::StayClosed => Some(version),
            Self::Restart => first.map(|_| version),
            Self::Window { keep } => {
                let through = Version::new(version.get().checked_sub(keep)?).ok()?;
                first.filter(|first| *first <= through).map(|_| through)
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StayClosed => f.write_str("close()"),
            Self::Restart => f.write_str("restart()"),
            Self::Window { keep } => write!(f, "keep_last({keep})"),
        }
    }
}

impl ClosingRecord {
    /// Returns the last closing of this stream, finished or not.
    pub(super) async fn find(store: &dyn Store, stream: &StreamName) -> Result<Option<Self>> {
        let slot = store.get_one(&keys::record(stream)?).await?;
        let Some(record) = slot.into_live() else { return Ok(None) };
        Ok(Some(Self { revision: Some(record.revision), ..record.value.to()? }))
    }

    /// Builds the write of the record, on the condition that it is unchanged.
    pub(super) fn write(&self, stream: &StreamName) -> Result<RecordWrite> {
        let expected = self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision);
        let write = RecordWrite::put(&keys::record(stream)?, expected, RawJson::new(self)?);
        Ok(if self.done { write.expiring(When::In(DONE_MEMORY)) } else { write })
    }
}

/// A closing that began and is not finished, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnfinishedClosing {
    pub(crate) stream: StreamName,
    pub(crate) record: ClosingRecord,
    /// When the lease of its current or last caller expires.
    pub(crate) held_until: Option<Timestamp>,
}

impl UnfinishedClosing {
    /// Returns the query for the records of all closings.
    pub(crate) fn query() -> RecordQuery {
        RecordQuery::prefix(keys::RECORDS)
    }

    /// Reads one of those records; `None` if the closing is finished.
    pub(crate) async fn read(store: &dyn Store, record: &Record) -> Result<Option<Self>> {
        let (key, record): (_, ClosingRecord) = (&record.key, record.value.to()?);
        if record.done {
            return Ok(None);
        }
        let stream = keys::stream_of(key).ok_or_else(|| {
            StoreError::corrupt(format!("record {key:?} is of no stream's closing"))
        })?;
        let holder = store.item(&keys::item(&stream)).await?.and_then(|item| item.holder);
        let held_until = holder.map(|holder| holder.deadline);
        Ok(Some(Self { stream, record, held_until }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_keeps_the_newest_events_and_is_empty_if_nothing_can_be_removed() {
        let version = |n| Version::new(n).unwrap();
        let window = |keep, at, first: Option<u64>| {
            Plan::Window { keep }.through(version(at), first.map(version))
        };
        assert_eq!(window(3, 10, Some(1)), Some(version(7)));
        assert_eq!(window(3, 10, Some(7)), Some(version(7)));
        assert_eq!(window(3, 10, Some(8)), None);
        assert_eq!(window(10, 10, Some(1)), None);
        assert_eq!(window(0, 10, None), None);
    }
}
