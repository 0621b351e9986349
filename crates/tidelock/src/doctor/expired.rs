//! Leases whose time is over and which nobody has taken: their holders are silent, and nobody else
//! serves the queue.

use tidelock_store::Item;

use super::check::Check;
use super::display::span;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;
use super::unserved;

pub(super) fn look(item: &Item, exam: &Check) -> Option<Finding> {
    let holder = item.holder.as_ref().filter(|holder| exam.is_long_ago(holder.deadline))?;
    let over = span(exam.now.since(holder.deadline));
    Some(Finding {
        kind: FindingKind::Expired,
        severity: Severity::Error,
        subject: Subject::of(item),
        since: Some(holder.deadline),
        what: format!(
            "the lease of worker {:?} ran out {over} ago, and nobody has taken the item since",
            holder.worker
        ),
        remedy: Remedy::advice(format!(
            "{}; what the silent worker still writes is refused",
            unserved::advice(&item.item.queue)
        )),
    })
}
