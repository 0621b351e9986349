//! Findings: the subject, what is wrong with it, since when, and the remedy.

use std::fmt;

use serde::Serialize;
use tidelock_store::Timestamp;

use super::remedy::Remedy;
use super::subject::Subject;

/// One result of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// How serious it is.
    pub severity: Severity,
    /// The affected item, run, reaction or other subject.
    pub subject: Subject,
    /// Since when, if known.
    pub since: Option<Timestamp>,
    /// What is wrong, as a sentence about the subject.
    pub what: String,
    /// How to fix it.
    pub remedy: Remedy,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information only; nothing is wrong.
    Info,
    /// It may pass without action.
    Warning,
    /// It needs attention.
    Error,
}

/// The kind of a finding, in the order of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// The kind and version of the store.
    Store,
    /// Commits, or the feed, wait for a database session.
    Blockers,
    /// A reaction's events do not reach its targets.
    Route,
    /// An event's route failed.
    Unrouted,
    /// An item is blocked until an operator unblocks it.
    Blocked,
    /// A run could not be driven.
    Parked,
    /// The outcome of a run's step is unknown.
    UnknownOutcome,
    /// The closing of a stream was started and not finished.
    HalfClosed,
    /// A claim's lease expired without a result.
    Abandoned,
    /// A lease expired, and no worker has taken the item since.
    Expired,
    /// An item's leases expire again and again.
    ExpiryLoop,
    /// An item has been held for long without progress.
    Hung,
    /// Items are due, and no worker takes them.
    Unserved,
    /// An item failed and is retried.
    Retrying,
    /// A lease is about to expire.
    Expiring,
    /// No run waits for a result.
    Orphaned,
    /// Many writers contend for the same stream or lock.
    Hot,
    /// A scan limit was reached.
    Unfinished,
}

impl FindingKind {
    /// All kinds, in the order of reports.
    pub const ALL: &'static [Self] = &[
        Self::Store,
        Self::Blockers,
        Self::Route,
        Self::Unrouted,
        Self::Blocked,
        Self::Parked,
        Self::UnknownOutcome,
        Self::HalfClosed,
        Self::Abandoned,
        Self::Expired,
        Self::ExpiryLoop,
        Self::Hung,
        Self::Unserved,
        Self::Retrying,
        Self::Expiring,
        Self::Orphaned,
        Self::Hot,
        Self::Unfinished,
    ];

    /// Returns the serialized name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Blockers => "blockers",
            Self::Route => "route",
            Self::Unrouted => "unrouted",
            Self::Blocked => "blocked",
            Self::Parked => "parked",
            Self::UnknownOutcome => "unknown_outcome",
            Self::HalfClosed => "half_closed",
            Self::Abandoned => "abandoned",
            Self::Expired => "expired",
            Self::ExpiryLoop => "expiry_loop",
            Self::Hung => "hung",
            Self::Unserved => "unserved",
            Self::Retrying => "retrying",
            Self::Expiring => "expiring",
            Self::Orphaned => "orphaned",
            Self::Hot => "hot",
            Self::Unfinished => "unfinished",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_str_is_the_serialized_name_and_kinds_are_in_order() {
        for kind in FindingKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert!(FindingKind::ALL.is_sorted());
    }
}
