//! All that was found: of each kind the first few, and how many more there are.

use std::collections::BTreeMap;

use serde::Serialize;

use super::finding::{Finding, FindingKind, Severity};

/// All that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The first of each kind, kind by kind.
    pub findings: Vec<Finding>,
    /// How many more of a kind there are.
    pub more: BTreeMap<FindingKind, usize>,
    /// How many things are wrong, shown or not.
    pub errors: usize,
}

impl Diagnosis {
    /// Whether nothing is wrong. Notices, which may pass by themselves, do not count.
    pub fn is_healthy(&self) -> bool {
        self.errors == 0
    }
}

/// What has been found so far.
#[derive(Debug)]
pub(super) struct Findings {
    kept: BTreeMap<FindingKind, Vec<Finding>>,
    counts: BTreeMap<FindingKind, usize>,
    sick: usize,
    show: usize,
}

impl Findings {
    pub(super) fn new(show: usize) -> Self {
        Self { kept: BTreeMap::new(), counts: BTreeMap::new(), sick: 0, show: show.max(1) }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.sick += usize::from(finding.severity == Severity::Error);
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
        Self { findings: found.kept.into_values().flatten().collect(), more, errors: found.sick }
    }
}
