//! Planning of work items: fences, settlements, restores and wakes of a commit.

use std::collections::BTreeMap;

use super::ReadRows;
use crate::clock::Timestamp;
use crate::commit::{Commit, Part, Violation, ViolationReason};
use crate::error::Result;
use crate::leases::{Item, ItemRef, LeaseToken};

pub(super) fn plan(
    commit: &Commit,
    now: Timestamp,
    rows: &mut impl ReadRows,
    violations: &mut Vec<Violation>,
) -> Result<Vec<Item>> {
    check_fences(commit, rows, violations)?;
    let mut items: BTreeMap<&ItemRef, Item> = BTreeMap::new();
    for (at, settlement) in commit.settlements.iter().enumerate() {
        let found = rows.item(&settlement.lease.item)?;
        match found {
            Some(mut item) if item.is_held_under(settlement.lease.fence) => {
                item.settle(settlement, now);
                items.insert(&settlement.lease.item, item);
            }
            // A repeated settlement: its reply was lost, its effect was not.
            Some(item) if item.was_settled_so(settlement) => {}
            found => violations.push(lost(Part::Settlement(at), &settlement.lease, found)),
        }
    }
    for (at, restored) in commit.restores.iter().enumerate() {
        match rows.item(&restored.item)? {
            None => drop(items.insert(&restored.item, restored.clone())),
            Some(found) => {
                let reason = ViolationReason::Item { found: Box::new(found) };
                violations.push(Violation { part: Part::Restore(at), reason });
            }
        }
    }
    for wake in &commit.wakes {
        if !items.contains_key(&wake.item) {
            let item = rows.item(&wake.item)?.unwrap_or_else(|| Item::made_by(wake));
            items.insert(&wake.item, item);
        }
        items.get_mut(&wake.item).expect("it was just put there").wake(wake, now);
    }
    Ok(items.into_values().collect())
}

fn check_fences(
    commit: &Commit,
    rows: &mut impl ReadRows,
    violations: &mut Vec<Violation>,
) -> Result<()> {
    for (at, lease) in commit.fences.iter().enumerate() {
        let found = rows.item(&lease.item)?;
        if !found.as_ref().is_some_and(|item| item.is_held_under(lease.fence)) {
            violations.push(lost(Part::Fence(at), lease, found));
        }
    }
    Ok(())
}

fn lost(part: Part, lease: &LeaseToken, found: Option<Item>) -> Violation {
    Violation {
        part,
        reason: ViolationReason::LeaseLost { lease: lease.clone(), found: found.map(Box::new) },
    }
}
