//! Items of queues, and settlements of leased ones, as parts of a unit of work.

use tidelock_store::{Commit, Settlement};

use super::{EnqueueItem, Queue, settle};
use crate::error::Result;
use crate::staging::Tx;

impl Tx {
    /// Stages an item of a queue: `tx.enqueue_item(tidelock.queue("mail").enqueue("order-7"))`.
    ///
    /// # Errors
    /// `Invalid` if a name is none, the data cannot be stored, or the item has an operation id: the
    /// commit is what makes it happen once.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let photos = tidelock.queue("photos");
    /// let upload = async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.put("photos/7", "beach.jpg")?;
    ///     tx.enqueue_item(photos.enqueue("7"))
    /// };
    /// tidelock.transact(upload).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue_item(&self, item: EnqueueItem) -> Result<()> {
        self.parts(item.into_parts()?)
    }

    /// Stages the settlement of a leased item: it lands with the rest, and the rest only if the
    /// lease is still held. What an ack deletes is that of [`Queue::settle`].
    ///
    /// # Errors
    /// `Invalid` if the lease belongs to another queue.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::store::Settlement;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let mails = tidelock.queue("mails");
    /// mails.enqueue("order-7").await?;
    /// let leased = mails.lease("worker-1").await?.pop().expect("an item is due");
    /// let (mails, token) = (&mails, mails.token("order-7", leased.lease.fence)?);
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         tx.put("sent/order-7", &true)?;
    ///         tx.settle(mails, Settlement::ack(token.clone(), leased.lease.mark)).await
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(&self, queue: &Queue, settlement: Settlement) -> Result<()> {
        self.check_store(&queue.tidelock)?;
        queue.check_queue(&settlement.lease.item)?;
        let settlement = settle::finishing(settlement);
        // Read first: data that is enqueued later is another revision.
        let deletions = settle::deletions(&**self.store(), std::iter::once(&settlement)).await?;
        let deletions = deletions.into_iter().fold(Commit::new(), Commit::write);
        self.staged(|staged| staged.derive(deletions))?;
        // A settlement may be repeated; what lands with it must not be.
        self.parts(Commit::new().fenced_by(settlement.lease.clone()).settle(settlement))
    }
}
