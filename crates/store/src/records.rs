//! Records: JSON under a key, with a revision that is never reused.
//!
//! A record that was never written, one that was deleted and one whose value is empty are three
//! things. A record past its expiry reads as deleted from that moment on, whether or not anything
//! has swept it up.

use std::ops::{Bound, RangeBounds};

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, When};
use crate::error::{Result, StoreError};
use crate::json::RawJson;
use crate::limits;
use crate::log::check_page;
use crate::names::{RecordKey, check_prefix};
use crate::numbers::Revision;

/// A record that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its key.
    pub key: RecordKey,
    /// The number of its last write.
    pub revision: Revision,
    /// Its value.
    pub value: RawJson,
    /// When it will read as deleted.
    pub expires_at: Option<Timestamp>,
}

/// What is under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// Nothing: it was never written, or was deleted so long ago that the store has forgotten it.
    Absent,
    /// Nothing any more: it was deleted, or has expired. The next write gets the next revision.
    Deleted(Revision),
    /// A record.
    Live(Record),
}

impl Slot {
    /// The revision of the last write, deletions included.
    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Absent => None,
            Self::Deleted(revision) => Some(*revision),
            Self::Live(record) => Some(record.revision),
        }
    }

    /// The record, if there is one.
    pub fn live(&self) -> Option<&Record> {
        match self {
            Self::Live(record) => Some(record),
            _ => None,
        }
    }

    /// The record, if there is one.
    pub fn into_live(self) -> Option<Record> {
        match self {
            Self::Live(record) => Some(record),
            _ => None,
        }
    }

    /// Whether this is what was expected.
    pub fn meets(&self, expected: ExpectedRevision) -> bool {
        match expected {
            ExpectedRevision::Any => true,
            ExpectedRevision::Absent => self.live().is_none(),
            ExpectedRevision::Exists => self.live().is_some(),
            ExpectedRevision::Revision(revision) => {
                self.live().is_some_and(|r| r.revision == revision)
            }
        }
    }
}

/// What must be under a key for a write to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedRevision {
    /// Anything.
    Any,
    /// No record: never written, deleted or expired.
    Absent,
    /// A record.
    Exists,
    /// The record of exactly this revision.
    Revision(Revision),
}

/// How far a counter may go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// No subtraction goes below this.
    pub min: Option<i64>,
    /// No addition goes above this.
    pub max: Option<i64>,
}

impl Bounds {
    /// As far as a 64-bit integer goes.
    pub const NONE: Self = Self { min: None, max: None };

    /// At most this.
    pub fn at_most(max: i64) -> Self {
        Self { min: None, max: Some(max) }
    }

    /// At least this.
    pub fn at_least(min: i64) -> Self {
        Self { min: Some(min), max: None }
    }

    /// Between these, both included.
    pub fn between(min: i64, max: i64) -> Self {
        Self { min: Some(min), max: Some(max) }
    }

    /// The bounds of a range: `..=18`, `0..`, or `..` for none.
    pub fn from_range(range: impl RangeBounds<i64>) -> Self {
        let min = match range.start_bound() {
            Bound::Included(min) => Some(*min),
            Bound::Excluded(below) => Some(below.saturating_add(1)),
            Bound::Unbounded => None,
        };
        let max = match range.end_bound() {
            Bound::Included(max) => Some(*max),
            Bound::Excluded(above) => Some(above.saturating_sub(1)),
            Bound::Unbounded => None,
        };
        Self { min, max }
    }

    /// The sum, unless it goes past the bound that it moves towards. A counter that is already past
    /// a bound (because the bound was changed) can still move back.
    pub fn add(self, value: i64, delta: i64) -> Option<i64> {
        let sum = value.checked_add(delta)?;
        let allowed = match delta {
            1.. => self.max.is_none_or(|max| sum <= max),
            0 => true,
            _ => self.min.is_none_or(|min| sum >= min),
        };
        allowed.then_some(sum)
    }

    fn check(self) -> Result<()> {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min > max => {
                Err(StoreError::invalid(format!("bounds from {min} to {max} hold no number")))
            }
            _ => Ok(()),
        }
    }
}

/// What a write does to a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Sets value and expiry, whatever they were.
    Put {
        /// The new value.
        value: RawJson,
        /// When it goes away by itself, if it does.
        expires: Option<When>,
    },
    /// Takes the record away; its revision stays, counted up. Taking nothing away changes nothing.
    Delete,
    /// Adds to an integer, in the store, within bounds. A record that is not there counts as zero.
    Add {
        /// How much.
        delta: i64,
        /// How far it may go.
        within: Bounds,
        /// When a counter that this write creates goes away; one that is there keeps its expiry.
        expires: Option<When>,
    },
}

/// A part of a commit: a change to a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordWrite {
    /// Which record.
    pub key: RecordKey,
    /// What must be there.
    pub expected: ExpectedRevision,
    /// What to do to it.
    pub change: Change,
}

impl RecordWrite {
    /// Sets the value.
    pub fn put(key: &RecordKey, expected: ExpectedRevision, value: RawJson) -> Self {
        Self { key: key.clone(), expected, change: Change::Put { value, expires: None } }
    }

    /// Takes the record away.
    pub fn delete(key: &RecordKey, expected: ExpectedRevision) -> Self {
        Self { key: key.clone(), expected, change: Change::Delete }
    }

    /// Adds to a counter.
    pub fn add(key: &RecordKey, delta: i64, within: Bounds) -> Self {
        let change = Change::Add { delta, within, expires: None };
        Self { key: key.clone(), expected: ExpectedRevision::Any, change }
    }

    /// The same write, with an expiry. Deletions have none to set.
    #[must_use]
    pub fn expiring(mut self, when: When) -> Self {
        match &mut self.change {
            Change::Put { expires, .. } | Change::Add { expires, .. } => *expires = Some(when),
            Change::Delete => {}
        }
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.check_change().map_err(|e| e.about(format_args!("write to record {:?}", self.key)))
    }

    fn check_change(&self) -> Result<()> {
        let expiry = match &self.change {
            Change::Put { value, expires } => {
                value.check_size("value", limits::VALUE_BYTES)?;
                expires
            }
            Change::Add { within, expires, .. } => {
                within.check()?;
                expires
            }
            Change::Delete => &None,
        };
        expiry.map_or(Ok(()), |when| when.check("expiry"))
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.change {
            Change::Put { value, .. } => value.as_str().len(),
            Change::Delete | Change::Add { .. } => 0,
        }
    }
}

/// A page of the records whose keys begin alike.
#[derive(Debug, Clone)]
pub struct RecordQuery {
    /// What the keys begin with; everything begins with nothing.
    pub prefix: String,
    /// Only keys after this one.
    pub after: Option<RecordKey>,
    /// How many at most.
    pub limit: usize,
}

impl RecordQuery {
    /// The records whose keys begin with this.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), after: None, limit: limits::PAGE_SIZE }
    }

    /// The same, after this key.
    #[must_use]
    pub fn after(mut self, key: RecordKey) -> Self {
        self.after = Some(key);
        self
    }

    /// The same, at most this many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Refuses what no store should be asked.
    pub fn check(&self) -> Result<()> {
        check_prefix(&self.prefix, "key prefix", limits::RECORD_KEY_BYTES)?;
        check_page(self.limit)
    }
}

/// Records by key, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordPage {
    /// The records that are there; deleted and expired ones are not among them. May be fewer than
    /// asked for, or none, though more follow, when most of those looked at are gone.
    pub records: Vec<Record>,
    /// Read on after this key, if there may be more.
    pub next: Option<RecordKey>,
}
