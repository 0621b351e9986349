//! Repeated settlements: after a lost reply, the same one is accepted and changes nothing, another
//! one is refused.

use tidelock_store::{Adjustment, Commit, ItemFilter, Part, Settlement};

use crate::case::{World, cases};
use crate::items::{every_exit, item_now, leased, lost, secs, set_aside, settle};
use crate::sample::{LEASE, lease_one, mark, refused, wake};

cases! { "leases::again":
    "LEASE-9" every_settlement_sent_again_is_accepted_and_changes_nothing,
    "LEASE-9 LEASE-5" another_settlement_under_the_same_fence_is_refused,
    "LEASE-9 LEASE-5" the_same_settlement_with_more_progress_is_refused,
    "LEASE-9 LEASE-3" a_settlement_sent_again_leaves_a_wake_alone,
    "LEASE-9" a_block_sent_again_after_an_unblock_does_not_block,
    "LEASE-9 LEASE-5" a_settlement_sent_again_after_the_next_lease_is_refused,
    "LEASE-9 LEASE-5" a_settlement_sent_again_after_the_next_settlement_is_refused,
    "LEASE-9 LEASE-5" a_settlement_sent_again_after_a_reset_is_refused,
}

/// Schedule 26.
async fn every_settlement_sent_again_is_accepted_and_changes_nothing(world: World) {
    for nth in 0..5 {
        let key = format!("item-{nth}");
        let lease = leased(&*world.store, &key, 5).await;
        let settlement = every_exit(&lease)[nth].clone().having_done(mark(2));
        settle(&*world.store, settlement.clone()).await;
        let once = item_now(&*world.store, &key).await;
        world.advance(secs(1)).await;
        settle(&*world.nth(0).await, settlement).await;
        assert_eq!(item_now(&*world.store, &key).await, once, "exit {nth}");
        set_aside(&*world.store).await;
    }
}

async fn another_settlement_under_the_same_fence_is_refused(world: World) {
    for first in 0..5 {
        let key = format!("item-{first}");
        let lease = leased(&*world.store, &key, 5).await;
        settle(&*world.store, every_exit(&lease)[first].clone()).await;
        let once = item_now(&*world.store, &key).await;
        for second in (0..5).filter(|second| *second != first) {
            let other = Commit::new().settle(every_exit(&lease)[second].clone());
            let expected = lost(Part::Settlement(0), &lease.token(), Some(once.clone()));
            assert_eq!(refused(&*world.store, other).await, expected, "{second} after {first}");
        }
        assert_eq!(item_now(&*world.store, &key).await, once);
        set_aside(&*world.store).await;
    }
}

async fn the_same_settlement_with_more_progress_is_refused(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(lease.token(), mark(2))).await;
    let once = item_now(&*world.store, "a").await;
    let more = Commit::new().settle(Settlement::ack(lease.token(), mark(3)));
    let expected = lost(Part::Settlement(0), &lease.token(), Some(once.clone()));
    assert_eq!(refused(&*world.store, more).await, expected);
    assert_eq!(item_now(&*world.store, "a").await, once);
}

async fn a_settlement_sent_again_leaves_a_wake_alone(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    let ack = Settlement::ack(lease.token(), mark(5));
    settle(&*world.store, ack.clone()).await;
    wake(&*world.store, "a", 6).await;
    let woken = item_now(&*world.store, "a").await;
    settle(&*world.store, ack).await;
    assert_eq!(item_now(&*world.store, "a").await, woken);
    assert_eq!(lease_one(&*world.store, "w").await.mark, mark(6));
}

async fn a_block_sent_again_after_an_unblock_does_not_block(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    let block = Settlement::block(lease.token(), "no hope");
    settle(&*world.store, block.clone()).await;
    world.store.adjust(ItemFilter::default(), Adjustment::Unblock).await.unwrap();
    let unblocked = item_now(&*world.store, "a").await;
    settle(&*world.store, block).await;
    assert_eq!(item_now(&*world.store, "a").await, unblocked);
}

async fn a_settlement_sent_again_after_the_next_lease_is_refused(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let ack = Settlement::ack(first.token(), mark(2));
    settle(&*world.store, ack.clone()).await;
    lease_one(&*world.store, "v").await;
    is_refused(&world, ack).await;
}

async fn a_settlement_sent_again_after_the_next_settlement_is_refused(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let ack = Settlement::ack(first.token(), mark(2));
    settle(&*world.store, ack.clone()).await;
    let second = lease_one(&*world.store, "v").await;
    settle(&*world.store, Settlement::ack(second.token(), mark(3))).await;
    is_refused(&world, ack).await;
}

async fn a_settlement_sent_again_after_a_reset_is_refused(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let ack = Settlement::ack(first.token(), mark(5));
    settle(&*world.store, ack.clone()).await;
    world.advance(LEASE).await;
    world.store.adjust(ItemFilter::default(), Adjustment::Reset { to: mark(1) }).await.unwrap();
    is_refused(&world, ack).await;
}

async fn is_refused(world: &World, settlement: Settlement) {
    let before = item_now(&*world.store, "a").await;
    let conflict = refused(&*world.store, Commit::new().settle(settlement.clone())).await;
    assert_eq!(conflict, lost(Part::Settlement(0), &settlement.lease, Some(before.clone())));
    assert_eq!(item_now(&*world.store, "a").await, before);
}
