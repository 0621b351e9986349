//! Reactions whose events do not reach their targets: routing stopped, or nobody does it, or it is
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

/// Looks at every route; gives the items that stand for them, so that nobody looks twice.
pub(super) async fn look(exam: &Check, findings: &mut Findings) -> Result<BTreeSet<ItemRef>> {
    let routes = Reactions::new(exam.store.clone()).routes().await?;
    for route in &routes {
        if let Some(finding) = look_at(route, exam).await? {
            findings.add(finding);
        }
    }
    Ok(routes.into_iter().map(|route| route.item).collect())
}

async fn look_at(route: &RouteState, exam: &Check) -> Result<Option<Finding>> {
    if route.blocked {
        return Ok(Some(stopped(route, route.error.as_deref().unwrap_or("no error was kept"))));
    }
    match next_event(route, exam).await {
        Ok(Next::Event(next)) => Ok(behind(route, &next, exam)),
        Ok(Next::None) => Ok(None),
        Ok(Next::Further(looked)) => {
            Ok(Some(unfinished(Subject::Reaction(route.reaction.clone()), looked)))
        }
        Err(error) if error.kind() == StoreErrorKind::Rewound => {
            Ok(Some(stopped(route, error.context())))
        }
        Err(error) => Err(error),
    }
}

/// What comes next for a reaction.
enum Next {
    Event(Box<StoredEvent>),
    None,
    /// It lies behind as many events as are looked at.
    Further(usize),
}

/// The first event that the reaction has yet to be given. Reactions follow none of Tidelock's own
/// streams; what they write there themselves comes behind their place.
async fn next_event(route: &RouteState, exam: &Check) -> Result<Next> {
    let mut events =
        exam.store.rows(FeedQuery::after(route.position).stream_prefix(&route.streams));
    for _ in 0..exam.scan {
        match events.next().await? {
            Some(event) if is_reserved(event.stream.as_str()) => {}
            Some(event) => return Ok(Next::Event(Box::new(event))),
            None => return Ok(Next::None),
        }
    }
    Ok(Next::Further(exam.scan))
}

fn stopped(route: &RouteState, error: &str) -> Finding {
    let anew =
        |from_beginning| RemedyAction::Reroute { reaction: route.reaction.clone(), from_beginning };
    let cure =
        Remedy::advice("let it go on if the cause is gone; after a restore, route its events anew");
    Finding {
        kind: FindingKind::Route,
        severity: Severity::Error,
        subject: Subject::Reaction(route.reaction.clone()),
        since: None,
        what: format!("its events are routed no further than {}: {error}", route.position),
        remedy: cure
            .then(RemedyAction::Unblock(RemedyTask::all_of(&route.item.queue)))
            .then(anew(true))
            .then(anew(false)),
    }
}

/// An event that has waited too long to be routed.
fn behind(route: &RouteState, next: &StoredEvent, exam: &Check) -> Option<Finding> {
    if !exam.is_long_ago(next.recorded_at) {
        return None;
    }
    let (waited, position) = (span(exam.now.since(next.recorded_at)), route.position);
    let holder = route.holder.as_ref().filter(|_| route.is_routed(exam.now));
    let (what, mend) = match holder {
        None => (
            format!("nobody routes its events; the first after {position} waits for {waited}"),
            format!("start a process that registers reaction {:?}", route.reaction),
        ),
        Some(holder) => (
            format!(
                "worker {:?} routes its events, but the first after {position} waits for {waited}",
                holder.worker
            ),
            "look at what that process says; if it hangs, end it, and another one takes over"
                .to_owned(),
        ),
    };
    Some(Finding {
        kind: FindingKind::Route,
        severity: Severity::Error,
        subject: Subject::Reaction(route.reaction.clone()),
        since: Some(next.recorded_at),
        what,
        remedy: Remedy::advice(mend),
    })
}
