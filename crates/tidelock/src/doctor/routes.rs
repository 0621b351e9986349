//! Reactions whose events do not reach their targets: routing has stopped, has no worker, or lags
//! behind.

use std::collections::BTreeSet;

use tidelock_store::{FeedQuery, ItemRef, Result, StoreErrorKind, StoreExt, StoredEvent};

use super::check::{Check, unfinished};
use super::diagnosis::Findings;
use super::display::span;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction, RemedyTask};
use super::subject::Subject;
use crate::reactions::{Reactions, RouteState, is_reserved};

/// Checks every route. Returns the routes' items, so that the item checks skip them.
pub(super) async fn check(ctx: &Check, findings: &mut Findings) -> Result<BTreeSet<ItemRef>> {
    let routes = Reactions::new(ctx.store.clone()).routes().await?;
    for route in &routes {
        if let Some(finding) = check_route(route, ctx).await? {
            findings.add(finding);
        }
    }
    Ok(routes.into_iter().map(|route| route.item).collect())
}

async fn check_route(route: &RouteState, ctx: &Check) -> Result<Option<Finding>> {
    if route.blocked {
        return Ok(Some(stopped(route, route.error.as_deref().unwrap_or("no error was recorded"))));
    }
    match next_event(route, ctx).await {
        Ok(Next::Event(next)) => Ok(behind(route, &next, ctx)),
        Ok(Next::None) => Ok(None),
        Ok(Next::LimitReached(scanned)) => {
            Ok(Some(unfinished(Subject::Reaction(route.reaction.clone()), scanned)))
        }
        Err(error) if error.kind() == StoreErrorKind::Rewound => {
            Ok(Some(stopped(route, error.context())))
        }
        Err(error) => Err(error),
    }
}

/// What a reaction reads next.
enum Next {
    Event(Box<StoredEvent>),
    None,
    /// No event for it among as many as the scan limit allows.
    LimitReached(usize),
}

/// The first event that the reaction has not processed. Reactions do not follow Tidelock's reserved
/// streams; what they append there comes after their cursor.
async fn next_event(route: &RouteState, ctx: &Check) -> Result<Next> {
    let mut events = ctx.store.rows(FeedQuery::after(route.position).stream_prefix(&route.streams));
    for _ in 0..ctx.scan {
        match events.next().await? {
            Some(event) if is_reserved(event.stream.as_str()) => {}
            Some(event) => return Ok(Next::Event(Box::new(event))),
            None => return Ok(Next::None),
        }
    }
    Ok(Next::LimitReached(ctx.scan))
}

fn stopped(route: &RouteState, error: &str) -> Finding {
    let reroute =
        |from_beginning| RemedyAction::Reroute { reaction: route.reaction.clone(), from_beginning };
    let remedy =
        Remedy::advice("unblock it if the cause is gone; after a restore, route its events again");
    Finding {
        kind: FindingKind::Route,
        severity: Severity::Error,
        subject: Subject::Reaction(route.reaction.clone()),
        since: None,
        what: format!("its events are routed no further than {}: {error}", route.position),
        remedy: remedy
            .then(RemedyAction::Unblock(RemedyTask::all_of(&route.item.queue)))
            .then(reroute(true))
            .then(reroute(false)),
    }
}

/// An event that has waited too long to be routed.
fn behind(route: &RouteState, next: &StoredEvent, ctx: &Check) -> Option<Finding> {
    if !ctx.is_long_ago(next.recorded_at) {
        return None;
    }
    let (waited, position) = (span(ctx.now.since(next.recorded_at)), route.position);
    let holder = route.holder.as_ref().filter(|_| route.is_routed(ctx.now));
    let (what, advice) = match holder {
        None => (
            format!(
                "no worker routes its events; the first after {position} has waited for {waited}"
            ),
            format!("start a process that registers reaction {:?}", route.reaction),
        ),
        Some(holder) => (
            format!(
                "worker {:?} routes its events, but the first after {position} has waited for {waited}",
                holder.worker
            ),
            "check that process; if it hangs, end it, and another one takes over".to_owned(),
        ),
    };
    Some(Finding {
        kind: FindingKind::Route,
        severity: Severity::Error,
        subject: Subject::Reaction(route.reaction.clone()),
        since: Some(next.recorded_at),
        what,
        remedy: Remedy::advice(advice),
    })
}
