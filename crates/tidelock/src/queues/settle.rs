//! Ending many leases in as few commits as it takes, each for itself.

use tidelock_store::{Commit, CommitOutcome, Conflict, Item, Part, Reason, Result, Settlement, StoreError};

use crate::events::sender;
use crate::handle::Tidelock;

/// What became of a settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is settled so.
    Settled,
    /// The lease was lost, and nothing was changed: what is there now, if the item exists.
    Lost(Option<Box<Item>>),
}

/// Settles those that can be: whatever is lost is left out, and the rest sent again.
pub(super) async fn settle(tidelock: &Tidelock, settlements: Vec<Settlement>) -> Result<Vec<Settled>> {
    let mut settled = vec![Settled::Settled; settlements.len()];
    let mut left: Vec<(usize, Settlement)> = settlements.into_iter().enumerate().collect();
    while !left.is_empty() {
        let all = left.iter().map(|(_, settlement)| settlement.clone());
        let commit = all.fold(Commit::new(), Commit::settle);
        let sent = sender::send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await?;
        let CommitOutcome::Conflict(conflict) = sent else { break };
        let refusal = conflict.to_string();
        let lost = lost(conflict);
        if lost.is_empty() {
            return Err(StoreError::corrupt(format!(
                "settlements were refused for another reason than a loss: {refusal}"
            )));
        }
        for (nth, found) in &lost {
            settled[left[*nth].0] = Settled::Lost(found.clone());
        }
        let mut nth = 0..;
        left.retain(|_| nth.next().is_some_and(|nth| lost.iter().all(|(lost, _)| *lost != nth)));
    }
    Ok(settled)
}

/// Which of the commit's settlements are of lost leases, and what is there instead.
fn lost(conflict: Conflict) -> Vec<(usize, Option<Box<Item>>)> {
    let lost = conflict.clashes.into_iter().filter_map(|clash| match (clash.part, clash.reason) {
        (Part::Settlement(nth), Reason::LeaseLost { found, .. }) => Some((nth, found)),
        _ => None,
    });
    lost.collect()
}
