//! Items whose leases run out again and again: something about them stops or kills whoever works on
//! them.

use std::time::Duration;

use tidelock_store::Item;

use super::cure::{Action, Cure, Work};
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;

/// Once can happen to anybody.
const LOOP: u32 = 2;

/// Long enough to look at what the workers died of.
const MEANWHILE: Duration = Duration::from_secs(3_600);

pub(super) fn look(item: &Item, _: &Exam) -> Option<Finding> {
    if item.expiries < LOOP {
        return None;
    }
    let holder = item
        .holder
        .as_ref()
        .map_or_else(String::new, |holder| format!(", last with worker {:?}", holder.worker));
    Some(Finding {
        kind: Kind::ExpiryLoop,
        severity: Severity::Sick,
        thing: Thing::of(item),
        since: item.holder.as_ref().map(|holder| holder.since),
        what: format!(
            "its lease ran out {} times since it last made progress{holder}",
            item.expiries
        ),
        cure: Cure::advice("look at what its workers died of; meanwhile, keep it from others")
            .then(Action::Defer { work: Work::of(item), wait: MEANWHILE }),
    })
}
