//! Items whose leases expire again and again: something about them stops or kills their workers.

use std::time::Duration;

use tidelock_store::Item;

use super::check::Check;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction, RemedyTask};
use super::subject::Subject;

/// One expiry is not a loop.
const LOOP: u32 = 2;

/// Long enough to find out why the workers died.
const DEFERRAL: Duration = Duration::from_secs(3_600);

pub(super) fn check(item: &Item, _: &Check) -> Option<Finding> {
    if item.expiries < LOOP {
        return None;
    }
    let holder = item
        .holder
        .as_ref()
        .map_or_else(String::new, |holder| format!(", last with worker {:?}", holder.worker));
    Some(Finding {
        kind: FindingKind::ExpiryLoop,
        severity: Severity::Error,
        subject: Subject::of(item),
        since: item.holder.as_ref().map(|holder| holder.since),
        what: format!(
            "its lease expired {} times since it last made progress{holder}",
            item.expiries
        ),
        remedy: Remedy::advice("find out why its workers died; meanwhile, defer it")
            .then(RemedyAction::Defer { work: RemedyTask::of(item), wait: DEFERRAL }),
    })
}
