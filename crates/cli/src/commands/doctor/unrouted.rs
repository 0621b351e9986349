//! Events whose route failed: they reach no target until it is found.

use tidelock::Item;
use tidelock::reactions::Followed;

use super::exam::{Exam, meaning};
use super::finding::{Finding, Kind, Severity};

pub(super) fn look(item: &Item, _: &Exam) -> Option<Finding> {
    let target = Followed::of(item.clone()).filter(|target| target.unrouted && target.lag() > 0)?;
    let error = item.error.as_deref().unwrap_or("it was not tried yet");
    let after = item.mark.get().saturating_sub(1);
    let (severity, mend) = match item.blocked {
        true => {
            (Severity::Sick, format!("mend the routing function, then tidelock unblock {}", meaning(item)))
        }
        false => (
            Severity::Notice,
            format!("it is tried again; tidelock events --after {after} --limit 1 shows it"),
        ),
    };
    Some(Finding {
        kind: Kind::Unrouted,
        severity,
        thing: format!("reaction {:?}, event at position {}", target.reaction, item.mark),
        since: item.due,
        what: format!("its route failed: {error}"),
        mend: Some(mend),
    })
}
