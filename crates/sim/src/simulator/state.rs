//! The state that simulated processes keep in the store: aggregates, scopes and names.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::events::{Aggregate, Personal, Snapshots};
use tidelock::jobs::{Job, JobOptions};
use tidelock::store::RecordKey;
use tidelock::{Backoff, Event, Retry};

/// Number of streams of work, and of books.
pub(crate) const STREAMS: u64 = 4;
/// Number of accounts.
pub(crate) const ACCOUNTS: u64 = 4;
/// Number of scopes, and of locks.
pub(crate) const HOT: u64 = 3;
/// What one account may be overdrawn by.
pub(crate) const CREDIT: i64 = 20;
/// The units of each quota.
pub(crate) const QUOTA: i64 = 5;
/// Number of subjects with personal data.
pub(crate) const SUBJECTS: u64 = 6;
/// Number of clubs.
pub(crate) const CLUBS: u64 = 2;
/// The calls that the rate limit has at once, and how long each takes to be replenished.
pub(crate) const CALLS: (u32, Duration) = (4, Duration::from_secs(1));

/// Work to which reactions react: every event has the id of the operation that made it.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) units: i64,
}

#[derive(Debug, Clone, Event)]
pub(crate) enum WorkEvent {
    /// This many units came.
    Came { id: String, units: i64 },
    /// This many units went; there are never less than none.
    Went { id: String, units: i64 },
}

impl WorkEvent {
    /// The id of the operation that made it.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Came { id, .. } | Self::Went { id, .. } => id,
        }
    }
}

impl Aggregate for Work {
    const KIND: &'static str = "work";
    type Event = WorkEvent;

    fn apply(&mut self, event: &WorkEvent) {
        match event {
            WorkEvent::Came { units, .. } => self.units += units,
            WorkEvent::Went { units, .. } => self.units -= units,
        }
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(7)
    }
}

/// Books that are closed now and then.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Books {
    pub(crate) bookings: u64,
}

#[derive(Debug, Clone, Event)]
pub(crate) enum BookEvent {
    Booked { id: String },
}

impl Aggregate for Books {
    const KIND: &'static str = "books";
    type Event = BookEvent;

    fn apply(&mut self, _: &BookEvent) {
        self.bookings += 1;
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(5)
    }
}

/// A club, whose members' names are personal data.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Club {
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Clone, Event)]
pub(crate) enum ClubEvent {
    Joined { id: String, name: Personal<String> },
}

impl Aggregate for Club {
    const KIND: &'static str = "club";
    type Event = ClubEvent;

    fn apply(&mut self, event: &ClubEvent) {
        let ClubEvent::Joined { name, .. } = event;
        self.names.extend(name.get().cloned());
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(3)
    }
}

/// What nothing may hold once its subject is erased: each name begins with it.
pub(crate) fn secret(subject: &str) -> String {
    format!("secret of {subject}:")
}

/// A scope: every change leaves a trace.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Board {
    pub(crate) count: i64,
    pub(crate) names: Vec<String>,
}

/// A typed job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Chore {
    pub(crate) id: String,
}

impl Job for Chore {
    const QUEUE: &'static str = "chores";

    fn options() -> JobOptions {
        // An hour, after which a job is forgotten, is longer than a simulation with all its jumps.
        let hour = Duration::from_secs(3_600);
        JobOptions::new()
            .retry(Retry::attempts(3).backoff(Backoff::fixed(Duration::from_secs(1))))
            .lease(Duration::from_secs(5))
            .max_crashes(u32::MAX)
            .global_concurrency(3)
            .keep_results(hour)
            .unique_for(hour)
    }
}

/// What a lock protects: it is read and written in two calls, without an expectation.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Guarded {
    pub(crate) fence: u64,
    pub(crate) total: u64,
}

/// The id in an event of work or of books.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) id: String,
}

pub(crate) fn record(name: impl AsRef<str>) -> RecordKey {
    RecordKey::new(name.as_ref()).expect("the simulation's names are short and plain")
}
