//! The effect of an hour of work: every item woken, leased and settled, repeatedly.

use tidelock::store::{Commit, Mark, Store};

use super::{FILL_AT_ONCE, acked, request, wake, wake_working};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::workloads::committed;

/// The distance between items woken one after the other, so that they are not adjacent. A prime, so
/// that all items are reached.
const STRIDE: usize = 7919;

/// A mark beyond all earlier work of an item.
const NEW_WORK: u64 = 2;

/// Makes this many leases, and finally wakes the items that always have work.
pub(super) async fn churn(
    store: &dyn Store,
    all: usize,
    leases: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut mark = Mark::new(NEW_WORK)?;
    for from in (0..leases).step_by(FILL_AT_ONCE) {
        let batch = from..leases.min(from + FILL_AT_ONCE);
        mark = mark.plus(1);
        wake(store, batch.clone().map(|nth| nth * STRIDE % all), mark).await?;
        settle_some(store).await?;
        progress.filled(batch.end, leases, "leases settled");
    }
    while settle_some(store).await? > 0 {}
    wake_working(store, all, mark.plus(1)).await
}

/// Leases the items due longest, and settles them; returns their number.
async fn settle_some(store: &dyn Store) -> Result<usize, Failure> {
    let leases = store.lease(request(FILL_AT_ONCE)?).await?.leases;
    if !leases.is_empty() {
        committed(store.commit(leases.iter().fold(Commit::new(), acked)).await?)?;
    }
    Ok(leases.len())
}

#[cfg(test)]
mod tests {
    use super::super::{WORKING, fill};
    use super::*;

    #[tokio::test]
    async fn after_the_churn_all_items_were_leased_so_often_and_the_same_ones_have_work() {
        let (idle, rounds) = (1_900, 3);
        let (store, progress) = (tidelock::open("memory:").await.unwrap(), Progress::new(1, 1));
        fill(&*store, idle, &progress).await.unwrap();
        churn(&*store, idle + WORKING, rounds * (idle + WORKING), &progress).await.unwrap();
        let leases = store.lease(request(FILL_AT_ONCE).unwrap()).await.unwrap().leases;
        assert_eq!(leases.len(), WORKING);
        let before = 1 + rounds as u64;
        assert!(leases.iter().all(|lease| lease.fence.get() > before), "{:?}", leases[0]);
    }
}
