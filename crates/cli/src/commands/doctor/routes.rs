//! Reactions whose events do not reach their targets: routing stopped, or nobody does it, or it is behind.

use std::collections::BTreeSet;

use tidelock::reactions::{Reactions, RouteState, is_reserved};
use tidelock::{ErrorKind, FeedQuery, ItemRef, StoredEvent};

use super::exam::Exam;
use super::finding::{Finding, Findings, Kind, Severity};
use crate::failure::Failure;
use crate::output::span;
use crate::shell::quoted;

/// Looks at every route; gives the items that stand for them, so that nobody looks twice.
pub(super) async fn look(exam: &Exam, findings: &mut Findings) -> Result<BTreeSet<ItemRef>, Failure> {
    let routes = Reactions::new(exam.store.clone()).routes().await?;
    for route in &routes {
        if let Some(finding) = look_at(route, exam).await? {
            findings.add(finding);
        }
    }
    Ok(routes.into_iter().map(|route| route.item).collect())
}

async fn look_at(route: &RouteState, exam: &Exam) -> Result<Option<Finding>, Failure> {
    if route.blocked {
        return Ok(Some(stopped(route, route.error.as_deref().unwrap_or("no error was kept"))));
    }
    match exam.store.read_feed(FeedQuery::after(route.position).stream_prefix(&route.streams)).await {
        Ok(page) => {
            // Reactions follow none of Tidelock's own streams; what they write there themselves comes behind their place.
            let next = page.events.iter().find(|event| !is_reserved(event.stream.as_str()));
            Ok(next.and_then(|next| behind(route, next, exam)))
        }
        Err(error) if error.kind() == ErrorKind::Rewound => Ok(Some(stopped(route, error.context()))),
        Err(error) => Err(error.into()),
    }
}

fn stopped(route: &RouteState, error: &str) -> Finding {
    let (reaction, queue) = (quoted(&route.reaction), quoted(route.item.queue.as_str()));
    Finding {
        kind: Kind::Route,
        severity: Severity::Sick,
        thing: thing(route),
        since: None,
        what: format!("its events are routed no further than {}: {error}", route.position),
        mend: Some(format!(
            "tidelock unblock --queue {queue} if the cause is gone; after a restore, tidelock reroute {reaction} --from beginning (or now)"
        )),
    }
}

/// An event that has waited too long to be routed.
fn behind(route: &RouteState, next: &StoredEvent, exam: &Exam) -> Option<Finding> {
    if !exam.is_long_ago(next.recorded_at) {
        return None;
    }
    let (waited, position) = (span(exam.now.since(next.recorded_at)), route.position);
    let holder = route.holder.as_ref().filter(|holder| holder.deadline > exam.now);
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
            "look at what that process says; if it hangs, end it, and another one takes over".to_owned(),
        ),
    };
    Some(Finding {
        kind: Kind::Route,
        severity: Severity::Sick,
        thing: thing(route),
        since: Some(next.recorded_at),
        what,
        mend: Some(mend),
    })
}

fn thing(route: &RouteState) -> String {
    format!("reaction {:?}", route.reaction)
}
