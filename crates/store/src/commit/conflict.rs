//! Commit conflicts: which part failed, what it expected, and what is there now.
//!
//! A conflict is data. Its text is for people; code branches on [`ViolationKind`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::leases::{Item, LeaseToken};
use crate::log::{ExpectedVersion, StreamState};
use crate::names::{RecordKey, StreamName};
use crate::numbers::Version;
use crate::records::{Bounds, ExpectedRevision, Rate, Record, Slot};

/// A commit that was refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Every part that failed, in the order of the commit's fields. Never empty.
    pub violations: Vec<Violation>,
}

/// A part of a commit that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The part.
    pub part: Part,
    /// Why it failed.
    pub reason: ViolationReason,
}

/// A part of a commit: its field, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // each is the field of the same name
pub enum Part {
    Append(usize),
    Write(usize),
    Settlement(usize),
    Fence(usize),
    Guard(usize),
    Trim(usize),
    Restore(usize),
}

/// What was expected, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ViolationReason {
    /// A stream is not at the expected version.
    Stream {
        /// The stream.
        stream: StreamName,
        /// The expected state.
        expected: ExpectedVersion,
        /// The actual state.
        found: StreamState,
    },
    /// A stream is closed.
    Closed {
        /// The stream.
        stream: StreamName,
        /// Its version.
        version: Version,
    },
    /// A stream cannot be trimmed: it is not closed, or not that long.
    Untrimmable {
        /// The stream.
        stream: StreamName,
        /// The last version to remove.
        through: Version,
        /// The actual state.
        found: StreamState,
    },
    /// A record is not at the expected revision.
    Record {
        /// The record's key.
        key: RecordKey,
        /// The expected state.
        expected: ExpectedRevision,
        /// What is under the key.
        found: Slot,
    },
    /// An addition would exceed a bound.
    Bound {
        /// The record's key.
        key: RecordKey,
        /// Its current value.
        found: i64,
        /// The value to add.
        delta: i64,
        /// The bounds.
        within: Bounds,
    },
    /// A draw would exceed a rate limit.
    Rate {
        /// The record's key.
        key: RecordKey,
        /// The draw.
        rate: Rate,
        /// When it could be made, if nothing else is drawn before.
        possible_at: Timestamp,
    },
    /// The record is not an integer, so nothing can be added to it.
    NotACounter {
        /// The record.
        found: Record,
    },
    /// An edit does not fit the document.
    Unfit {
        /// The record's key.
        key: RecordKey,
        /// Where it does not fit, and what is there.
        reason: String,
    },
    /// The caller no longer holds the lease.
    LeaseLost {
        /// The lost lease.
        lease: LeaseToken,
        /// The item as it is now, if it exists.
        found: Option<Box<Item>>,
    },
    /// An item to restore already exists.
    Item {
        /// The existing item.
        found: Box<Item>,
    },
}

/// The kind of a violation, for code to branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// It exists at another version or revision: read again and decide again.
    Moved,
    /// It does not exist (any more).
    Gone,
    /// It exists and was expected not to: another writer was first.
    Taken,
    /// The stream is closed, or is not closed and was expected to be.
    Closed,
    /// A bound would be exceeded, or a stream is not that long.
    Exceeded,
    /// The operation does not apply to a value of this kind.
    Unfit,
    /// The lease is lost.
    LeaseLost,
}

impl ViolationReason {
    /// The kind of this violation.
    pub fn kind(&self) -> ViolationKind {
        match self {
            Self::Stream { found: StreamState::Absent, .. } => ViolationKind::Gone,
            Self::Stream { expected: ExpectedVersion::NoStream, .. } => ViolationKind::Taken,
            Self::Stream { .. } => ViolationKind::Moved,
            Self::Untrimmable { found: StreamState::Absent, .. } => ViolationKind::Gone,
            Self::Untrimmable { found: StreamState::Closed(_), .. } => ViolationKind::Exceeded,
            Self::Closed { .. } | Self::Untrimmable { found: StreamState::Open(_), .. } => {
                ViolationKind::Closed
            }
            Self::Record { found: Slot::Absent | Slot::Deleted(_), .. } => ViolationKind::Gone,
            Self::Record { expected: ExpectedRevision::Absent, .. } => ViolationKind::Taken,
            Self::Record { .. } => ViolationKind::Moved,
            Self::Bound { .. } | Self::Rate { .. } => ViolationKind::Exceeded,
            Self::NotACounter { .. } | Self::Unfit { .. } => ViolationKind::Unfit,
            Self::LeaseLost { .. } => ViolationKind::LeaseLost,
            Self::Item { .. } => ViolationKind::Taken,
        }
    }
}

impl Part {
    /// The sort key: violations are reported in the order of the commit's fields.
    pub(crate) fn order(self) -> (u8, usize) {
        match self {
            Self::Append(at) => (0, at),
            Self::Write(at) => (1, at),
            Self::Settlement(at) => (2, at),
            Self::Fence(at) => (3, at),
            Self::Guard(at) => (4, at),
            Self::Trim(at) => (5, at),
            Self::Restore(at) => (6, at),
        }
    }
}

impl Conflict {
    /// The first part that failed.
    pub fn first(&self) -> &Violation {
        self.violations.first().expect("a conflict has a violation")
    }

    /// Whether some part failed in this way.
    pub fn has(&self, kind: ViolationKind) -> bool {
        self.violations.iter().any(|violation| violation.reason.kind() == kind)
    }
}

impl std::error::Error for Conflict {}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, violation) in self.violations.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}", violation.reason)?;
        }
        Ok(())
    }
}

impl fmt::Display for ViolationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { stream, expected, found } => {
                write!(f, "stream {stream:?}: expected {expected}, found {found}")
            }
            Self::Closed { stream, version } => {
                write!(f, "stream {stream:?}: closed at version {version}, takes no more events")
            }
            Self::Untrimmable { stream, through, found } => write!(
                f,
                "stream {stream:?}: only a closed stream can be trimmed, and only up to its version; \
                 asked to trim through version {through}, found {found}"
            ),
            Self::Record { key, expected, found } => {
                write!(f, "record {key:?}: expected {expected}, found {found}")
            }
            Self::Bound { key, found, delta, within } => {
                write!(f, "record {key:?}: {found} {delta:+} goes past the bound of {within}")
            }
            Self::Rate { key, possible_at, .. } => {
                write!(f, "record {key:?}: its rate is used up until {possible_at}")
            }
            Self::NotACounter { found } => {
                write!(f, "record {:?}: its value is no integer to add to", found.key)
            }
            Self::Unfit { key, reason } => write!(f, "record {key:?}: {reason}"),
            Self::LeaseLost { lease, found } => write_lost(f, lease, found.as_deref()),
            Self::Item { found } => write!(f, "{}: expected no item, found one", found.item),
        }
    }
}

fn write_lost(f: &mut fmt::Formatter<'_>, lease: &LeaseToken, found: Option<&Item>) -> fmt::Result {
    write!(f, "{}: lease with fence {} lost", lease.item, lease.fence)?;
    let Some(item) = found else { return f.write_str(", there is no such item") };
    match (&item.holder, item.fence, item.settled) {
        (Some(holder), Some(fence), _) => {
            write!(f, ", held by {:?} with fence {fence} until {}", holder.worker, holder.deadline)
        }
        (None, Some(fence), Some(exit)) => write!(f, ", fence {fence} was settled ({exit:?})"),
        (_, Some(fence), None) => write!(f, ", revoked at fence {fence}"),
        (_, None, _) => f.write_str(", it was never leased"),
    }
}

impl fmt::Display for ExpectedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::NoStream => f.write_str("no stream"),
            Self::Exists => f.write_str("a stream"),
            Self::Exact(version) => write!(f, "version {version}"),
        }
    }
}

impl fmt::Display for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no stream"),
            Self::Open(version) => write!(f, "version {version}"),
            Self::Closed(version) => write!(f, "version {version}, closed"),
        }
    }
}

impl fmt::Display for ExpectedRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Absent => f.write_str("no record"),
            Self::Exists => f.write_str("a record"),
            Self::Revision(revision) => write!(f, "revision {revision}"),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no record"),
            Self::Deleted(revision) => write!(f, "a record deleted at revision {revision}"),
            Self::Live(record) => write!(f, "revision {}", record.revision),
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (None, None) => f.write_str("the range of 64-bit integers"),
            (Some(min), None) => write!(f, "at least {min}"),
            (None, Some(max)) => write!(f, "at most {max}"),
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
        }
    }
}
