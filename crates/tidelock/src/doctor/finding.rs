//! What was found: which thing, what is the matter with it, since when, and what mends it.

use std::fmt;

use serde::Serialize;
use tidelock_store::Timestamp;

use super::remedy::Remedy;
use super::subject::Subject;

/// One thing that is worth saying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing is the matter.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// What it is the matter with.
    pub subject: Subject,
    /// Since when, if that is known.
    pub since: Option<Timestamp>,
    /// What is the matter, as a sentence about the thing.
    pub what: String,
    /// What mends it.
    pub remedy: Remedy,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is wrong; it is only said.
    Info,
    /// It may pass by itself.
    Warning,
    /// It needs an operator.
    Error,
}

/// What kind of thing is the matter, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Which store this is, of which version.
    Store,
    /// Commits, or the feed, wait for a database session.
    Blockers,
    /// A reaction's events do not reach its targets.
    Route,
    /// An event's route failed.
    Unrouted,
    /// An item is not tried until somebody has looked at it.
    Blocked,
    /// A run could not be driven.
    Parked,
    /// Nobody knows whether a step of a run was done.
    UnknownOutcome,
    /// A stream's closing was begun and not finished.
    HalfClosed,
    /// A claimant is gone, and nothing came of the claim.
    Abandoned,
    /// A lease has run out, and nobody has taken the item since.
    Expired,
    /// An item's leases run out again and again.
    ExpiryLoop,
    /// An item is held for long without progress.
    Hung,
    /// Items are due and nobody takes them.
    Unserved,
    /// An item failed and is tried again.
    Retrying,
    /// A lease is about to run out.
    Expiring,
    /// Nobody is there for a result.
    Orphaned,
    /// Everybody wants the same thing at once.
    Hot,
    /// Not everything was looked at.
    Unfinished,
}

impl FindingKind {
    /// All of them, in the order in which they are told.
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

    /// Its name, as it is serialized.
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
    fn a_kind_is_called_what_it_is_serialised_as_and_all_are_told_in_order() {
        for kind in FindingKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert!(FindingKind::ALL.is_sorted());
    }
}
