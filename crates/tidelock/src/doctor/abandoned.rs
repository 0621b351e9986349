//! Claims whose claimants died, or gave up without a word: the work was begun, and nothing came of
//! it.
//!
//! Whoever asks next takes such a claim over, so a request that is repeated mends it. A lock is
//! then as good as free. But a request that nobody repeats stands there as begun for ever, and
//! whatever it had done by then stays done.

use tidelock_store::{Result, limits};

use super::check::{Check, unfinished};
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::claims::{ClaimInfo, ClaimState};
use crate::handle::Tidelock;

pub(super) async fn look(exam: &Check, findings: &mut Findings) -> Result<()> {
    let claims = Tidelock::over(exam.store.clone()).claims();
    let (mut after, mut looked) = (None, 0);
    loop {
        let page = claims.list("", after.take(), limits::PAGE_SIZE).await?;
        looked += page.claims.len();
        page.claims
            .iter()
            .filter_map(|claim| finding(claim, exam))
            .for_each(|finding| findings.add(finding));
        match page.next {
            Some(next) if looked < exam.scan => after = Some(next),
            Some(_) => {
                findings.add(unfinished(Subject::Claims, looked));
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

fn finding(claim: &ClaimInfo, exam: &Check) -> Option<Finding> {
    let is_left = claim.since.is_none_or(|since| exam.is_long_ago(since));
    if claim.state != ClaimState::Stale || !is_left {
        return None;
    }
    Some(Finding {
        kind: FindingKind::Abandoned,
        severity: if claim.is_lock() { Severity::Warning } else { Severity::Error },
        subject: Subject::Claim(claim.key.clone()),
        since: claim.since,
        what: format!("{:?} was at it when its lease ran out, and nothing came of it", claim.by),
        remedy: Remedy::advice(
            "whoever asks again takes it over; if nobody will, look at what it has done, then free it",
        )
        .then(RemedyAction::Release { claim: claim.key.clone() }),
    })
}
