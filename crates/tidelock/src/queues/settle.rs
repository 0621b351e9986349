//! Settling many leases in few commits, each independently.
//!
//! An item acknowledged without a mark is finished: its data is deleted with the ack, and the store
//! removes the item itself later.

use tidelock_store::{
    Commit, CommitOutcome, Conflict, ExpectedRevision, Item, Mark, Part, RecordWrite, Result,
    Settle, Settlement, Slot, Store, StoreError, StoreExt, ViolationReason, When, limits,
};

use super::keys;
use crate::events::submit;
use crate::handle::Tidelock;
use crate::telemetry;
use crate::worker::TaskOutcome;

/// Leases settled in one commit. Each may delete a record, and a commit has room for
/// [`limits::PARTS_PER_COMMIT`].
const CHUNK: usize = limits::PARTS_PER_COMMIT / 2;

/// Outcome of a settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleOutcome {
    /// Settled.
    Settled,
    /// The lease was lost and nothing was changed. Contains the current item, if it exists.
    Lost(Option<Box<Item>>),
}

pub(super) async fn settle(
    tidelock: &Tidelock,
    settlements: Vec<Settlement>,
) -> Result<Vec<SettleOutcome>> {
    let settlements: Vec<_> = settlements.into_iter().map(finishing).collect();
    let mut settled = Vec::with_capacity(settlements.len());
    for chunk in settlements.chunks(CHUNK) {
        settled.extend(settle_chunk(tidelock, chunk.to_vec()).await?);
    }
    for (settlement, outcome) in settlements.iter().zip(&settled) {
        let exit = match outcome {
            SettleOutcome::Settled => TaskOutcome::by(&settlement.exit),
            SettleOutcome::Lost(_) => TaskOutcome::Lost,
        };
        telemetry::settled(&settlement.lease, exit.name(), exit.error());
    }
    Ok(settled)
}

/// Settles a chunk: lost leases are left out, and the rest is sent again.
async fn settle_chunk(
    tidelock: &Tidelock,
    settlements: Vec<Settlement>,
) -> Result<Vec<SettleOutcome>> {
    let store = &**tidelock.store();
    let mut settled = vec![SettleOutcome::Settled; settlements.len()];
    let mut left: Vec<(usize, Settlement)> = settlements.into_iter().enumerate().collect();
    while !left.is_empty() {
        let all = left.iter().map(|(_, settlement)| settlement);
        let commit = all.clone().cloned().fold(Commit::new(), Commit::settle);
        let commit = deletions(store, all).await?.into_iter().fold(commit, Commit::write);
        let sent = submit::send(store, &commit, tidelock.retry(), tidelock.random()).await?;
        let CommitOutcome::Conflict(conflict) = sent else { break };
        let refusal = conflict.to_string();
        let Rejected { lost, data_changed } = Rejected::by(conflict);
        if lost.is_empty() && !data_changed {
            return Err(StoreError::corrupt(format!(
                "settlements were refused for another reason than a loss: {refusal}"
            )));
        }
        for (nth, found) in &lost {
            settled[left[*nth].0] = SettleOutcome::Lost(found.clone());
        }
        let mut nth = 0..;
        left.retain(|_| nth.next().is_some_and(|nth| lost.iter().all(|(lost, _)| *lost != nth)));
    }
    Ok(settled)
}

/// Makes an ack without a mark finish its item, unless the caller said otherwise.
pub(super) fn finishing(mut settlement: Settlement) -> Settlement {
    if let (Settle::Ack { forget: forget @ None, defer: None }, None | Some(Mark::ZERO)) =
        (&mut settlement.exit, settlement.done)
    {
        *forget = Some(When::In(limits::ITEM_MEMORY));
    }
    settlement
}

/// Builds the deletes of the finished items' data. A delete expects the revision that was read
/// *before* the item was seen without further work, so data written by a later enqueue is never
/// deleted.
pub(super) async fn deletions<'a>(
    store: &dyn Store,
    settlements: impl Iterator<Item = &'a Settlement>,
) -> Result<Vec<RecordWrite>> {
    let finished: Vec<_> = settlements.filter(|settlement| finishes(settlement)).collect();
    if finished.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<_> =
        finished.iter().map(|settlement| keys::data(&settlement.lease.item)).collect();
    let mut deletions = Vec::new();
    for (settlement, slot) in finished.into_iter().zip(store.get(&keys).await?) {
        let Slot::Live(data) = slot else { continue };
        let item = store.item(&settlement.lease.item).await?;
        if item.is_some_and(|item| item.is_held_under(settlement.lease.fence) && has_no_more(&item))
        {
            deletions
                .push(RecordWrite::delete(&data.key, ExpectedRevision::Revision(data.revision)));
        }
    }
    Ok(deletions)
}

fn finishes(settlement: &Settlement) -> bool {
    matches!(settlement.exit, Settle::Ack { forget: Some(_), .. })
}

/// Whether a leased item has no work beyond its lease.
fn has_no_more(item: &Item) -> bool {
    item.due.is_none() && item.at >= item.mark
}

/// Why settlements were rejected.
struct Rejected {
    /// Indexes of the settlements with lost leases, and the current items.
    lost: Vec<(usize, Option<Box<Item>>)>,
    /// Whether an item was enqueued again with other data meanwhile.
    data_changed: bool,
}

impl Rejected {
    fn by(conflict: Conflict) -> Self {
        let mut rejected = Self { lost: Vec::new(), data_changed: false };
        for clash in conflict.violations {
            match (clash.part, clash.reason) {
                (Part::Settlement(nth), ViolationReason::LeaseLost { found, .. }) => {
                    rejected.lost.push((nth, found));
                }
                (Part::Write(_), _) => rejected.data_changed = true,
                _ => {}
            }
        }
        rejected
    }
}
