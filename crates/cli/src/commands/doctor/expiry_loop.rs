//! Items whose leases run out again and again: something about them stops or kills whoever works on them.

use tidelock::Item;

use super::exam::{Exam, meaning, name};
use super::finding::{Finding, Kind, Severity};

/// Once can happen to anybody.
const LOOP: u32 = 2;

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
        thing: name(item),
        since: item.holder.as_ref().map(|holder| holder.since),
        what: format!("its lease ran out {} times since it last made progress{holder}", item.expiries),
        mend: Some(format!(
            "look at what its workers died of; meanwhile, tidelock defer 1h {} keeps it from others",
            meaning(item)
        )),
    })
}
