//! Events whose route failed: they reach no target until it is found.

use tidelock_store::Item;

use super::cure::{Action, Cure};
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;
use crate::reactions::Followed;

pub(super) fn look(item: &Item, _: &Exam) -> Option<Finding> {
    let target = Followed::of(item.clone()).filter(|target| target.unrouted && target.lag() > 0)?;
    let error = item.error.as_deref().unwrap_or("it was not tried yet");
    let (severity, cure) = match item.blocked {
        true => {
            let cure = Cure::advice("mend the routing function, then let it be tried again");
            (Severity::Sick, cure.then(Action::unblock(item)))
        }
        false => {
            let cure = Cure::advice("it is tried again; to see the event");
            (Severity::Notice, cure.then(Action::LookAtEvent { position: item.mark.get() }))
        }
    };
    Some(Finding {
        kind: Kind::Unrouted,
        severity,
        thing: Thing::Event { reaction: target.reaction, position: item.mark },
        since: item.due,
        what: format!("its route failed: {error}"),
        cure,
    })
}
