//! Items that are not tried until somebody has looked at them.

use tidelock::Item;

use super::exam::{Exam, name, unblocking};
use super::finding::{Finding, Kind, Severity};

pub(super) fn look(item: &Item, _: &Exam) -> Option<Finding> {
    if !item.blocked {
        return None;
    }
    let error = item.error.as_deref().unwrap_or("no error was kept");
    let waiting = item.mark.get().saturating_sub(item.at.get());
    Some(Finding {
        kind: Kind::Blocked,
        severity: Severity::Sick,
        thing: name(item),
        since: item.due,
        what: format!("blocked at {} with {waiting} to go: {error}", item.at),
        mend: Some(format!("mend what it says, then {}", unblocking(item))),
    })
}
