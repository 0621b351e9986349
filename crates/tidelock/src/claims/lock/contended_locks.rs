//! Locks with waiters, for operators. The cost depends on the number of contended locks, not on the
//! number of locks.

use tidelock_store::{
    Record, RecordQuery, Result, Slot, Store, StoreExt, Timestamp, WorkerName, limits,
};

use super::super::entry::{Entry, LeaseRecord};
use super::super::keys;
use super::wait_queue::CAPACITY;

/// A lock with waiters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContendedLocks {
    /// The lock's whole name.
    pub(crate) key: String,
    /// Number of waiters.
    pub(crate) waiting: usize,
    /// Its holder, if any, and since when.
    pub(crate) holder: Option<(WorkerName, Option<Timestamp>)>,
}

impl ContendedLocks {
    /// Returns the locks with waiters, at most one page.
    pub(crate) async fn all(store: &dyn Store) -> Result<Vec<Self>> {
        let mut marks = store.rows(RecordQuery::prefix(keys::WAITER_MARKS));
        let mut locks = Vec::new();
        while let Some(mark) = marks.next().await?.filter(|_| locks.len() < limits::PAGE_SIZE) {
            locks.push(Self::at(store, &mark).await?);
        }
        // The mark outlives the last waiter by a moment.
        locks.retain(|lock| lock.waiting > 0);
        Ok(locks)
    }

    async fn at(store: &dyn Store, mark: &Record) -> Result<Self> {
        let key = keys::lock_of_mark(&mark.key);
        let slots = store
            .rows(RecordQuery::prefix(keys::queue_slots_of(key)).limit(CAPACITY))
            .all()
            .await?;
        let claim = keys::named(key)?;
        let records = store.get(&[claim.clone(), keys::lease_of(&claim)?]).await?;
        let holder = match &records[..] {
            [Slot::Live(claim), Slot::Live(lease)] => {
                Some((Entry::read(claim)?.by, LeaseRecord::since(lease)))
            }
            _ => None,
        };
        Ok(Self { key: key.to_owned(), waiting: slots.len(), holder })
    }
}
