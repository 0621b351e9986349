//! Takeover: a lease that expired, and its former holder, which does not know.

use std::time::Duration;

use tidelock_store::{Commit, Renewal, Settlement, Store, StoreExt, ViolationKind};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{Ground, committed, item, lease, lease_for, soon, wake};

const LONG: Duration = Duration::from_secs(60);

/// Schedules 17, 18 and 19. LEASE-4, LEASE-5.
#[tokio::test]
async fn the_old_holder_can_neither_settle_nor_renew_nor_write() {
    let ground = Ground::shared();
    let (old, new) = (ground.open().await, ground.open().await);
    ground.own_calendar().await;
    committed(&old, wake("letter")).await;
    let lost = lease(&old, "old", 1).await.remove(0);
    ground.let_pass(61).await;
    let held = lease(&new, "new", 1).await.remove(0);
    assert!(held.fence > lost.fence);

    let token = lost.token();
    let exits = [
        lost.ack(),
        Settlement::block(token.clone(), "broken"),
        Settlement::retry(token.clone(), LONG, "failed"),
        Settlement::release(token.clone()),
    ];
    for exit in exits {
        assert_lost(&old, Commit::new().settle(exit)).await;
    }
    assert_lost(&old, crate::ground::append("effect", "late").fenced_by(token.clone())).await;
    let renewed = soon("a renewal", old.renew(&[token], LONG)).await.unwrap();
    let [Renewal::Lost(Some(there))] = &renewed[..] else { panic!("{renewed:?}") };
    assert_eq!(there.holder.as_ref().unwrap().worker.as_str(), "new");

    committed(&new, Commit::new().settle(held.ack())).await;
    let settled = new.item(&item("letter")).await.unwrap().unwrap();
    assert_eq!((settled.blocked, settled.failures, settled.fence), (false, 0, Some(held.fence)));
}

async fn assert_lost(store: &PostgresStore, commit: Commit) {
    let conflict = soon("an answer", store.commit(commit)).await.unwrap().conflict().unwrap();
    assert!(conflict.has(ViolationKind::LeaseLost), "{conflict}");
}

/// Schedule 96. LEASE-1, LEASE-2: contenders for a lease that has just expired, all at the same
/// moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_contenders_for_an_expired_lease_one_gets_it() {
    let ground = Ground::shared();
    let mut contenders = Vec::new();
    for _ in 0..5 {
        contenders.push(ground.open().await);
    }
    ground.own_calendar().await;
    committed(&contenders[0], wake("letter")).await;
    let mut last = None;
    for round in 0..60 {
        let reaching = contenders.iter().map(|store| {
            let store = store.clone();
            tokio::spawn(
                async move { lease_for(&store, "contender", 1, Duration::from_secs(5)).await },
            )
        });
        let mut granted = Vec::new();
        for reaching in reaching.collect::<Vec<_>>() {
            granted.extend(reaching.await.unwrap());
        }
        assert_eq!(granted.len(), 1, "round {round}: {granted:?}");
        assert!(last < Some(granted[0].fence), "round {round}: {last:?} {granted:?}");
        last = Some(granted[0].fence);
        ground.let_pass(6).await;
    }
}
