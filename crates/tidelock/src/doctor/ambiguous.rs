//! Runs that wait for an operator: the outcome of a step is unknown, and the step must not run
//! twice.

use tidelock_store::Result;

use super::check::Check;
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::handle::Tidelock;
use crate::runs::{PendingWait, RunInfo, RunStatus};

pub(super) async fn check(run: &RunInfo, ctx: &Check, findings: &mut Findings) -> Result<()> {
    let runs = Tidelock::over(ctx.store.clone()).runs();
    // A run that was removed meanwhile has no findings.
    if let Ok(RunStatus::Waiting { on, .. }) = runs.run(run.run.as_str()).status().await {
        on.iter()
            .filter_map(|pending| finding(run, pending))
            .for_each(|finding| findings.add(finding));
    }
    Ok(())
}

fn finding(run: &RunInfo, pending: &PendingWait) -> Option<Finding> {
    let PendingWait::Verdict { step } = pending else { return None };
    let advice = "find out whether it was done and record its result; or run it again with --rerun, or fail it with --fail ERROR";
    Some(Finding {
        kind: FindingKind::UnknownOutcome,
        severity: Severity::Error,
        subject: Subject::Run(run.run.clone()),
        since: Some(run.started_at),
        what: format!(
            "its worker died during step {:?}, so the outcome of the step is unknown",
            step.as_str()
        ),
        remedy: Remedy::advice(advice)
            .then(RemedyAction::Resolve { run: run.run.clone(), step: step.clone() }),
    })
}
