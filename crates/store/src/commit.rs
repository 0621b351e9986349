//! The atomic commit: any number of parts, all or none.
//!
//! Every expectation of a commit is judged against the state before it. Either every part holds and
//! is durable when the call returns, or nothing happened and the answer names each part that failed
//! and what is there now.

mod conflict;

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::{Timestamp, When};
use crate::error::{Result, StoreError};
use crate::ids::CommitId;
use crate::leases::{Item, LeaseToken, Settlement, Wake};
use crate::limits;
use crate::log::{Append, ExpectedVersion, NewEvent};
use crate::names::{RecordKey, StreamName};
use crate::numbers::{Position, Revision, Version};
use crate::records::{ExpectedRevision, RecordWrite};

pub use conflict::{Conflict, Part, Violation, ViolationKind, ViolationReason};

/// An optimistic-concurrency check on something that was only read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// The stream is still in this state, closed or not.
    Stream {
        /// The stream.
        stream: StreamName,
        /// The state it must be in.
        expected: ExpectedVersion,
    },
    /// The record is still in this state.
    Record {
        /// The record's key.
        key: RecordKey,
        /// The state it must be in.
        expected: ExpectedRevision,
    },
}

/// A part of a commit that removes the oldest events of a closed stream permanently.
///
/// A stream that is closed by an append of the same commit counts as closed. So one commit can
/// close, trim and reopen an open stream: it loses its oldest events and stays open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trim {
    /// The stream.
    pub stream: StreamName,
    /// The last version to remove.
    pub through: Version,
    /// What happens to the stream afterwards.
    pub then: AfterTrim,
}

impl Trim {
    fn check(&self) -> Result<()> {
        match self.then {
            AfterTrim::Forget(when) => when
                .check("forgetting")
                .map_err(|e| e.about(format_args!("trim of stream {:?}", self.stream))),
            AfterTrim::StayClosed | AfterTrim::Reopen => Ok(()),
        }
    }
}

/// What happens to a stream after a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTrim {
    /// It stays closed.
    StayClosed,
    /// It accepts appends again, already in this commit; its versions continue.
    Reopen,
    /// Reopens it; if no event is left and none is appended until then, the store forgets the
    /// stream after that moment. A forgotten stream reads as absent. Versions are not reused:
    /// streams of its [category](stream_category) that are created later begin above its last
    /// version.
    Forget(When),
}

impl AfterTrim {
    /// Whether the stream accepts appends after the trim.
    pub fn reopens(self) -> bool {
        self != Self::StayClosed
    }
}

/// The part of a stream's name that decides which streams begin above a forgotten stream's
/// versions: everything up to and including its first `/`, or the whole name if it has none.
pub fn stream_category(stream: &str) -> &str {
    stream.find('/').map_or(stream, |at| &stream[..=at])
}

/// One atomic write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Commit {
    /// Idempotency key: makes the commit safe to send again after an unknown outcome.
    pub id: Option<CommitId>,
    /// How long the id and the result are remembered; [`COMMIT_MEMORY`](limits::COMMIT_MEMORY) by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_memory: Option<Duration>,
    /// Events to append, at most one append per stream.
    pub appends: Vec<Append>,
    /// Changes to records, at most one per record.
    pub writes: Vec<RecordWrite>,
    /// Items to wake.
    pub wakes: Vec<Wake>,
    /// Leases to end, at most one per item. They end before the wakes are applied.
    pub settlements: Vec<Settlement>,
    /// Leases that must still be held.
    pub fences: Vec<LeaseToken>,
    /// Streams and records that must not have changed.
    pub guards: Vec<Guard>,
    /// Events to remove, at most one trim per stream.
    pub trims: Vec<Trim>,
    /// Items to recreate as they were in another store, at most once each. None of them may exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restores: Vec<Item>,
}

impl Commit {
    /// Creates an empty commit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the commit's id (its idempotency key).
    #[must_use]
    pub fn with_id(mut self, id: CommitId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets a fresh id that protects the retries of one call. It is remembered for an hour.
    #[must_use]
    pub fn with_retry_id(self) -> Self {
        self.with_id(CommitId::fresh()).dedup_window(limits::RETRY_MEMORY)
    }

    /// Whether its id only protects the retries of one call.
    pub fn has_retry_id(&self) -> bool {
        self.id.is_some() && self.id_memory == Some(limits::RETRY_MEMORY)
    }

    /// Sets how long the id is remembered. Minutes are enough for an id that only protects the
    /// retries of one call.
    #[must_use]
    pub fn dedup_window(mut self, memory: Duration) -> Self {
        self.id_memory = Some(memory);
        self
    }

    /// Appends events to a stream.
    #[must_use]
    pub fn append(
        self,
        stream: &StreamName,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Self {
        self.with_append(Append::new(stream, expected, events))
    }

    /// Adds an append.
    #[must_use]
    pub fn with_append(mut self, append: Append) -> Self {
        self.appends.push(append);
        self
    }

    /// Adds a record write.
    #[must_use]
    pub fn write(mut self, write: RecordWrite) -> Self {
        self.writes.push(write);
        self
    }

    /// Adds a wake.
    #[must_use]
    pub fn wake(mut self, wake: Wake) -> Self {
        self.wakes.push(wake);
        self
    }

    /// Adds a settlement.
    #[must_use]
    pub fn settle(mut self, settlement: Settlement) -> Self {
        self.settlements.push(settlement);
        self
    }

    /// Requires that this lease is still held.
    #[must_use]
    pub fn fenced_by(mut self, lease: LeaseToken) -> Self {
        self.fences.push(lease);
        self
    }

    /// Requires that the stream is still in this state.
    #[must_use]
    pub fn guard_stream(mut self, stream: &StreamName, expected: ExpectedVersion) -> Self {
        self.guards.push(Guard::Stream { stream: stream.clone(), expected });
        self
    }

    /// Requires that the record is still in this state.
    #[must_use]
    pub fn guard_record(mut self, key: &RecordKey, expected: ExpectedRevision) -> Self {
        self.guards.push(Guard::Record { key: key.clone(), expected });
        self
    }

    /// Removes the events of a closed stream up to a version.
    #[must_use]
    pub fn trim(mut self, stream: &StreamName, through: Version, then: AfterTrim) -> Self {
        self.trims.push(Trim { stream: stream.clone(), through, then });
        self
    }

    /// Recreates an item as it was in another store, with its marks, times, counts and error. Wakes
    /// of the same commit are applied afterwards.
    #[must_use]
    pub fn restore(mut self, item: Item) -> Self {
        self.restores.push(item);
        self
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.appends.len()
            + self.writes.len()
            + self.wakes.len()
            + self.settlements.len()
            + self.fences.len()
            + self.guards.len()
            + self.trims.len()
            + self.restores.len()
    }

    /// Validates the commit: limits, duplicates, meaningless input. Every adapter calls this first.
    pub fn check(&self) -> Result<()> {
        self.check_size()?;
        self.appends.iter().try_for_each(Append::check)?;
        self.writes.iter().try_for_each(RecordWrite::check)?;
        self.wakes.iter().try_for_each(Wake::check)?;
        self.settlements.iter().try_for_each(Settlement::check)?;
        self.restores.iter().try_for_each(Item::check_restored)?;
        self.trims.iter().try_for_each(Trim::check)?;
        self.id_memory
            .map_or(Ok(()), |memory| When::In(memory).check("memory of the commit's id"))?;
        once(self.appends.iter().map(|a| &a.stream), "append to stream")?;
        once(self.appends.iter().flat_map(|a| &a.events).map(|e| e.id), "event id")?;
        once(self.writes.iter().map(|w| &w.key), "write to record")?;
        once(self.settlements.iter().map(|s| &s.lease.item), "settlement of")?;
        once(self.trims.iter().map(|t| &t.stream), "trim of stream")?;
        once(self.restores.iter().map(|r| &r.item), "restore of")
    }

    /// The bytes of JSON in the commit.
    pub fn bytes(&self) -> usize {
        self.appends
            .iter()
            .map(Append::bytes)
            .chain(self.writes.iter().map(RecordWrite::bytes))
            .sum()
    }

    fn check_size(&self) -> Result<()> {
        let events: usize = self.appends.iter().map(|a| a.events.len()).sum();
        match self.parts() {
            0 => return Err(StoreError::invalid("a commit of nothing")),
            n => at_most(n, limits::PARTS_PER_COMMIT, "parts")?,
        }
        at_most(events, limits::EVENTS_PER_COMMIT, "events")?;
        at_most(self.bytes(), limits::COMMIT_BYTES, "bytes of JSON")
    }

    /// A digest of the whole commit. It tells a retry from a different commit under the same id.
    pub fn fingerprint(&self) -> [u8; 16] {
        let bytes = serde_json::to_vec(self).expect("a commit is made of names, numbers and JSON");
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes).into_bytes()
    }
}

fn at_most(count: usize, limit: usize, what: &str) -> Result<()> {
    if count > limit {
        return Err(StoreError::limit(format!(
            "a commit with {count} {what}; the limit is {limit}"
        )));
    }
    Ok(())
}

/// Refuses a name that occurs twice. A commit of one part, which is the common case, is not hashed.
fn once<T: Eq + Hash + std::fmt::Debug>(
    names: impl Iterator<Item = T> + Clone,
    what: &str,
) -> Result<()> {
    if names.clone().nth(1).is_none() {
        return Ok(());
    }
    let mut seen = HashSet::new();
    for name in names {
        if let Some(twice) = seen.replace(name) {
            return Err(StoreError::invalid(format!("{what} {twice:?} comes twice in one commit")));
        }
    }
    Ok(())
}

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "a commit that met a conflict wrote nothing"]
pub enum CommitOutcome {
    /// Every part is written.
    Committed(Committed),
    /// Nothing is written.
    Conflict(Conflict),
}

impl CommitOutcome {
    /// Returns what was written, or the conflict as an error.
    pub fn committed(self) -> Result<Committed, Conflict> {
        match self {
            Self::Committed(committed) => Ok(committed),
            Self::Conflict(conflict) => Err(conflict),
        }
    }

    /// Returns the conflict, if there was one.
    pub fn conflict(self) -> Option<Conflict> {
        self.committed().err()
    }
}

/// What a commit wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// When it was committed, by the store's clock.
    pub at: Timestamp,
    /// The result of each append, in order.
    pub appends: Vec<Appended>,
    /// The result of each write, in order.
    pub writes: Vec<Written>,
}

/// The result of an append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    /// The stream.
    pub stream: StreamName,
    /// The version of the last event appended; the stream's version if there were none.
    pub version: Version,
    /// The positions of the first and the last event appended.
    pub positions: Option<(Position, Position)>,
    /// The events were already there from an earlier attempt; this is that attempt's result.
    pub replayed: bool,
}

/// The result of a record write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The record.
    pub key: RecordKey,
    /// Its new revision; none if the record was never written and still is not.
    pub revision: Option<Revision>,
    /// The result of an addition, a draw or an edit.
    pub sum: Option<i64>,
}
