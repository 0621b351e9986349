//! The state that simulated processes keep in the store: aggregates, scopes and names.

use serde::{Deserialize, Serialize};
use tidelock::Event;
use tidelock::events::{Aggregate, Snapshots};
use tidelock::store::RecordKey;

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

/// A scope: every change leaves a trace.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Board {
    pub(crate) count: i64,
    pub(crate) names: Vec<String>,
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
