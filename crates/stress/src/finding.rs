//! A violation: its kind, and its subject.

use std::collections::BTreeMap;
use std::fmt;

/// The kind of a finding. Each has a test that corrupts the evidence and checks that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    LostCommit,
    HalfCommit,
    WrittenThoughRefused,
    Contradiction,
    BrokenPromise,
    Unresolved,
    Unexplained,
    DoubledEvent,
    Gap,
    FeedDiffers,
    SkippedInFeed,
    WrongTotal,
    Overlap,
    MiscountedExpiry,
    StuckLease,
    Undrained,
    DrainedTwice,
    Unhandled,
    HandledTwice,
    OutOfOrder,
    WrongEffect,
    Blocked,
    Unfinished,
    AfterTheEnd,
    RecordedTwice,
    DoneTwice,
    Exceeded,
    Anomaly,
    WorkerFailed,
    NoProgress,
    TooLittle,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::LostCommit => "lost commit",
            Self::HalfCommit => "half a commit",
            Self::WrittenThoughRefused => "written though refused",
            Self::Contradiction => "contradiction",
            Self::BrokenPromise => "broken promise",
            Self::Unresolved => "unresolved outcome",
            Self::Unexplained => "unexplained event",
            Self::DoubledEvent => "doubled event",
            Self::Gap => "gap in versions",
            Self::FeedDiffers => "feed and streams differ",
            Self::SkippedInFeed => "skipped in the feed",
            Self::WrongTotal => "wrong total",
            Self::Overlap => "two holders at once",
            Self::MiscountedExpiry => "miscounted expiry",
            Self::StuckLease => "stuck lease",
            Self::Undrained => "undrained event",
            Self::DrainedTwice => "drained twice",
            Self::Unhandled => "unhandled event",
            Self::HandledTwice => "handled twice",
            Self::OutOfOrder => "out of order",
            Self::WrongEffect => "wrong effect",
            Self::Blocked => "blocked",
            Self::Unfinished => "unfinished run",
            Self::AfterTheEnd => "entry after the end",
            Self::RecordedTwice => "recorded twice",
            Self::DoneTwice => "done twice",
            Self::Exceeded => "quota exceeded",
            Self::Anomaly => "anomaly in the history",
            Self::WorkerFailed => "worker failed",
            Self::NoProgress => "no progress",
            Self::TooLittle => "too little happened",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    /// Names the subject.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.what)
    }
}

/// Number of findings of one kind that are printed in full; one fault often shows a thousand times.
const TOLD_OF_A_KIND: usize = 5;

/// The first few findings of each kind, and the number of the rest.
pub(crate) fn in_short(findings: &[Finding]) -> Vec<String> {
    let mut kinds: BTreeMap<Kind, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        kinds.entry(finding.kind).or_default().push(finding);
    }
    let mut lines = Vec::new();
    for (kind, found) in kinds {
        lines.extend(found.iter().take(TOLD_OF_A_KIND).map(ToString::to_string));
        if let Some(more) = found.len().checked_sub(TOLD_OF_A_KIND).filter(|more| *more > 0) {
            lines.push(format!("{}: and {more} more", kind.name()));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_findings_of_a_kind_are_summarized() {
        let mut findings: Vec<_> =
            (0..1000).map(|n| Finding::new(Kind::Gap, format!("stream {n}"))).collect();
        findings.push(Finding::new(Kind::LostCommit, "commit 1"));
        let lines = in_short(&findings);
        assert_eq!(lines.len(), TOLD_OF_A_KIND + 2);
        assert_eq!(lines[0], "lost commit: commit 1");
        assert_eq!(lines.last().unwrap(), "gap in versions: and 995 more");
    }
}
