//! Checks of open runs, newest first, that need more than their work items.
//!
//! What a run waits for is found by reading its history, so the number of runs is limited.

use tidelock_store::Result;

use super::check::Check;
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use super::{ambiguous, orphaned};
use crate::runs::client::listing;
use crate::runs::{RunFilter, RunState};

pub(super) async fn check(ctx: &Check, findings: &mut Findings) -> Result<()> {
    let filter = RunFilter::all().state(RunState::Open).limit(ctx.runs);
    let page = listing::list(&*ctx.store, &filter).await?;
    for run in &page.runs {
        ambiguous::check(run, ctx, findings).await?;
        orphaned::check(run, ctx, findings).await?;
    }
    if page.next.is_some() {
        findings.add(unfinished(page.runs.len()));
    }
    Ok(())
}

fn unfinished(scanned: usize) -> Finding {
    Finding {
        kind: FindingKind::Unfinished,
        severity: Severity::Warning,
        subject: Subject::Runs,
        since: None,
        what: format!("only the {scanned} newest open runs were checked; there may be more"),
        remedy: Remedy::advice("check more of them")
            .then(RemedyAction::RaiseRunLimit { runs: scanned.saturating_mul(10) }),
    }
}
