//! Lease order: by priority, but one slot in four by age, so that nothing starves.
//!
//! The count of slots belongs to a handle, so these cases lease through one.

use tidelock_store::{Commit, LeaseRequest, Priority, Settlement, Wake};

use crate::case::{World, cases};
use crate::items::{secs, settle};
use crate::sample::{LEASE, commit, item, lane, lease, lease_one, mark, queue, worker};

cases! { "leases::order":
    "LEASE-7" higher_priority_goes_first,
    "LEASE-7" among_equals_what_has_been_due_longest_goes_first,
    "LEASE-7" every_fourth_slot_goes_to_what_has_been_due_longest,
    "LEASE-7" the_reserve_holds_for_workers_that_lease_one_at_a_time,
    "LEASE-7" the_reserve_holds_inside_a_lane,
    "LEASE-7" a_low_priority_item_is_leased_though_urgent_ones_keep_arriving,
    "LEASE-6 LEASE-7" an_expired_item_has_been_due_since_its_deadline,
}

/// Makes the item due, a second after the previous one.
async fn wake_with_priority(world: &World, key: &str, priority: i16) {
    world.advance(secs(1)).await;
    let wake = Wake::to_mark(item(key), mark(1)).with_priority(Priority::new(priority).unwrap());
    commit(&*world.store, Commit::new().wake(wake.in_lane(lane("l")))).await;
}

async fn lease_keys(world: &World, limit: usize) -> Vec<String> {
    let leases = lease(&*world.store, "w", limit).await;
    leases.iter().map(|lease| lease.item.key.to_string()).collect()
}

async fn higher_priority_goes_first(world: World) {
    for (key, priority) in [("low", -9), ("normal", 0), ("urgent", 9)] {
        wake_with_priority(&world, key, priority).await;
    }
    assert_eq!(lease_keys(&world, 3).await, ["urgent", "normal", "low"]);
}

async fn among_equals_what_has_been_due_longest_goes_first(world: World) {
    for key in ["c", "a", "b"] {
        wake_with_priority(&world, key, 3).await;
    }
    assert_eq!(lease_keys(&world, 3).await, ["c", "a", "b"]);
}

/// Two old items of low priority, then eight urgent ones.
async fn crowd(world: &World) {
    for (key, priority) in [("low-1", -9), ("low-2", -8)] {
        wake_with_priority(world, key, priority).await;
    }
    for nth in 1..=8 {
        wake_with_priority(world, &format!("urgent-{nth}"), 9).await;
    }
}

const CROWD_IN_ORDER: [&str; 10] = [
    "urgent-1", "urgent-2", "urgent-3", "low-1", "urgent-4", "urgent-5", "urgent-6", "low-2",
    "urgent-7", "urgent-8",
];

async fn every_fourth_slot_goes_to_what_has_been_due_longest(world: World) {
    crowd(&world).await;
    assert_eq!(lease_keys(&world, 20).await, CROWD_IN_ORDER);
}

async fn the_reserve_holds_for_workers_that_lease_one_at_a_time(world: World) {
    crowd(&world).await;
    for expected in CROWD_IN_ORDER {
        assert_eq!(lease_keys(&world, 1).await, [expected]);
    }
}

async fn the_reserve_holds_inside_a_lane(world: World) {
    crowd(&world).await;
    let request = LeaseRequest::new(&queue("q"), &worker("w"), LEASE, 4).in_lane(&lane("l"));
    let leases = world.store.lease(request).await.unwrap().leases;
    let keys: Vec<&str> = leases.iter().map(|lease| lease.item.key.as_str()).collect();
    assert_eq!(keys, CROWD_IN_ORDER[..4]);
}

async fn a_low_priority_item_is_leased_though_urgent_ones_keep_arriving(world: World) {
    wake_with_priority(&world, "low", -100).await;
    for round in 0..8 {
        for nth in 0..2 {
            wake_with_priority(&world, &format!("urgent-{round}-{nth}"), 100).await;
        }
        let lease = lease_one(&*world.store, "w").await;
        if lease.item == item("low") {
            return;
        }
        settle(&*world.store, Settlement::ack(lease.token(), mark(1))).await;
    }
    panic!("it starved");
}

async fn an_expired_item_has_been_due_since_its_deadline(world: World) {
    wake_with_priority(&world, "expiring", 0).await;
    lease_one(&*world.store, "w").await;
    world.advance(LEASE - secs(2)).await;
    wake_with_priority(&world, "older", 0).await;
    world.advance(secs(1)).await;
    wake_with_priority(&world, "younger", 0).await;
    assert_eq!(lease_keys(&world, 2).await, ["older", "expiring"]);
}
