//! Granting leases: which worker gets an item, what it is told, and what happens to an expired
//! lease.

use tidelock_store::{
    Commit, Fence, ItemRef, Lease, LeaseRequest, Leased, Priority, Settlement, Wake, When,
};

use crate::case::{World, cases};
use crate::items::{INSTANT, held, item_now, leased, now, secs, settle};
use crate::sample::{LEASE, commit, item, lane, lease, lease_one, mark, queue, wake, worker};

cases! { "leases::grant":
    "LEASE-3" a_lease_tells_all_about_the_item,
    "LEASE-2" a_second_lease_has_a_higher_fence,
    "LEASE-1" an_item_that_is_held_is_not_leased_again,
    "LEASE-3" nothing_is_leased_where_nothing_is_due,
    "LEASE-3" no_more_is_leased_than_was_asked_for,
    "LEASE-3" only_the_queue_asked_for_is_leased_from,
    "LEASE-3" one_lane_is_leased_from_or_all,
    "LEASE-6" an_expired_lease_makes_the_item_due_and_counts_as_an_expiry,
    "LEASE-6 TIME-1" a_lease_runs_out_at_its_very_deadline,
    "LEASE-6" a_worker_that_dies_after_leasing_costs_one_attempt,
    "LEASE-6" a_handler_that_times_out_again_and_again_is_counted_each_time,
    "LEASE-3" next_due_is_none_where_nothing_will_be_due,
    "LEASE-3" next_due_tells_of_timers,
    "LEASE-3" next_due_tells_of_deadlines,
    "LEASE-3" next_due_tells_of_holds,
    "LEASE-3" next_due_has_passed_when_more_is_due,
    "LEASE-3" next_due_looks_only_at_the_lane_asked_for,
}

/// Leases one item of the queue "q" and returns the whole answer.
async fn ask(world: &World) -> Leased {
    world.store.lease(LeaseRequest::new(&queue("q"), &worker("w"), LEASE, 1)).await.unwrap()
}

async fn wake_in_lane(world: &World, key: &str, name: &str) {
    let wake = Wake::to_mark(item(key), mark(1)).in_lane(lane(name));
    commit(&*world.store, Commit::new().wake(wake)).await;
}

async fn lease_lane(world: &World, name: &str) -> Leased {
    let request = LeaseRequest::new(&queue("q"), &worker("w"), LEASE, 10);
    world.store.lease(request.in_lane(&lane(name))).await.unwrap()
}

fn keys(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.item.key.as_str()).collect()
}

async fn a_lease_tells_all_about_the_item(world: World) {
    let urgent = Priority::new(7).unwrap();
    let wake = Wake::to_mark(item("a"), mark(5)).in_lane(lane("fast")).with_priority(urgent);
    commit(&*world.store, Commit::new().wake(wake)).await;
    world.advance(secs(3)).await;

    let leased = ask(&world).await;

    let start = now(&*world.store).await;
    let expected = Lease {
        item: item("a"),
        fence: Fence::FIRST,
        at: mark(0),
        mark: mark(5),
        deadline: start.plus(LEASE),
        attempts: 1,
        failures: 0,
        expiries: 0,
        lane: lane("fast"),
        priority: urgent,
    };
    assert_eq!(item_now(&*world.store, "a").await, held(&expected, "w", start));
    assert_eq!(
        leased,
        Leased {
            at: now(&*world.store).await,
            next_due: Some(expected.deadline),
            leases: vec![expected]
        }
    );
}

async fn a_second_lease_has_a_higher_fence(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(first.token(), mark(2))).await;
    let second = lease_one(&*world.store, "w").await;
    assert_eq!(second, Lease { fence: second.fence, at: mark(2), ..first.clone() });
    assert!(second.fence > first.fence, "{} after {}", second.fence, first.fence);
}

async fn an_item_that_is_held_is_not_leased_again(world: World) {
    leased(&*world.store, "a", 5).await;
    let other = world.another().await;
    assert_eq!(lease(&*other, "v", 1).await, [], "not by another worker");
    assert_eq!(lease(&*world.store, "w", 1).await, [], "not by the holder either");
}

async fn nothing_is_leased_where_nothing_is_due(world: World) {
    assert_eq!(
        ask(&world).await,
        Leased { at: now(&*world.store).await, leases: vec![], next_due: None }
    );
    let then = now(&*world.store).await.plus(secs(1));
    commit(&*world.store, Commit::new().wake(Wake::at(item("a"), When::At(then)))).await;
    assert_eq!(
        ask(&world).await,
        Leased { at: now(&*world.store).await, leases: vec![], next_due: Some(then) }
    );
}

async fn no_more_is_leased_than_was_asked_for(world: World) {
    for key in ["a", "b", "c", "d", "e"] {
        wake(&*world.store, key, 1).await;
    }
    assert_eq!(lease(&*world.store, "w", 3).await.len(), 3);
    assert_eq!(lease(&*world.store, "w", 3).await.len(), 2);
    assert_eq!(lease(&*world.store, "w", 3).await.len(), 0);
}

async fn only_the_queue_asked_for_is_leased_from(world: World) {
    let other = ItemRef::parse("r", "a").unwrap();
    commit(&*world.store, Commit::new().wake(Wake::to_mark(other, mark(1)))).await;
    assert_eq!(
        ask(&world).await,
        Leased { at: now(&*world.store).await, leases: vec![], next_due: None }
    );
}

async fn one_lane_is_leased_from_or_all(world: World) {
    wake_in_lane(&world, "a", "slow").await;
    wake_in_lane(&world, "b", "fast").await;
    wake(&*world.store, "c", 1).await;

    assert_eq!(keys(&lease_lane(&world, "fast").await.leases), ["b"]);
    assert_eq!(keys(&lease_lane(&world, "fast").await.leases), Vec::<&str>::new());
    assert_eq!(keys(&lease_lane(&world, "default").await.leases), ["c"]);
    wake_in_lane(&world, "d", "fast").await;
    let mut all = lease(&*world.store, "w", 10).await;
    all.sort_by_key(|lease| lease.item.clone());
    assert_eq!(keys(&all), ["a", "d"]);
}

async fn an_expired_lease_makes_the_item_due_and_counts_as_an_expiry(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    world.advance(LEASE).await;

    let second = lease_one(&*world.store, "v").await;

    let start = now(&*world.store).await;
    let expected = Lease {
        fence: second.fence,
        deadline: start.plus(LEASE),
        attempts: 2,
        failures: 0,
        expiries: 1,
        ..first.clone()
    };
    assert_eq!(second, expected);
    assert!(second.fence > first.fence);
    assert_eq!(item_now(&*world.store, "a").await, held(&second, "v", start));
}

async fn a_lease_runs_out_at_its_very_deadline(world: World) {
    leased(&*world.store, "a", 1).await;
    world.advance(LEASE - INSTANT).await;
    assert_eq!(lease(&*world.store, "v", 1).await, [], "good for its whole duration");
    world.advance(INSTANT).await;
    lease_one(&*world.store, "v").await;
}

/// Schedule 23.
async fn a_worker_that_dies_after_leasing_costs_one_attempt(world: World) {
    leased(&*world.store, "a", 1).await;
    assert_eq!(item_now(&*world.store, "a").await.attempts, 1);
    world.advance(LEASE + secs(1)).await;
    assert_eq!(item_now(&*world.store, "a").await.attempts, 1, "an expiry alone is no attempt");
    let again = lease_one(&*world.store, "v").await;
    assert_eq!((again.attempts, again.failures, again.expiries), (2, 0, 1));
}

/// Schedule 25.
async fn a_handler_that_times_out_again_and_again_is_counted_each_time(world: World) {
    wake(&*world.store, "a", 1).await;
    for nth in 1..=5 {
        let lease = lease_one(&*world.store, "w").await;
        assert_eq!((lease.attempts, lease.failures, lease.expiries), (nth, 0, nth - 1));
        world.advance(LEASE).await;
    }
    let last = lease_one(&*world.store, "w").await;
    settle(&*world.store, Settlement::ack(last.token(), mark(1))).await;
    let done = item_now(&*world.store, "a").await;
    assert_eq!((done.attempts, done.failures, done.expiries), (0, 0, 0));
}

async fn next_due_is_none_where_nothing_will_be_due(world: World) {
    let done = leased(&*world.store, "done", 1).await;
    settle(&*world.store, Settlement::ack(done.token(), mark(1))).await;
    let blocked = leased(&*world.store, "blocked", 1).await;
    settle(&*world.store, Settlement::block(blocked.token(), "no hope")).await;
    assert_eq!(
        ask(&world).await,
        Leased { at: now(&*world.store).await, leases: vec![], next_due: None }
    );
}

async fn next_due_tells_of_timers(world: World) {
    let start = now(&*world.store).await;
    for (key, after) in [("a", 20), ("b", 10), ("c", 30)] {
        commit(&*world.store, Commit::new().wake(Wake::at(item(key), When::In(secs(after))))).await;
    }
    assert_eq!(
        ask(&world).await,
        Leased {
            at: now(&*world.store).await,
            leases: vec![],
            next_due: Some(start.plus(secs(10)))
        }
    );
}

async fn next_due_tells_of_deadlines(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    world.advance(secs(1)).await;
    leased(&*world.store, "b", 1).await;
    assert_eq!(
        ask(&world).await,
        Leased { at: now(&*world.store).await, leases: vec![], next_due: Some(first.deadline) }
    );
}

async fn next_due_tells_of_holds(world: World) {
    let start = now(&*world.store).await;
    let lease = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::retry(lease.token(), secs(7), "no luck")).await;
    assert_eq!(
        ask(&world).await,
        Leased {
            at: now(&*world.store).await,
            leases: vec![],
            next_due: Some(start.plus(secs(7)))
        }
    );
}

async fn next_due_has_passed_when_more_is_due(world: World) {
    for key in ["a", "b"] {
        wake(&*world.store, key, 1).await;
    }
    world.advance(secs(1)).await;
    let leased = ask(&world).await;
    assert_eq!(leased.leases.len(), 1);
    let next = leased.next_due.expect("one more is due");
    assert!(next <= now(&*world.store).await, "{next} has passed");
}

async fn next_due_looks_only_at_the_lane_asked_for(world: World) {
    wake_in_lane(&world, "a", "slow").await;
    assert_eq!(
        lease_lane(&world, "fast").await,
        Leased { at: now(&*world.store).await, leases: vec![], next_due: None }
    );
    let leased = lease_lane(&world, "slow").await;
    assert_eq!(leased.next_due, Some(now(&*world.store).await.plus(LEASE)));
}
