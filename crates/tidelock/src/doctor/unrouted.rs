//! Unrouted events: the routing function failed, and they reach no target until it succeeds.

use tidelock_store::Item;

use super::check::Check;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::reactions::TargetInfo;

pub(super) fn check(item: &Item, _: &Check) -> Option<Finding> {
    let target =
        TargetInfo::of(item.clone()).filter(|target| target.unrouted && target.lag() > 0)?;
    let error = item.error.as_deref().unwrap_or("not tried yet");
    let (severity, remedy) = match item.blocked {
        true => {
            let remedy = Remedy::advice("fix the routing function, then unblock it");
            (Severity::Error, remedy.then(RemedyAction::unblock(item)))
        }
        false => {
            let remedy = Remedy::advice("it is retried; to see the event");
            (Severity::Warning, remedy.then(RemedyAction::ShowEvent { position: item.mark.get() }))
        }
    };
    Some(Finding {
        kind: FindingKind::Unrouted,
        severity,
        subject: Subject::Event { reaction: target.reaction, position: item.mark },
        since: item.due,
        what: format!("its route failed: {error}"),
        remedy,
    })
}
