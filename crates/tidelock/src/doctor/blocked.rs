//! Blocked items: they are not retried until an operator unblocks them.

use tidelock_store::Item;

use super::check::Check;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;

pub(super) fn check(item: &Item, _: &Check) -> Option<Finding> {
    if !item.blocked {
        return None;
    }
    let error = item.error.as_deref().unwrap_or("no error was recorded");
    let waiting = item.mark.get().saturating_sub(item.at.get());
    Some(Finding {
        kind: FindingKind::Blocked,
        severity: Severity::Error,
        subject: Subject::of(item),
        since: item.due,
        what: format!("blocked at {}, {waiting} behind: {error}", item.at),
        remedy: Remedy::advice("fix the cause, then unblock it").then(RemedyAction::unblock(item)),
    })
}
