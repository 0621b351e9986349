//! Leases whose time is over and which nobody has taken: their holders are silent, and nobody else
//! serves the queue.

use tidelock_store::Item;

use super::cure::Cure;
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;
use super::unserved;
use super::words::span;

pub(super) fn look(item: &Item, exam: &Exam) -> Option<Finding> {
    let holder = item.holder.as_ref().filter(|holder| exam.is_long_ago(holder.deadline))?;
    let over = span(exam.now.since(holder.deadline));
    Some(Finding {
        kind: Kind::Expired,
        severity: Severity::Sick,
        thing: Thing::of(item),
        since: Some(holder.deadline),
        what: format!(
            "the lease of worker {:?} ran out {over} ago, and nobody has taken the item since",
            holder.worker
        ),
        cure: Cure::advice(format!(
            "{}; what the silent worker still writes is refused",
            unserved::advice(&item.item.queue)
        )),
    })
}
