//! Leases that are about to run out. A worker that is well renews in time, so its leases are seldom
//! seen like this.

use std::time::Duration;

use tidelock_store::Item;

use super::check::Check;
use super::display::span;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;

/// How little is left when it is worth a word.
const SOON: Duration = Duration::from_secs(2);

pub(super) fn look(item: &Item, exam: &Check) -> Option<Finding> {
    let holder = item.holder.as_ref().filter(|holder| holder.deadline > exam.now)?;
    let left = holder.deadline.since(exam.now);
    (left <= SOON).then(|| Finding {
        kind: FindingKind::Expiring,
        severity: Severity::Warning,
        subject: Subject::of(item),
        since: Some(holder.since),
        what: format!(
            "the lease of worker {:?} runs out in {} unless it is renewed",
            holder.worker,
            span(left)
        ),
        remedy: Remedy::advice("look again in a moment; if it is gone then, all is well"),
    })
}
