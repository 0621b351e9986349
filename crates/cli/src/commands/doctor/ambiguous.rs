//! Runs that wait for an operator: nobody knows whether one of their steps was done, and it must not be done twice.
//!
//! To see what a run waits for, its history is read; so only the newest open ones are looked at.

use tidelock::Tidelock;
use tidelock::runs::{Awaited, RunFilter, RunInfo, RunState, Standing};

use super::exam::Exam;
use super::finding::{Finding, Findings, Kind, Severity};
use crate::failure::Failure;
use crate::shell::quoted;

/// Runs that are looked at.
const MOST: usize = 200;

pub(super) async fn look(exam: &Exam, findings: &mut Findings) -> Result<(), Failure> {
    let runs = Tidelock::over(exam.store.clone()).runs();
    let page = runs.list(&RunFilter::all().state(RunState::Open).limit(MOST)).await?;
    for run in &page.runs {
        // A run that has just been removed has nothing to be told about.
        if let Ok(Standing::Waiting { on, .. }) = runs.run(run.run.as_str()).standing().await {
            on.iter().filter_map(|awaited| finding(run, awaited)).for_each(|finding| findings.add(finding));
        }
    }
    Ok(())
}

fn finding(run: &RunInfo, awaited: &Awaited) -> Option<Finding> {
    let Awaited::Verdict { step } = awaited else { return None };
    let (id, step) = (run.run.as_str(), step.as_str());
    Some(Finding {
        kind: Kind::Ambiguous,
        severity: Severity::Sick,
        thing: format!("run {id:?}"),
        since: Some(run.started_at),
        what: format!("its worker died during step {step:?}, and nobody knows whether it was done"),
        mend: Some(format!(
            "find out, then tidelock resolve {} {} --done RESULT (or --rerun, or --fail ERROR)",
            quoted(id),
            quoted(step)
        )),
    })
}
