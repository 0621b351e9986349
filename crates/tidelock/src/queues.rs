//! Work queues: items that any process enqueues, and that workers of any kind lease, renew and
//! settle.
//!
//! For workers that the [`Worker`](crate::worker::Worker) of this crate cannot be, because they are
//! written in another language or keep no state between two calls: all they need to know of a lease
//! is its key and its fence. An item is enqueued under a key; enqueued again while it exists, it is
//! the same item. The work to do can be stored with it, as *data*.
//!
//! The queues of reactions and runs are separate. Their names start with `~`, and are rejected
//! here.

mod enqueue;
pub(crate) mod keys;
mod lease;
mod listing;
mod settle;
mod tx_queues;

use std::time::Duration;

use tidelock_store::{
    Fence, ItemKey, ItemRef, LeaseToken, QueueName, RawJson, Renewal, Result, Settlement, Store,
    StoreError, StoreExt,
};

use crate::handle::Tidelock;

pub use enqueue::EnqueueItem;
pub use lease::{LeaseItems, LeasedItem};
pub use listing::ItemState;
pub use settle::SettleOutcome;

/// Handle to one queue. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Queue {
    tidelock: Tidelock,
    name: Result<QueueName>,
}

/// Reads the data of an item, without leasing it.
pub(crate) async fn data_of(store: &dyn Store, item: &ItemRef) -> Result<Option<RawJson>> {
    Ok(store.get_one(&keys::data(item)).await?.into_live().map(|record| record.value))
}

impl Tidelock {
    /// Returns the queue of this name, whether it has items or not.
    pub fn queue(&self, name: impl AsRef<str>) -> Queue {
        Queue { tidelock: self.clone(), name: checked_name(name.as_ref()) }
    }
}

impl Queue {
    /// Returns the queue's name.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if the name is invalid, or reserved for Tidelock.
    pub fn name(&self) -> Result<&QueueName> {
        self.name.as_ref().map_err(Clone::clone)
    }

    /// Enqueues an item, due immediately by default: see [`EnqueueItem`].
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let mails = tidelock.queue("mails");
    /// mails.enqueue("order-7").data("Thank you!").await?;
    /// mails.enqueue("order-7").await?; // the same item
    /// assert_eq!(mails.lease("worker-1").limit(10).await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue(&self, key: impl AsRef<str>) -> EnqueueItem {
        EnqueueItem::new(self.tidelock.clone(), self.item(key.as_ref()))
    }

    /// Leases due items for a worker: see [`LeaseItems`].
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    /// use tidelock::store::Settlement;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// # let mails = tidelock.queue("mails");
    /// # mails.enqueue("order-7").data("Thank you!").await?;
    /// let leased = mails.lease("worker-1").await?.pop().expect("an item is due");
    /// assert_eq!(leased.data.unwrap().to::<String>()?, "Thank you!");
    ///
    /// let lease = mails.token("order-7", leased.lease.fence)?;
    /// mails.settle(vec![Settlement::ack(lease, leased.lease.mark)]).await?;
    /// assert!(mails.lease("worker-1").await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lease(&self, worker: impl AsRef<str>) -> LeaseItems {
        LeaseItems::new(&self.tidelock, self.name.clone(), worker.as_ref())
    }

    /// Creates the token of a lease from the item's key and the fence.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if a name is invalid.
    pub fn token(&self, key: impl AsRef<str>, fence: Fence) -> Result<LeaseToken> {
        Ok(LeaseToken { item: self.item(key.as_ref())?, fence })
    }

    /// Renews leases for this long from now.
    ///
    /// Returns for each, in order, when it expires or that it is lost.
    ///
    /// # Errors
    /// `Invalid` if a lease belongs to another queue; otherwise errors of the store.
    pub async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        leases.iter().try_for_each(|lease| self.check_queue(&lease.item))?;
        self.tidelock.store().renew(leases, duration).await
    }

    /// Settles leases independently: a lost one does not affect the others.
    ///
    /// Returns the outcome of each, in order.
    ///
    /// An ack without a mark finishes the item: its data is deleted in the same commit, and the
    /// item is removed an hour later unless it is enqueued again. An item acknowledged up to a mark
    /// is kept, because its mark records the progress; [`Settlement::finish`] removes it too.
    ///
    /// # Errors
    /// `Invalid` if a lease belongs to another queue, or one is settled twice; otherwise errors of
    /// the store.
    pub async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<SettleOutcome>> {
        settlements.iter().try_for_each(|settlement| self.check_queue(&settlement.lease.item))?;
        settle::settle(&self.tidelock, settlements).await
    }

    fn item(&self, key: &str) -> Result<ItemRef> {
        Ok(ItemRef::new(self.name()?, &ItemKey::new(key)?))
    }

    fn check_queue(&self, item: &ItemRef) -> Result<()> {
        let name = self.name()?;
        match item.queue == *name {
            true => Ok(()),
            false => Err(StoreError::invalid(format!("{item} was given to queue {name:?}"))),
        }
    }
}

pub(crate) fn checked_name(name: &str) -> Result<QueueName> {
    if name.starts_with('~') {
        return Err(StoreError::invalid(format!(
            "queue {name:?}: names that begin with ~ are Tidelock's own; look at its items among the leases, and use another \
             name for a queue of yours"
        )));
    }
    QueueName::new(name)
}
