//! Outcomes of recent claims: a share of them that timed out or failed is a problem of what they
//! protect, whatever becomes of each.
//!
//! The store knows what became of a claim, and not of requests that were refused because it was
//! held: these are counted by the processes, in `tidelock_claims_total`.

use std::time::Duration;

use super::examination::Examination;
use super::finding::{Finding, FindingKind};
use super::subject::Subject;
use crate::claims::{ClaimInfo, ClaimState};

/// How far back claims count.
const WINDOW: Duration = Duration::from_secs(3_600);

/// Of fewer claims, a share says nothing.
const ENOUGH: usize = 20;

/// The claims that were acquired in the last hour, without locks, whose leases may end.
#[derive(Debug, Default)]
pub(super) struct ClaimOutcomes {
    all: usize,
    timed_out: usize,
    failed: usize,
}

impl ClaimOutcomes {
    pub(super) fn count(&mut self, claim: &ClaimInfo, exam: &Examination) {
        let is_recent = |since| exam.now.since(since) <= WINDOW;
        if claim.is_lock() || !claim.since.is_some_and(is_recent) {
            return;
        }
        self.all += 1;
        self.timed_out += usize::from(claim.state == ClaimState::Stale);
        self.failed += usize::from(claim.state == ClaimState::Failed);
    }

    /// The finding, if the share is above the threshold.
    pub(super) fn finding(&self, exam: &Examination) -> Option<Finding> {
        let bad = self.timed_out + self.failed;
        let percent = (bad * 100).checked_div(self.all)?;
        let threshold = usize::from(exam.thresholds.failing_claims);
        if self.all < ENOUGH || bad == 0 || percent < threshold {
            return None;
        }
        let what = format!(
            "of {} that were acquired in the last hour, {} timed out and {} failed: {percent} %",
            self.all, self.timed_out, self.failed
        );
        let advice = "find out why their holders die, or take longer than the lease; the list shows their errors: \
                      tidelock claims --state stale, or --state failed";
        Some(Finding::warning(FindingKind::FailingClaims, Subject::Claims, what).advice(advice))
    }
}
