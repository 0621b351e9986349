//! Work that is held and renewed for longer than any of it should take, without progress: its
//! handler hangs.

use tidelock_store::{Item, LeaseHolder, Result, StreamQuery, Timestamp};

use super::check::Check;
use super::display::{many, span};
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;
use crate::runs::{self, run_of};

pub(super) async fn look(item: &Item, exam: &Check) -> Result<Option<Finding>> {
    let standing = item.holder.as_ref().filter(|holder| holder.deadline > exam.now);
    let Some(holder) = standing.filter(|holder| exam.is_overlong(holder.since)) else {
        return Ok(None);
    };
    let moved = moved(item, exam).await?.map_or(holder.since, |moved| moved.max(holder.since));
    Ok(exam.is_overlong(moved).then(|| finding(item, holder, moved, exam)))
}

/// When the item last made progress that can be seen while it is held: a run records what it does.
async fn moved(item: &Item, exam: &Check) -> Result<Option<Timestamp>> {
    let Some(run) = run_of(&item.item) else { return Ok(None) };
    let newest = StreamQuery::backward(&runs::keys::stream(&run)).limit(1);
    let page = exam.store.read_stream(newest).await?;
    Ok(page.events.first().map(|event| event.recorded_at))
}

fn finding(item: &Item, holder: &LeaseHolder, moved: Timestamp, exam: &Check) -> Finding {
    Finding {
        kind: FindingKind::Hung,
        severity: Severity::Error,
        subject: Subject::of(item),
        since: Some(moved),
        what: format!(
            "worker {:?} holds it and has made no progress for {} ({})",
            holder.worker,
            span(exam.now.since(moved)),
            many(item.attempts, "attempt")
        ),
        remedy: Remedy::advice(
            "look at what that worker waits for, or ask for longer with --hung if this is meant to take so long; give the handler a \
             shorter timeout; if its process hangs, end it: the lease runs out, and another goes on",
        ),
    }
}
