//! Leases that are about to expire. A healthy worker renews in time, so this state is rarely seen.

use std::time::Duration;

use tidelock_store::Item;

use super::check::Check;
use super::display::span;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;

/// The remaining time below which a lease is reported.
const SOON: Duration = Duration::from_secs(2);

pub(super) fn check(item: &Item, ctx: &Check) -> Option<Finding> {
    let holder = item.holder.as_ref().filter(|holder| holder.deadline > ctx.now)?;
    let left = holder.deadline.since(ctx.now);
    (left <= SOON).then(|| Finding {
        kind: FindingKind::Expiring,
        severity: Severity::Warning,
        subject: Subject::of(item),
        since: Some(holder.since),
        what: format!(
            "the lease of worker {:?} expires in {} unless it is renewed",
            holder.worker,
            span(left)
        ),
        remedy: Remedy::advice("check again in a moment; if this is gone, all is well"),
    })
}
