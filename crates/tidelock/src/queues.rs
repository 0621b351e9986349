//! Queues of one's own: work items that anybody puts in, and that workers of any kind lease, renew
//! and settle.
//!
//! This is for workers that the [`Worker`](crate::worker::Worker) of this crate cannot be, because
//! they are in another language or keep nothing between two calls: all that they need to know of a
//! lease is its key and its fence. An item is put in under a key; put in again while it is there,
//! it is the same item. What is to be done can be written beside it, as *data*.
//!
//! What this is not: the queues of reactions and runs. Those have names that begin with `~`, and
//! are refused here.

mod keys;
mod listing;
mod put;
mod settle;
mod take;

use std::time::Duration;

use tidelock_store::{
    Fence, ItemKey, ItemRef, LeaseToken, QueueName, Renewal, Result, Settlement, StoreError,
};

use crate::handle::Tidelock;

pub use listing::ItemState;
pub use put::EnqueueItem;
pub use settle::SettleOutcome;
pub use take::{LeaseItems, LeasedItems};

/// One queue. Clones are handles on the same.
#[derive(Debug, Clone)]
pub struct Queue {
    tidelock: Tidelock,
    name: Result<QueueName>,
}

impl Tidelock {
    /// The queue of this name, whether anything was ever put in or not.
    pub fn queue(&self, name: impl AsRef<str>) -> Queue {
        Queue { tidelock: self.clone(), name: own_name(name.as_ref()) }
    }
}

impl Queue {
    /// Its name.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if it cannot be one, or is one of Tidelock's own.
    pub fn name(&self) -> Result<&QueueName> {
        self.name.as_ref().map_err(Clone::clone)
    }

    /// Puts an item in, due at once unless more is said: see [`EnqueueItem`].
    pub fn put(&self, key: &str) -> EnqueueItem {
        EnqueueItem::new(self.tidelock.clone(), self.item(key))
    }

    /// Leases what is due, for this worker: see [`LeaseItems`].
    pub fn take(&self, worker: &str) -> LeaseItems {
        LeaseItems::new(&self.tidelock, self.name.clone(), worker)
    }

    /// The proof of a lease on an item of this queue.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if a name cannot be one.
    pub fn token(&self, key: &str, fence: Fence) -> Result<LeaseToken> {
        Ok(LeaseToken { item: self.item(key)?, fence })
    }

    /// Extends leases by so long from now on; for each, in order, until when it lasts or that it is
    /// lost.
    ///
    /// # Errors
    /// `Invalid` if a lease is on an item of another queue; otherwise what the store says.
    pub async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        leases.iter().try_for_each(|lease| self.is_ours(&lease.item))?;
        self.tidelock.store().renew(leases, duration).await
    }

    /// Ends leases, each for itself: one that is lost is in nobody's way. For each, in order, what
    /// became of it.
    ///
    /// An ack without a mark finishes the item: its data is deleted in the same commit, and the
    /// item is forgotten an hour later unless it is put in again. An item that is acknowledged up
    /// to a mark is kept, because its mark says what is done; [`Settlement::finish`] has it
    /// forgotten, too.
    ///
    /// # Errors
    /// `Invalid` if a lease is on an item of another queue, or one is settled twice; otherwise what
    /// the store says.
    pub async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<SettleOutcome>> {
        settlements.iter().try_for_each(|settlement| self.is_ours(&settlement.lease.item))?;
        settle::settle(&self.tidelock, settlements).await
    }

    fn item(&self, key: &str) -> Result<ItemRef> {
        Ok(ItemRef::new(self.name()?, &ItemKey::new(key)?))
    }

    fn is_ours(&self, item: &ItemRef) -> Result<()> {
        let name = self.name()?;
        match item.queue == *name {
            true => Ok(()),
            false => Err(StoreError::invalid(format!("{item} was given to queue {name:?}"))),
        }
    }
}

fn own_name(name: &str) -> Result<QueueName> {
    if name.starts_with('~') {
        return Err(StoreError::invalid(format!(
            "queue {name:?}: names that begin with ~ are Tidelock's own; look at its items among the leases, and use another \
             name for a queue of yours"
        )));
    }
    QueueName::new(name)
}
