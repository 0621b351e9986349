//! Locks with waiters, for operators. The cost depends on the number of contended locks, not on the
//! number of locks.

use tidelock_store::{
    Record, RecordQuery, Result, Slot, Store, StoreExt, Timestamp, WorkerName, limits,
};

use super::super::entry::{Entry, LeaseNote};
use super::super::keys;
use super::wait_queue::PLACES;

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
        let mut lines = store.rows(RecordQuery::prefix(keys::LINES));
        let mut crowds = Vec::new();
        while let Some(line) = lines.next().await?.filter(|_| crowds.len() < limits::PAGE_SIZE) {
            crowds.push(Self::at(store, &line).await?);
        }
        // The mark outlives the last waiter by a moment.
        crowds.retain(|crowd| crowd.waiting > 0);
        Ok(crowds)
    }

    async fn at(store: &dyn Store, line: &Record) -> Result<Self> {
        let key = keys::of_line(&line.key);
        let places =
            store.rows(RecordQuery::prefix(keys::places_of(key)).limit(PLACES)).all().await?;
        let claim = keys::named(key)?;
        let slots = store.get(&[claim.clone(), keys::lease_of(&claim)?]).await?;
        let holder = match &slots[..] {
            [Slot::Live(claim), Slot::Live(lease)] => {
                Some((Entry::read(claim)?.by, LeaseNote::since(lease)))
            }
            _ => None,
        };
        Ok(Self { key: key.to_owned(), waiting: places.len(), holder })
    }
}
