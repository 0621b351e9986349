//! Hung work: an item is held and renewed for longer than it should take, without progress.

use tidelock_store::{Item, LeaseHolder, Result, StreamQuery, Timestamp};

use super::check::Check;
use super::display::{many, span};
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;
use crate::runs::{self, run_of};

pub(super) async fn check(item: &Item, ctx: &Check) -> Result<Option<Finding>> {
    let standing = item.holder.as_ref().filter(|holder| holder.deadline > ctx.now);
    let Some(holder) = standing.filter(|holder| ctx.is_hung(holder.since)) else {
        return Ok(None);
    };
    let moved =
        last_progress(item, ctx).await?.map_or(holder.since, |moved| moved.max(holder.since));
    Ok(ctx.is_hung(moved).then(|| finding(item, holder, moved, ctx)))
}

/// When a held item last made visible progress: a run records its progress in its history.
async fn last_progress(item: &Item, ctx: &Check) -> Result<Option<Timestamp>> {
    let Some(run) = run_of(&item.item) else { return Ok(None) };
    let newest = StreamQuery::backward(&runs::keys::stream(&run)).limit(1);
    let page = ctx.store.read_stream(newest).await?;
    Ok(page.events.first().map(|event| event.recorded_at))
}

fn finding(item: &Item, holder: &LeaseHolder, moved: Timestamp, ctx: &Check) -> Finding {
    Finding {
        kind: FindingKind::Hung,
        severity: Severity::Error,
        subject: Subject::of(item),
        since: Some(moved),
        what: format!(
            "worker {:?} holds it and has made no progress for {} ({})",
            holder.worker,
            span(ctx.now.since(moved)),
            many(item.attempts, "attempt")
        ),
        remedy: Remedy::advice(
            "find out what that worker waits for; if work may take this long, pass a larger --hung; give the handler a \
             shorter timeout; if its process hangs, end it: the lease expires, and another worker continues",
        ),
    }
}
