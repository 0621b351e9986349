//! Reactions whose events do not reach their targets: routing has stopped, has no worker, or lags
//! behind.

use std::collections::BTreeSet;

use tidelock_store::{FeedQuery, ItemRef, Result, StoreErrorKind, StoreExt, StoredEvent};

use super::display::span;
use super::examination::{Examination, unfinished};
use super::finding::{Finding, FindingKind, Findings};
use super::remedy::{RemedyAction, RemedyTask};
use super::subject::Subject;
use crate::reactions::{Reactions, RouteState, is_reserved};

/// Checks every route. Returns the routes' items, so that the item checks skip them.
pub(super) async fn check(
    exam: &Examination,
    findings: &mut Findings,
) -> Result<BTreeSet<ItemRef>> {
    let routes = Reactions::new(exam.store.clone()).routes().await?;
    for route in &routes {
        if let Some(finding) = check_route(route, exam).await? {
            findings.add(finding);
        }
    }
    Ok(routes.into_iter().map(|route| route.item).collect())
}

async fn check_route(route: &RouteState, exam: &Examination) -> Result<Option<Finding>> {
    if route.blocked {
        return Ok(Some(stopped(route, route.error.as_deref().unwrap_or("no error was recorded"))));
    }
    match next_event(route, exam).await {
        Ok(Next::Event(next)) => Ok(behind(route, &next, exam)),
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
async fn next_event(route: &RouteState, exam: &Examination) -> Result<Next> {
    let mut events =
        exam.store.rows(FeedQuery::after(route.position).stream_prefix(&route.streams));
    for _ in 0..exam.thresholds.scan {
        match events.next().await? {
            Some(event) if is_reserved(event.stream.as_str()) => {}
            Some(event) => return Ok(Next::Event(Box::new(event))),
            None => return Ok(Next::None),
        }
    }
    Ok(Next::LimitReached(exam.thresholds.scan))
}

fn stopped(route: &RouteState, error: &str) -> Finding {
    let reroute =
        |from_beginning| RemedyAction::Reroute { reaction: route.reaction.clone(), from_beginning };
    let what = format!("its events are routed no further than {}: {error}", route.position);
    Finding::error(FindingKind::Route, Subject::Reaction(route.reaction.clone()), what)
        .advice("unblock it if the cause is gone; after a restore, route its events again")
        .action(RemedyAction::Unblock(RemedyTask::all_of(&route.item.queue)))
        .action(reroute(true))
        .action(reroute(false))
}

/// An event that has waited too long to be routed.
fn behind(route: &RouteState, next: &StoredEvent, exam: &Examination) -> Option<Finding> {
    if !exam.is_stuck(next.recorded_at) {
        return None;
    }
    let (waited, position) = (span(exam.now.since(next.recorded_at)), route.position);
    let holder = route.holder.as_ref().filter(|_| route.is_routed(exam.now));
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
    let subject = Subject::Reaction(route.reaction.clone());
    let finding = Finding::error(FindingKind::Route, subject, what);
    Some(finding.since(next.recorded_at).advice(advice))
}
