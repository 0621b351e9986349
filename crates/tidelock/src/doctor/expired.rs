//! Expired leases: the holder stopped renewing, and no other worker has taken the item.

use tidelock_store::Item;

use super::check::Check;
use super::display::span;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;
use super::unserved;

pub(super) fn check(item: &Item, ctx: &Check) -> Option<Finding> {
    let holder = item.holder.as_ref().filter(|holder| ctx.is_long_ago(holder.deadline))?;
    let over = span(ctx.now.since(holder.deadline));
    Some(Finding {
        kind: FindingKind::Expired,
        severity: Severity::Error,
        subject: Subject::of(item),
        since: Some(holder.deadline),
        what: format!(
            "the lease of worker {:?} expired {over} ago, and no worker has taken the item since",
            holder.worker
        ),
        remedy: Remedy::advice(format!(
            "{}; late writes of the old worker are refused",
            unserved::advice(&item.item.queue)
        )),
    })
}
