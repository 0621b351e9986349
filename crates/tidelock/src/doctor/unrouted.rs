//! Events whose route failed: they reach no target until it is found.

use tidelock_store::Item;

use super::check::Check;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::reactions::TargetInfo;

pub(super) fn look(item: &Item, _: &Check) -> Option<Finding> {
    let target =
        TargetInfo::of(item.clone()).filter(|target| target.unrouted && target.lag() > 0)?;
    let error = item.error.as_deref().unwrap_or("it was not tried yet");
    let (severity, cure) = match item.blocked {
        true => {
            let cure = Remedy::advice("mend the routing function, then let it be tried again");
            (Severity::Error, cure.then(RemedyAction::unblock(item)))
        }
        false => {
            let cure = Remedy::advice("it is tried again; to see the event");
            (Severity::Warning, cure.then(RemedyAction::LookAtEvent { position: item.mark.get() }))
        }
    };
    Some(Finding {
        kind: FindingKind::Unrouted,
        severity,
        subject: Subject::Event { reaction: target.reaction, position: item.mark },
        since: item.due,
        what: format!("its route failed: {error}"),
        remedy: cure,
    })
}
