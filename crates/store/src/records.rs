//! Records: JSON under a key, with a revision for optimistic concurrency that is never reused.
//!
//! A record that was never written, one that was deleted and one whose value is empty are three
//! different states. A record past its expiry reads as deleted from that moment on, even before it
//! is swept.

mod edit;
mod pointer;
mod rate;

use std::ops::{Bound, RangeBounds};

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, When};
use crate::error::{Result, StoreError};
use crate::json::RawJson;
use crate::limits;
use crate::log::check_page;
use crate::names::{RecordKey, check_prefix};
use crate::numbers::Revision;

pub use edit::{Edit, Unfit};
pub use rate::Rate;

/// A record that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its key.
    pub key: RecordKey,
    /// The number of its last write.
    pub revision: Revision,
    /// Its value.
    pub value: RawJson,
    /// When it begins to read as deleted.
    pub expires_at: Option<Timestamp>,
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// Never written, or deleted so long ago that the store has forgotten it.
    Absent,
    /// Deleted or expired. The next write gets the next revision.
    Deleted(Revision),
    /// A record.
    Live(Record),
}

impl Slot {
    /// The revision of the last write, including deletions.
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

    /// Whether the state is the expected one.
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

/// Optimistic concurrency: the state in which a record must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedRevision {
    /// Any state.
    Any,
    /// No record: never written, deleted or expired.
    Absent,
    /// A record exists.
    Exists,
    /// A record exists with this revision.
    Revision(Revision),
}

/// The bounds of a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// No subtraction goes below this.
    pub min: Option<i64>,
    /// No addition goes above this.
    pub max: Option<i64>,
}

impl Bounds {
    /// The range of a 64-bit integer.
    pub const NONE: Self = Self { min: None, max: None };

    /// At most this.
    pub fn at_most(max: i64) -> Self {
        Self { min: None, max: Some(max) }
    }

    /// At least this.
    pub fn at_least(min: i64) -> Self {
        Self { min: Some(min), max: None }
    }

    /// Between these, inclusive.
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

    /// Adds, unless the sum passes the bound in the direction of the change. A counter that is
    /// already past a bound (because the bound was changed) can still move back.
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

/// A change to a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Sets value and expiry, replacing both.
    Put {
        /// The new value.
        value: RawJson,
        /// When the record expires, if ever.
        expires: Option<When>,
    },
    /// Deletes the record; its revision is kept and increased. Deleting a record that does not
    /// exist changes nothing.
    Delete,
    /// Adds to an integer, in the store, within bounds. A missing record counts as zero.
    Add {
        /// The value to add.
        delta: i64,
        /// The bounds.
        within: Bounds,
        /// When a counter that this write creates expires; an existing one keeps its expiry.
        expires: Option<When>,
    },
    /// Draws on a rate limit, in the store. The value is the moment at which everything drawn will
    /// have been replenished, in microseconds since the Unix epoch, and the record expires then.
    Rate(Rate),
    /// Edits a JSON document, in the store. A missing record counts as `null`; an edit that changes
    /// nothing writes nothing.
    Edit {
        /// The edit.
        edit: Edit,
        /// When the document expires from now on; without it, an existing one keeps its expiry.
        expires: Option<When>,
    },
}

/// A part of a commit: a change to a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordWrite {
    /// The record's key.
    pub key: RecordKey,
    /// The state in which it must be.
    pub expected: ExpectedRevision,
    /// The change.
    pub change: Change,
}

impl RecordWrite {
    /// Sets the value.
    pub fn put(key: &RecordKey, expected: ExpectedRevision, value: RawJson) -> Self {
        Self { key: key.clone(), expected, change: Change::Put { value, expires: None } }
    }

    /// Deletes the record.
    pub fn delete(key: &RecordKey, expected: ExpectedRevision) -> Self {
        Self { key: key.clone(), expected, change: Change::Delete }
    }

    /// Adds to a counter.
    pub fn add(key: &RecordKey, delta: i64, within: Bounds) -> Self {
        let change = Change::Add { delta, within, expires: None };
        Self { key: key.clone(), expected: ExpectedRevision::Any, change }
    }

    /// Draws on a rate limit.
    pub fn rate(key: &RecordKey, rate: Rate) -> Self {
        Self { key: key.clone(), expected: ExpectedRevision::Any, change: Change::Rate(rate) }
    }

    /// Edits a document.
    pub fn edit(key: &RecordKey, expected: ExpectedRevision, edit: Edit) -> Self {
        Self { key: key.clone(), expected, change: Change::Edit { edit, expires: None } }
    }

    /// Sets the expiry. A deletion has none, and a rate its own.
    #[must_use]
    pub fn expiring(mut self, when: When) -> Self {
        match &mut self.change {
            Change::Put { expires, .. }
            | Change::Add { expires, .. }
            | Change::Edit { expires, .. } => *expires = Some(when),
            Change::Delete | Change::Rate(_) => {}
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
            Change::Rate(rate) => {
                rate.check()?;
                &None
            }
            Change::Edit { edit, expires } => {
                edit.check()?;
                expires
            }
            Change::Delete => &None,
        };
        expiry.map_or(Ok(()), |when| when.check("expiry"))
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.change {
            Change::Put { value, .. } => value.as_str().len(),
            Change::Edit { edit, .. } => edit.bytes(),
            Change::Delete | Change::Add { .. } | Change::Rate(_) => 0,
        }
    }
}

/// A query for a page of the records whose keys share a prefix.
#[derive(Debug, Clone)]
pub struct RecordQuery {
    /// The prefix; an empty one matches every key.
    pub prefix: String,
    /// Only keys after this one.
    pub after: Option<RecordKey>,
    /// The most records to return.
    pub limit: usize,
}

impl RecordQuery {
    /// Queries the records whose keys begin with `prefix`.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), after: None, limit: limits::PAGE_SIZE }
    }

    /// Continues after this key.
    #[must_use]
    pub fn after(mut self, key: RecordKey) -> Self {
        self.after = Some(key);
        self
    }

    /// Sets the most records to return.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Validates the query.
    pub fn check(&self) -> Result<()> {
        check_prefix(&self.prefix, "key prefix", limits::RECORD_KEY_BYTES)?;
        check_page(self.limit)
    }
}

/// A page of records by key, and where to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordPage {
    /// The records, without deleted and expired ones. There may be fewer than asked for, or none,
    /// although more follow, when most of the examined ones are gone.
    pub records: Vec<Record>,
    /// Continue after this key, if there may be more.
    pub next: Option<RecordKey>,
}
