//! The runs that have not ended, newest first, one by one: what their items do not say.
//!
//! To see what a run waits for, its history is read; so only so many are looked at.

use tidelock_store::Result;

use super::check::Check;
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use super::{ambiguous, orphaned};
use crate::runs::client::listing;
use crate::runs::{RunFilter, RunState};

pub(super) async fn look(exam: &Check, findings: &mut Findings) -> Result<()> {
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
        kind: FindingKind::Unfinished,
        severity: Severity::Warning,
        subject: Subject::Runs,
        since: None,
        what: format!("there may be more open ones than the {looked} newest, which were looked at"),
        remedy: Remedy::advice("look at more")
            .then(RemedyAction::LookAtMoreRuns { runs: looked.saturating_mul(10) }),
    }
}
