//! Items whose leases run out again and again: something about them stops or kills whoever works on
//! them.

use std::time::Duration;

use tidelock_store::Item;

use super::check::Check;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction, RemedyTask};
use super::subject::Subject;

/// Once can happen to anybody.
const LOOP: u32 = 2;

/// Long enough to look at what the workers died of.
const MEANWHILE: Duration = Duration::from_secs(3_600);

pub(super) fn look(item: &Item, _: &Check) -> Option<Finding> {
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
            "its lease ran out {} times since it last made progress{holder}",
            item.expiries
        ),
        remedy: Remedy::advice("look at what its workers died of; meanwhile, keep it from others")
            .then(RemedyAction::Defer { work: RemedyTask::of(item), wait: MEANWHILE }),
    })
}
