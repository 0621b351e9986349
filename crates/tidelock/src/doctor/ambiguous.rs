//! Runs that wait for an operator: nobody knows whether one of their steps was done, and it must
//! not be done twice.

use tidelock_store::Result;

use super::check::Check;
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::handle::Tidelock;
use crate::runs::{PendingWait, RunInfo, RunStatus};

pub(super) async fn look(run: &RunInfo, exam: &Check, findings: &mut Findings) -> Result<()> {
    let runs = Tidelock::over(exam.store.clone()).runs();
    // A run that has just been removed has nothing to be told about.
    if let Ok(RunStatus::Waiting { on, .. }) = runs.run(run.run.as_str()).standing().await {
        on.iter()
            .filter_map(|awaited| finding(run, awaited))
            .for_each(|finding| findings.add(finding));
    }
    Ok(())
}

fn finding(run: &RunInfo, awaited: &PendingWait) -> Option<Finding> {
    let PendingWait::Verdict { step } = awaited else { return None };
    let advice = "find out, then say so; or have it done again with --rerun, or give it up with --fail ERROR";
    Some(Finding {
        kind: FindingKind::UnknownOutcome,
        severity: Severity::Error,
        subject: Subject::Run(run.run.clone()),
        since: Some(run.started_at),
        what: format!(
            "its worker died during step {:?}, and nobody knows whether it was done",
            step.as_str()
        ),
        remedy: Remedy::advice(advice)
            .then(RemedyAction::Resolve { run: run.run.clone(), step: step.clone() }),
    })
}
