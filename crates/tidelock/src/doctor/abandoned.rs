//! Abandoned claims: the lease expired before the claimant recorded a result.
//!
//! The next request for the key takes the claim over, so a retry by the client fixes it. An
//! abandoned lock is as good as free. A request that is never retried stays unfinished, and its
//! side effects so far remain.

use tidelock_store::{Result, limits};

use super::check::{Check, unfinished};
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::claims::{ClaimInfo, ClaimState};
use crate::handle::Tidelock;

pub(super) async fn check(ctx: &Check, findings: &mut Findings) -> Result<()> {
    let claims = Tidelock::over(ctx.store.clone()).claims();
    let (mut after, mut scanned) = (None, 0);
    loop {
        let page = claims.list("", after.take(), limits::PAGE_SIZE).await?;
        scanned += page.claims.len();
        page.claims
            .iter()
            .filter_map(|claim| finding(claim, ctx))
            .for_each(|finding| findings.add(finding));
        match page.next {
            Some(next) if scanned < ctx.scan => after = Some(next),
            Some(_) => {
                findings.add(unfinished(Subject::Claims, scanned));
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

fn finding(claim: &ClaimInfo, ctx: &Check) -> Option<Finding> {
    let is_stalled = claim.since.is_none_or(|since| ctx.is_long_ago(since));
    if claim.state != ClaimState::Stale || !is_stalled {
        return None;
    }
    Some(Finding {
        kind: FindingKind::Abandoned,
        severity: if claim.is_lock() { Severity::Warning } else { Severity::Error },
        subject: Subject::Claim(claim.key.clone()),
        since: claim.since,
        what: format!("the lease of {:?} expired without a result", claim.by),
        remedy: Remedy::advice(
            "a repeated request takes it over; if none will come, check what was done so far, then release it",
        )
        .then(RemedyAction::Release { claim: claim.key.clone() }),
    })
}
