//! The commit planner: judges a commit against the rows it touches.
//!
//! [`decide`] is the meaning of a commit as a pure function. It reads the rows that a commit names
//! and returns a conflict, an earlier result, or a [`Plan`] of rows to write. The in-memory store
//! and the SQLite store are this function and storage for rows. The module is for adapters; users
//! of a store never see it.

mod fairness;
mod items;
mod records;
mod streams;
mod yield_once;

use crate::clock::Timestamp;
use crate::commit::{Commit, Committed, Conflict, Guard, Part, Violation};
use crate::error::{Result, StoreError};
use crate::ids::{CommitId, EventId};
use crate::json::RawJson;
use crate::leases::{Item, ItemRef};
use crate::limits;
use crate::log::StoredEvent;
use crate::names::{RecordKey, StreamName};
use crate::numbers::{Position, Revision, Version};
use crate::signal::Topic;

pub use crate::leases::check_renewal;
pub use crate::log::check_names;
pub use fairness::{Candidate, FairShare};
pub use records::RecordRow;
pub use streams::StreamRow;
pub use yield_once::YieldOnce;

/// Wraps JSON that a store reads back; it is not validated again.
pub fn stored_json(text: &str) -> RawJson {
    RawJson::stored(text)
}

/// Row lookup inside the transaction of the commit.
pub trait ReadRows {
    /// The commit remembered under this id, even if its retention has passed.
    fn remembered(&mut self, id: CommitId) -> Result<Option<Remembered>>;
    /// A stream's row.
    fn stream(&mut self, name: &StreamName) -> Result<Option<StreamRow>>;
    /// The event with this id, in any stream.
    fn event(&mut self, id: EventId) -> Result<Option<StoredEvent>>;
    /// A record's row.
    fn record(&mut self, key: &RecordKey) -> Result<Option<RecordRow>>;
    /// A work item.
    fn item(&mut self, item: &ItemRef) -> Result<Option<Item>>;
    /// The last position given out.
    fn last_position(&mut self) -> Result<Position>;
    /// The current floors. Read only by commits that write records.
    fn floors(&mut self) -> Result<Floors>;
    /// The highest version of any forgotten stream of this [category](crate::stream_category); 0 if
    /// there is none.
    fn version_floor(&mut self, category: &str) -> Result<u64>;
}

/// Lower bounds for new revisions and fences, because rows that had higher ones were forgotten or
/// lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Floors {
    /// At or above every revision and fence that a lost copy of this store ever gave out; 0 if
    /// there was none.
    pub epoch: u64,
    /// At or above the revisions of all forgotten records; not below `epoch`.
    pub revision: u64,
    /// At or above the fences of all forgotten items; not below `epoch`.
    pub fence: u64,
}

impl Floors {
    /// The revision of the next write to a record: one more than its last, and above the epoch;
    /// above the floor if the store does not know the record.
    pub fn next_revision(self, last: Option<Revision>) -> Revision {
        Revision::above(last.map_or(self.revision, |last| last.get().max(self.epoch)))
    }
}

/// A commit that was made under an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Tells a retry from a different commit.
    pub fingerprint: [u8; 16],
    /// Its result.
    pub committed: Committed,
    /// When it is forgotten.
    pub forget_at: Timestamp,
}

/// The judgement of a commit.
#[derive(Debug)]
pub enum Decided {
    /// Write these rows.
    Apply(Box<Plan>),
    /// It was committed before; this is its result.
    Replay(Committed),
    /// Refuse it.
    Conflict(Conflict),
}

/// The rows that a commit writes.
#[derive(Debug)]
pub struct Plan {
    /// The result to return.
    pub committed: Committed,
    /// The id and result to remember, if the commit has an id.
    pub remember: Option<(CommitId, Remembered)>,
    /// Streams to trim, each up to a version.
    pub trims: Vec<(StreamName, Version)>,
    /// The new state of streams, including new ones.
    pub streams: Vec<(StreamName, StreamRow)>,
    /// New events, by position.
    pub events: Vec<StoredEvent>,
    /// The new state of records.
    pub records: Vec<(RecordKey, RecordRow)>,
    /// The new state of items.
    pub items: Vec<Item>,
}

impl Plan {
    /// The topics to notify once the plan is durable.
    pub fn topics(&self) -> impl Iterator<Item = Topic> {
        let log = (!self.events.is_empty()).then_some(Topic::Log);
        let records = self.records.iter().map(|(key, _)| Topic::Record(key.clone()));
        let ready = self.items.iter().filter(|item| item.ready_at().is_some());
        log.into_iter()
            .chain(records)
            .chain(ready.map(|item| Topic::Queue(item.item.queue.clone())))
    }
}

/// Judges a validated commit against the rows it names.
pub fn decide(commit: &Commit, now: Timestamp, rows: &mut impl ReadRows) -> Result<Decided> {
    let fingerprint = commit.id.map(|id| (id, commit.fingerprint()));
    if let Some((id, fingerprint)) = fingerprint
        && let Some(earlier) = rows.remembered(id)?.filter(|earlier| earlier.forget_at > now)
    {
        return replay(id, fingerprint, earlier);
    }
    let mut violations = Vec::new();
    let log = streams::plan(commit, now, rows, &mut violations)?;
    let written = records::plan(commit, now, rows, &mut violations)?;
    let items = items::plan(commit, now, rows, &mut violations)?;
    check_guards(commit, now, rows, &mut violations)?;
    if !violations.is_empty() {
        violations.sort_by_key(|violation: &Violation| violation.part.order());
        return Ok(Decided::Conflict(Conflict { violations }));
    }
    let committed = Committed { at: now, appends: log.appended, writes: written.written };
    let forget_at = now.plus(commit.id_memory.unwrap_or(limits::COMMIT_MEMORY));
    let remember = fingerprint.map(|(id, fingerprint)| {
        (id, Remembered { fingerprint, committed: committed.clone(), forget_at })
    });
    Ok(Decided::Apply(Box::new(Plan {
        committed,
        remember,
        trims: log.trims,
        streams: log.streams,
        events: log.events,
        records: written.rows,
        items,
    })))
}

fn replay(id: CommitId, fingerprint: [u8; 16], earlier: Remembered) -> Result<Decided> {
    if earlier.fingerprint != fingerprint {
        return Err(StoreError::mismatch(format!(
            "commit id {id} was used before for another commit"
        )));
    }
    Ok(Decided::Replay(earlier.committed))
}

fn check_guards(
    commit: &Commit,
    now: Timestamp,
    rows: &mut impl ReadRows,
    violations: &mut Vec<Violation>,
) -> Result<()> {
    for (at, guard) in commit.guards.iter().enumerate() {
        let part = Part::Guard(at);
        let reason = match guard {
            Guard::Stream { stream, expected } => streams::guard(stream, *expected, rows)?,
            Guard::Record { key, expected } => records::guard(key, *expected, now, rows)?,
        };
        violations.extend(reason.map(|reason| Violation { part, reason }));
    }
    Ok(())
}
