//! The diagnosis: the first findings of each kind, and the number of the rest.

use std::collections::BTreeMap;

use serde::Serialize;

use super::finding::{Finding, FindingKind, Severity};

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
