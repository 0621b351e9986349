//! Findings: the subject, what is wrong with it, since when, and the remedy; and the diagnosis made
//! of them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tidelock_store::Timestamp;

use super::remedy::{Remedy, RemedyAction};
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

impl Finding {
    pub(super) fn new(
        kind: FindingKind,
        severity: Severity,
        subject: Subject,
        what: impl Into<String>,
    ) -> Self {
        let (since, what, remedy) = (None, what.into(), Remedy::default());
        Self { kind, severity, subject, since, what, remedy }
    }

    pub(super) fn error(kind: FindingKind, subject: Subject, what: impl Into<String>) -> Self {
        Self::new(kind, Severity::Error, subject, what)
    }

    pub(super) fn warning(kind: FindingKind, subject: Subject, what: impl Into<String>) -> Self {
        Self::new(kind, Severity::Warning, subject, what)
    }

    pub(super) fn since(mut self, since: impl Into<Option<Timestamp>>) -> Self {
        self.since = since.into();
        self
    }

    /// Sets what to do, or to know, before acting.
    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.remedy.advice = Some(advice.into());
        self
    }

    /// Adds an action to choose.
    pub(super) fn action(mut self, action: RemedyAction) -> Self {
        self.remedy.actions.push(action);
        self
    }
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

/// Defines the kinds, their order and their serialized names in one list.
macro_rules! finding_kinds {
    ($($(#[$doc:meta])+ $kind:ident => $name:literal,)+) => {
        /// The kind of a finding, in the order of reports.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[$doc])+ $kind,)+
        }

        impl FindingKind {
            /// All kinds, in the order of reports.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// Returns the serialized name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

finding_kinds! {
    /// The kind and version of the store.
    Store => "store",
    /// Commits, or the feed, wait for a database session.
    Blockers => "blockers",
    /// A reaction's events do not reach its targets.
    Route => "route",
    /// An event's route failed.
    Unrouted => "unrouted",
    /// An item is blocked until an operator unblocks it.
    Blocked => "blocked",
    /// A run could not be driven.
    Parked => "parked",
    /// The outcome of a run's step is unknown.
    UnknownOutcome => "unknown_outcome",
    /// The closing of a stream was started and not finished.
    HalfClosed => "half_closed",
    /// A claim's lease expired without a result.
    Abandoned => "abandoned",
    /// A lease expired, and no worker has taken the item since.
    Expired => "expired",
    /// An item's leases expire again and again.
    ExpiryLoop => "expiry_loop",
    /// An item has been held for long without progress.
    Hung => "hung",
    /// A worker renews its leases and makes no progress with any.
    Stuck => "stuck",
    /// Items are due, and no worker takes them.
    Unserved => "unserved",
    /// An item failed and is retried.
    Retrying => "retrying",
    /// A lease is about to expire.
    Expiring => "expiring",
    /// No run waits for a result.
    Orphaned => "orphaned",
    /// Many writers contend for the same stream, record, scope, quota or lock.
    Hot => "hot",
    /// A share of the recent claims timed out or failed.
    FailingClaims => "failing_claims",
    /// A scan limit was reached.
    Unfinished => "unfinished",
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The first findings of each kind, grouped by kind.
    pub findings: Vec<Finding>,
    /// The number of further findings by kind.
    pub more: BTreeMap<FindingKind, usize>,
    /// The number of findings with [`Severity::Error`], including those not shown.
    pub errors: usize,
}

impl Diagnosis {
    /// Whether there are no errors. Warnings, which may pass without action, do not count.
    pub fn is_healthy(&self) -> bool {
        self.errors == 0
    }
}

/// Collects findings and keeps the first of each kind.
#[derive(Debug)]
pub(super) struct Findings {
    kept: BTreeMap<FindingKind, Vec<Finding>>,
    counts: BTreeMap<FindingKind, usize>,
    errors: usize,
    show: usize,
}

impl Findings {
    pub(super) fn new(show: usize) -> Self {
        Self { kept: BTreeMap::new(), counts: BTreeMap::new(), errors: 0, show: show.max(1) }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.errors += usize::from(finding.severity == Severity::Error);
        *self.counts.entry(finding.kind).or_default() += 1;
        let kept = self.kept.entry(finding.kind).or_default();
        if kept.len() < self.show {
            kept.push(finding);
        }
    }
}

impl From<Findings> for Diagnosis {
    fn from(found: Findings) -> Self {
        let kept = |kind: &FindingKind| found.kept.get(kind).map_or(0, Vec::len);
        let more = found.counts.iter().map(|(kind, count)| (*kind, count - kept(kind)));
        let more = more.filter(|(_, more)| *more > 0).collect();
        Self { findings: found.kept.into_values().flatten().collect(), more, errors: found.errors }
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
