//! Items that are not tried until somebody has looked at them.

use tidelock_store::Item;

use super::check::Check;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;

pub(super) fn look(item: &Item, _: &Check) -> Option<Finding> {
    if !item.blocked {
        return None;
    }
    let error = item.error.as_deref().unwrap_or("no error was kept");
    let waiting = item.mark.get().saturating_sub(item.at.get());
    Some(Finding {
        kind: FindingKind::Blocked,
        severity: Severity::Error,
        subject: Subject::of(item),
        since: item.due,
        what: format!("blocked at {} with {waiting} to go: {error}", item.at),
        remedy: Remedy::advice("mend what it says, then let it go on")
            .then(RemedyAction::unblock(item)),
    })
}
