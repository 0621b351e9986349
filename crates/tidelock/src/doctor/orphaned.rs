//! Orphaned runs: children whose parent ended first, so that no run waits for their results.
//!
//! A run that started a child waits for its result. If the parent ends first (it was terminated, it
//! failed, or its code did not wait), the child continues, and its result is only seen by reading
//! the child by its id. Ended runs past their retention are reported with the unserved queues.

use tidelock_store::{Result, StoreExt, Timestamp};

use super::check::Check;
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::runs::summary::{Parent, Summarized};
use crate::runs::{RunInfo, keys};

/// How a parent ended.
enum End {
    At(Option<Timestamp>),
    Removed,
}

pub(super) async fn check(run: &RunInfo, ctx: &Check, findings: &mut Findings) -> Result<()> {
    let Some(parent) = &run.parent else { return Ok(()) };
    if let Some(end) = end_of(parent, ctx).await? {
        findings.add(finding(run, parent, &end));
    }
    Ok(())
}

async fn end_of(parent: &Parent, ctx: &Check) -> Result<Option<End>> {
    let slot = ctx.store.get_one(&keys::summary(&parent.run)).await?;
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
            "it is still running, but run {:?}, which started it as {:?}, {became}: no run waits for its result",
            parent.run.as_str(),
            parent.name.as_str()
        ),
        remedy: Remedy::advice("nothing, if it should continue; otherwise cancel it")
            .then(RemedyAction::Cancel { run: run.run.clone() }),
    }
}
