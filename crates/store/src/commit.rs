//! The one atomic write: any number of parts, all or none.
//!
//! Every expectation of a commit is judged against what was there before it. Either every part
//! holds and is durable when the call returns, or nothing happened, and the answer names each part
//! that did not hold and what is there now.

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

/// Something that was only read and must not have changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// This stream is still like this, closed or not.
    Stream {
        /// Which.
        stream: StreamName,
        /// Like what.
        expected: ExpectedVersion,
    },
    /// This record is still like this.
    Record {
        /// Which.
        key: RecordKey,
        /// Like what.
        expected: ExpectedRevision,
    },
}

/// A part of a commit: events of a closed stream go away for good.
///
/// A stream that is closed by an append of the same commit counts as closed; so an open stream can
/// lose its oldest events, and stay open, in one commit that closes, trims and reopens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trim {
    /// Which stream.
    pub stream: StreamName,
    /// Up to this version, included.
    pub through: Version,
    /// What becomes of the stream.
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

/// What becomes of a stream after a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterTrim {
    /// It stays closed.
    StayClosed,
    /// It takes appends again, in this commit already; its versions go on where they were.
    Reopen,
    /// Reopens it; if no event is left and none is appended until then, the store forgets the
    /// stream after that moment. A forgotten stream reads as absent. Versions are not reused:
    /// streams of its [category](stream_category) that are created later begin above its last
    /// version.
    Forget(When),
}

impl AfterTrim {
    /// Whether the stream takes appends after the trim.
    pub fn reopens(self) -> bool {
        self != Self::StayClosed
    }
}

/// The part of a stream's name that decides which streams begin above a forgotten one's versions:
/// everything up to its first `/`, included; the whole name, if it has none.
pub fn stream_category(stream: &str) -> &str {
    stream.find('/').map_or(stream, |at| &stream[..=at])
}

/// All that one atomic write does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Commit {
    /// Makes the commit safe to send again after an unknown outcome.
    pub id: Option<CommitId>,
    /// How long the id is remembered with the result; [`COMMIT_MEMORY`](limits::COMMIT_MEMORY) by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_memory: Option<Duration>,
    /// Events at the end of streams, at most once per stream.
    pub appends: Vec<Append>,
    /// Changes to records, at most one per record.
    pub writes: Vec<RecordWrite>,
    /// Items that have something to do.
    pub wakes: Vec<Wake>,
    /// Leases that end, at most one per item. They end before the wakes are taken note of.
    pub settlements: Vec<Settlement>,
    /// Leases that must still stand.
    pub fences: Vec<LeaseToken>,
    /// Streams and records that must not have changed.
    pub guards: Vec<Guard>,
    /// Events that go away, at most once per stream.
    pub trims: Vec<Trim>,
    /// Items that are made as they were in another store, at most once each. None of them may be
    /// there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restores: Vec<Item>,
}

impl Commit {
    /// A commit of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, under an id.
    #[must_use]
    pub fn with_id(mut self, id: CommitId) -> Self {
        self.id = Some(id);
        self
    }

    /// Puts it under a fresh id that protects the retries of one call, and is remembered for an
    /// hour.
    #[must_use]
    pub fn with_retry_id(self) -> Self {
        self.with_id(CommitId::fresh()).dedup_window(limits::RETRY_MEMORY)
    }

    /// Sets how long the id is remembered: for an id that only protects retries of one call,
    /// minutes are enough.
    #[must_use]
    pub fn dedup_window(mut self, memory: Duration) -> Self {
        self.id_memory = Some(memory);
        self
    }

    /// And these events at the end of this stream.
    #[must_use]
    pub fn append(
        self,
        stream: &StreamName,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Self {
        self.with_append(Append::new(stream, expected, events))
    }

    /// And this append.
    #[must_use]
    pub fn with_append(mut self, append: Append) -> Self {
        self.appends.push(append);
        self
    }

    /// And this write.
    #[must_use]
    pub fn write(mut self, write: RecordWrite) -> Self {
        self.writes.push(write);
        self
    }

    /// And this wake.
    #[must_use]
    pub fn wake(mut self, wake: Wake) -> Self {
        self.wakes.push(wake);
        self
    }

    /// And this settlement.
    #[must_use]
    pub fn settle(mut self, settlement: Settlement) -> Self {
        self.settlements.push(settlement);
        self
    }

    /// Provided that this lease still stands.
    #[must_use]
    pub fn fenced_by(mut self, lease: LeaseToken) -> Self {
        self.fences.push(lease);
        self
    }

    /// Provided that this stream is still like this.
    #[must_use]
    pub fn guard_stream(mut self, stream: &StreamName, expected: ExpectedVersion) -> Self {
        self.guards.push(Guard::Stream { stream: stream.clone(), expected });
        self
    }

    /// Provided that this record is still like this.
    #[must_use]
    pub fn guard_record(mut self, key: &RecordKey, expected: ExpectedRevision) -> Self {
        self.guards.push(Guard::Record { key: key.clone(), expected });
        self
    }

    /// And these events gone.
    #[must_use]
    pub fn trim(mut self, stream: &StreamName, through: Version, then: AfterTrim) -> Self {
        self.trims.push(Trim { stream: stream.clone(), through, then });
        self
    }

    /// And this item, as it was in another store: its marks, times, counts and error. Wakes of the
    /// same commit come after.
    #[must_use]
    pub fn restore(mut self, item: Item) -> Self {
        self.restores.push(item);
        self
    }

    /// How many parts it has.
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

    /// Refuses what no store should be asked. Every adapter calls this before anything else.
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

    /// How many bytes of JSON it holds.
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

    /// A digest of everything in it, by which a retry is told from another commit under the same
    /// id.
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

/// Refuses a name that comes twice; a commit of one part, which most are, is not hashed.
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

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use = "a commit that met a conflict wrote nothing"]
pub enum CommitOutcome {
    /// All of it is there.
    Committed(Committed),
    /// None of it is there.
    Conflict(Conflict),
}

impl CommitOutcome {
    /// What was written, or the conflict as an error, for callers to whom it is one.
    pub fn committed(self) -> Result<Committed, Conflict> {
        match self {
            Self::Committed(committed) => Ok(committed),
            Self::Conflict(conflict) => Err(conflict),
        }
    }

    /// The conflict, if there was one.
    pub fn conflict(self) -> Option<Conflict> {
        self.committed().err()
    }
}

/// What a commit wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// For each append, in order.
    pub appends: Vec<Appended>,
    /// For each write, in order.
    pub writes: Vec<Written>,
}

/// What an append did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    /// The stream.
    pub stream: StreamName,
    /// The version of the last event appended; the stream's version, if there were none.
    pub version: Version,
    /// The positions of the first and the last event appended.
    pub positions: Option<(Position, Position)>,
    /// The events were there already, from an earlier try: this is what it did.
    pub replayed: bool,
}

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The record.
    pub key: RecordKey,
    /// Its revision now; none if nothing was ever there and nothing is.
    pub revision: Option<Revision>,
    /// What an addition came to.
    pub sum: Option<i64>,
}
