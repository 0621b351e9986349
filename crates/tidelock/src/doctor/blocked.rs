//! Items that are not tried until somebody has looked at them.

use tidelock_store::Item;

use super::cure::{Action, Cure};
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;

pub(super) fn look(item: &Item, _: &Exam) -> Option<Finding> {
    if !item.blocked {
        return None;
    }
    let error = item.error.as_deref().unwrap_or("no error was kept");
    let waiting = item.mark.get().saturating_sub(item.at.get());
    Some(Finding {
        kind: Kind::Blocked,
        severity: Severity::Sick,
        thing: Thing::of(item),
        since: item.due,
        what: format!("blocked at {} with {waiting} to go: {error}", item.at),
        cure: Cure::advice("mend what it says, then let it go on").then(Action::unblock(item)),
    })
}
