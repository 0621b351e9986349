//! The runs that have not ended, newest first, one by one: what their items do not say.
//!
//! To see what a run waits for, its history is read; so only so many are looked at.

use tidelock_store::Result;

use super::cure::{Action, Cure};
use super::diagnosis::Findings;
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;
use super::{ambiguous, orphaned};
use crate::runs::client::listing;
use crate::runs::{RunFilter, RunState};

pub(super) async fn look(exam: &Exam, findings: &mut Findings) -> Result<()> {
    let filter = RunFilter::all().state(RunState::Open).limit(exam.runs);
    let page = listing::list(&*exam.store, &filter).await?;
    for run in &page.runs {
        ambiguous::look(run, exam, findings).await?;
        orphaned::look(run, exam, findings).await?;
    }
    if page.next.is_some() {
        findings.add(unfinished(page.runs.len()));
    }
    Ok(())
}

fn unfinished(looked: usize) -> Finding {
    Finding {
        kind: Kind::Unfinished,
        severity: Severity::Notice,
        thing: Thing::Runs,
        since: None,
        what: format!("there may be more open ones than the {looked} newest, which were looked at"),
        cure: Cure::advice("look at more")
            .then(Action::LookAtMoreRuns { runs: looked.saturating_mul(10) }),
    }
}
