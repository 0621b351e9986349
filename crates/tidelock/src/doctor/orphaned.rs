//! Results that nobody is there for: those of runs whose parents have ended without them.
//!
//! A run that started another waits for its result. If it ends first (it was terminated, it failed,
//! or its code did not wait), the child goes on, and what comes of it is seen by nobody who does
//! not ask for it by name. Ended runs that are kept longer than they were to be are told of with
//! the queues that nobody serves.

use tidelock_store::{Result, StoreExt, Timestamp};

use super::check::Check;
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::runs::summary::{Parent, Summarized};
use crate::runs::{RunInfo, keys};

/// What became of a parent.
enum End {
    At(Option<Timestamp>),
    Removed,
}

pub(super) async fn look(run: &RunInfo, exam: &Check, findings: &mut Findings) -> Result<()> {
    let Some(parent) = &run.parent else { return Ok(()) };
    if let Some(end) = end_of(parent, exam).await? {
        findings.add(finding(run, parent, &end));
    }
    Ok(())
}

async fn end_of(parent: &Parent, exam: &Check) -> Result<Option<End>> {
    let slot = exam.store.get_one(&keys::summary(&parent.run)).await?;
    Ok(match Summarized::of(&parent.run, &slot)? {
        Some(there) if there.summary.state.is_ended() => Some(End::At(there.summary.ended_at)),
        Some(_) => None,
        None => Some(End::Removed),
    })
}

fn finding(run: &RunInfo, parent: &Parent, end: &End) -> Finding {
    let (since, became) = match end {
        End::At(ended) => (*ended, "has ended"),
        End::Removed => (None, "was removed"),
    };
    Finding {
        kind: FindingKind::Orphaned,
        severity: Severity::Warning,
        subject: Subject::Run(run.run.clone()),
        since,
        what: format!(
            "it goes on, but run {:?}, which started it as {:?}, {became}: nobody waits for its result",
            parent.run.as_str(),
            parent.name.as_str()
        ),
        remedy: Remedy::advice("nothing, if it should go on; else")
            .then(RemedyAction::Cancel { run: run.run.clone() }),
    }
}
