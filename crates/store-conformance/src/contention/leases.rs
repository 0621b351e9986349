//! Races for work items.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidelock_store::{
    Adjustment, Commit, CommitOutcome, Fence, ItemFilter, Renewal, Settlement, Store,
};
use tokio::sync::Barrier;

use super::race;
use crate::case::{World, cases};
use crate::items::{item_now, leased, settle};
use crate::sample::{LEASE, lease, lease_one, mark, wake};

cases! { "contention::leases":
    "LEASE-1" of_64_workers_one_gets_the_only_item,
    "LEASE-1" workers_never_share_an_item,
    "LEASE-1 LEASE-2" in_300_rounds_for_one_expired_lease_there_are_never_two_winners,
    "LEASE-5" a_late_ack_and_a_takeover_never_both_succeed,
    "LEASE-4" a_late_renewal_and_a_takeover_never_both_succeed,
    "LEASE-5" a_reset_is_not_undone_by_the_ack_it_raced_with,
    "LEASE-3" the_furthest_of_many_wakes_counts,
}

async fn of_64_workers_one_gets_the_only_item(world: World) {
    wake(&*world.store, "a", 1).await;
    let leases = race(&world, 64, |racer, store| async move {
        lease(&*store, &format!("worker-{racer}"), 5).await
    });
    assert_eq!(leases.await.into_iter().flatten().count(), 1);
}

async fn workers_never_share_an_item(world: World) {
    for nth in 0..100 {
        wake(&*world.store, &format!("item-{nth}"), 1).await;
    }
    let leases = race(&world, 64, |racer, store| async move {
        let mut mine = Vec::new();
        loop {
            let more = lease(&*store, &format!("worker-{racer}"), 3).await;
            if more.is_empty() || mine.len() > 100 {
                return mine;
            }
            mine.extend(more);
            tokio::task::yield_now().await;
        }
    });
    let all: Vec<_> = leases.await.into_iter().flatten().collect();
    assert_eq!(all.len(), 100, "every item is leased, and none twice");
    assert_eq!(all.iter().map(|lease| &lease.item).collect::<BTreeSet<_>>().len(), 100);
}

const ROUNDS: usize = 300;
const CONTENDERS: usize = 5;

/// Schedule 96.
async fn in_300_rounds_for_one_expired_lease_there_are_never_two_winners(world: World) {
    leased(&*world.store, "a", 1).await;
    let gate = Arc::new(Barrier::new(CONTENDERS + 1));
    let mut contenders = Vec::new();
    for nth in 0..CONTENDERS {
        let (store, gate) = (world.another().await, gate.clone());
        contenders.push(tokio::spawn(async move {
            let mut won: Vec<(usize, Fence)> = Vec::new();
            for round in 0..ROUNDS {
                gate.wait().await;
                let leases = lease(&*store, &format!("contender-{nth}"), 1).await;
                won.extend(leases.iter().map(|lease| (round, lease.fence)));
                gate.wait().await;
            }
            won
        }));
    }
    for _ in 0..ROUNDS {
        world.advance(LEASE).await;
        gate.wait().await;
        gate.wait().await;
    }
    let mut won = Vec::new();
    for contender in contenders {
        won.extend(contender.await.expect("a contender gets through"));
    }
    won.sort_unstable();
    assert!(won.iter().map(|(round, _)| *round).eq(0..ROUNDS), "one winner in each round");
    assert!(won.is_sorted_by(|(_, a), (_, b)| a < b), "fences grow");
}

/// Given an expired lease, when its holder (racer 0) and three others race, then this many of them
/// won.
async fn winners<F>(world: &World, holder: impl Fn(Arc<dyn Store>) -> F) -> usize
where
    F: Future<Output = bool> + Send + 'static,
{
    world.advance(LEASE).await;
    let won = race(world, 4, |racer, store| {
        let late = (racer == 0).then(|| holder(store.clone()));
        async move {
            match late {
                Some(late) => late.await,
                None => !lease(&*store, "v", 1).await.is_empty(),
            }
        }
    });
    won.await.into_iter().filter(|won| *won).count()
}

async fn a_late_ack_and_a_takeover_never_both_succeed(world: World) {
    for round in 1..=30 {
        let held = leased(&*world.store, "a", round).await;
        let ack = Settlement::ack(held.token(), mark(round));
        let won = winners(&world, |store| {
            let ack = Commit::new().settle(ack.clone());
            async move { matches!(store.commit(ack).await.unwrap(), CommitOutcome::Committed(_)) }
        });
        assert_eq!(won.await, 1, "round {round}");
        finish(&world, round).await;
    }
}

async fn a_late_renewal_and_a_takeover_never_both_succeed(world: World) {
    for round in 1..=30 {
        let token = leased(&*world.store, "a", round).await.token();
        let won = winners(&world, |store| {
            let token = token.clone();
            async move {
                matches!(store.renew(&[token], LEASE).await.unwrap().remove(0), Renewal::Renewed(_))
            }
        });
        assert_eq!(won.await, 1, "round {round}");
        finish(&world, round).await;
    }
}

/// The current holder settles the item.
async fn finish(world: &World, to: u64) {
    world.advance(LEASE).await;
    for lease in lease(&*world.store, "w", 1).await {
        settle(&*world.store, Settlement::ack(lease.token(), mark(to))).await;
    }
}

async fn a_reset_is_not_undone_by_the_ack_it_raced_with(world: World) {
    wake(&*world.store, "a", 9).await;
    for round in 0..30 {
        let token = lease_one(&*world.store, "w").await.token();
        race(&world, 2, |racer, store| {
            let ack = Commit::new().settle(Settlement::ack(token.clone(), mark(9)));
            async move {
                if racer == 0 {
                    let _ = store.commit(ack).await.unwrap();
                } else {
                    let to = Adjustment::Reset { to: mark(3) };
                    store.adjust(ItemFilter::default(), to).await.unwrap();
                }
            }
        })
        .await;
        let after = item_now(&*world.store, "a").await;
        assert_eq!((after.at, after.holder), (mark(3), None), "round {round}");
    }
}

async fn the_furthest_of_many_wakes_counts(world: World) {
    race(&world, 64, |racer, store| async move { wake(&*store, "a", racer as u64 + 1).await })
        .await;
    assert_eq!(lease_one(&*world.store, "w").await.mark, mark(64));
}
