//! A job as operators see it, and the filter that selects jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Item, ItemFilter, ItemRef, LaneName, LeaseHolder, NamePattern, Priority, RawJson, Result, Slot,
    StoreError, Timestamp,
};

use super::job_record::{EndedAs, JobEnd, JobRecord};
use crate::queues::ItemState;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Due at a later time.
    Scheduled,
    /// Due: it waits for a worker.
    Queued,
    /// Leased by a worker.
    Running,
    /// Failed, and not retried before a later time.
    Retrying,
    /// Failed for good (a dead letter): it waits for an operator.
    Blocked,
    /// Finished.
    Done,
    /// Ended by an operator before it was finished.
    Cancelled,
    /// Ended by an operator after it had failed for good.
    Discarded,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Queued,
        Self::Running,
        Self::Retrying,
        Self::Blocked,
        Self::Done,
        Self::Cancelled,
        Self::Discarded,
    ];

    /// Returns the serialized name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
        }
    }

    /// Whether nothing more happens to the job.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Discarded)
    }

    /// The state of an unfinished job; none if its item has nothing to do.
    fn of(item: &Item, now: Timestamp) -> Option<Self> {
        Some(match ItemState::of(item, now) {
            ItemState::Blocked => Self::Blocked,
            ItemState::Held => Self::Running,
            ItemState::Expired | ItemState::Due => Self::Queued,
            ItemState::Waiting if item.failures > 0 => Self::Retrying,
            ItemState::Waiting | ItemState::Scheduled => Self::Scheduled,
            ItemState::Idle => return None,
        })
    }

    /// Narrows a filter to items whose jobs can be in this state.
    fn narrow(self, filter: ItemFilter) -> ItemFilter {
        match self {
            Self::Blocked => ItemState::Blocked.narrow(filter),
            Self::Running => ItemState::Held.narrow(filter),
            _ => filter,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            StoreError::invalid(format!(
                "{name:?} is not the state of a job; the states are {names}"
            ))
        })
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// The queue.
    pub queue: String,
    /// The key.
    pub key: String,
    /// The state.
    pub state: JobState,
    /// The lane, which decides which workers serve it; none once it has ended.
    pub lane: Option<LaneName>,
    /// The priority; none once it has ended.
    pub priority: Option<Priority>,
    /// When it is or was due, by its enqueue or its last retry.
    pub due: Option<Timestamp>,
    /// Not attempted before this time: a backoff or a deferral.
    pub hold: Option<Timestamp>,
    /// Leases so far.
    pub attempts: u32,
    /// Failures so far.
    pub failures: u32,
    /// Expired leases so far: processes that died or hung.
    pub crashes: u32,
    /// The last error.
    pub error: Option<String>,
    /// The worker that handles it.
    pub holder: Option<LeaseHolder>,
    /// The last progress that its handler reported.
    pub progress: Option<RawJson>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The result of a finished job, if it is kept.
    pub result: Option<RawJson>,
    /// Why an operator ended it.
    pub reason: Option<String>,
}

impl JobInfo {
    /// A job by its item and its record; none, if it has ended and nothing of it is kept.
    pub(super) fn of(
        item: &ItemRef,
        there: Option<&Item>,
        slot: &Slot,
        now: Timestamp,
    ) -> Result<Option<Self>> {
        let record = JobRecord::read(slot)?;
        let expires_at = slot.live().and_then(|record| record.expires_at);
        if let Some(end) = record.end {
            return Ok(Some(Self::ended(item, end, expires_at)));
        }
        let Some(there) = there else { return Ok(None) };
        let Some(state) = JobState::of(there, now) else { return Ok(None) };
        Ok(Some(Self {
            state,
            lane: Some(there.lane.clone()),
            priority: Some(there.priority),
            due: there.due,
            hold: there.hold,
            attempts: there.attempts,
            failures: there.failures,
            crashes: there.expiries,
            error: there.error.clone(),
            holder: there.holder.clone(),
            progress: record.progress,
            ..Self::named(item, state)
        }))
    }

    fn ended(item: &ItemRef, end: JobEnd, expires_at: Option<Timestamp>) -> Self {
        let state = match end.outcome {
            EndedAs::Done => JobState::Done,
            EndedAs::Cancelled => JobState::Cancelled,
            EndedAs::Discarded => JobState::Discarded,
        };
        let ended_at = end.at(expires_at);
        let (result, reason, error) = (end.result, end.reason, end.error);
        Self { ended_at, result, reason, error, ..Self::named(item, state) }
    }

    fn named(item: &ItemRef, state: JobState) -> Self {
        Self {
            queue: item.queue.as_str().to_owned(),
            key: item.key.as_str().to_owned(),
            state,
            lane: None,
            priority: None,
            due: None,
            hold: None,
            attempts: 0,
            failures: 0,
            crashes: 0,
            error: None,
            holder: None,
            progress: None,
            ended_at: None,
            result: None,
            reason: None,
        }
    }
}

/// Selects jobs that match all of its criteria.
///
/// Without a [state](Self::state) it selects unfinished jobs. Ended ones are selected by their
/// state, as long as [something of them is kept](super::JobOptions::keep_results).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct JobFilter {
    pub(super) queue: Option<String>,
    pub(super) keys: NamePattern,
    pub(super) lane: Option<LaneName>,
    pub(super) state: Option<JobState>,
}

impl JobFilter {
    /// Matches the jobs of every queue.
    pub fn all() -> Self {
        Self::default()
    }

    /// Matches the jobs of this queue.
    pub fn queue(queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), ..Self::default() }
    }

    /// Restricts to this key.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.keys(NamePattern::is(key))
    }

    /// Restricts to keys that match.
    pub fn keys(mut self, keys: NamePattern) -> Self {
        self.keys = keys;
        self
    }

    /// Restricts to a lane.
    pub fn lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Restricts to a state.
    pub fn state(mut self, state: JobState) -> Self {
        self.state = Some(state);
        self
    }

    /// The items of matching jobs that have not ended, as far as the store can tell.
    pub(super) fn items(&self) -> ItemFilter {
        let filter = ItemFilter {
            queue: self.queue.as_ref().map_or(NamePattern::Any, NamePattern::is),
            key: self.keys.clone(),
            lane: self.lane.clone(),
            ..ItemFilter::default()
        };
        self.state.map_or(filter.clone(), |state| state.narrow(filter))
    }

    /// Whether a job in this state is selected.
    pub(super) fn selects(&self, state: JobState) -> bool {
        match self.state {
            Some(wanted) => wanted == state,
            None => !state.is_ended(),
        }
    }
}
