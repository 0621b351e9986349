//! Wakes: how an item gets work.

use tidelock_store::{
    Commit, ExpectedRevision, ExpectedVersion, Item, ItemFilter, ItemRef, Mark, Priority,
    Settlement, Wake, When,
};

use crate::case::{World, cases};
use crate::items::{due, held, idle, item_now, items, leased, now, secs, settle};
use crate::sample::{
    commit, event, exact, item, key, lane, lease, lease_one, mark, refused, stream, wake,
};

cases! { "leases::wake":
    "LEASE-3" a_wake_to_a_mark_makes_an_item_that_is_due_at_once,
    "LEASE-3" a_wake_at_a_time_makes_the_item_due_from_then_on,
    "LEASE-3 TIME-1" a_wake_after_a_while_counts_from_the_stores_clock,
    "LEASE-3" a_wake_at_a_time_that_has_passed_means_at_once,
    "LEASE-3" a_wake_by_mark_and_time_is_due_at_once,
    "LEASE-3" a_wake_sent_again_changes_nothing,
    "LEASE-3" wakes_out_of_order_leave_the_furthest_mark,
    "LEASE-3" of_two_times_the_earlier_one_counts,
    "LEASE-3" several_wakes_of_one_item_in_one_commit_all_count,
    "LEASE-3" a_mark_that_is_done_wakes_no_item,
    "LEASE-3" a_time_wakes_an_item_whose_marks_are_all_done,
    "LEASE-3" a_wake_to_mark_zero_makes_an_idle_item,
    "LEASE-3 LEASE-8" a_wake_of_a_blocked_item_is_noted_and_does_not_unblock_it,
    "LEASE-1 LEASE-3" a_wake_of_a_held_item_is_noted_and_does_not_free_it,
    "LEASE-3" a_wake_does_not_cut_a_backoff_short,
    "LEASE-3" a_wake_does_not_cut_a_deferral_short,
    "LEASE-3" a_wake_to_where_the_holder_gets_anyway_is_not_worked_on_twice,
    "LEASE-3" a_timer_set_during_a_lease_outlives_the_lease_that_follows,
    "LEASE-3" lane_and_priority_count_only_when_the_item_is_made,
    "LEASE-3" the_same_key_in_another_queue_is_another_item,
    "COMMIT-1 LEASE-3" a_refused_commit_wakes_no_item,
    "COMMIT-1 LEASE-3" an_event_and_the_wake_for_it_come_together,
}

async fn wake_with(world: &World, wake: Wake) {
    commit(&*world.store, Commit::new().wake(wake)).await;
}

async fn a_wake_to_a_mark_makes_an_item_that_is_due_at_once(world: World) {
    wake(&*world.store, "a", 5).await;

    let now = now(&*world.store).await;
    assert_eq!(items(&*world.store, ItemFilter::default()).await, [due("a", 5, now)]);
    assert_eq!(lease(&*world.store, "w", 10).await.len(), 1);
}

async fn a_wake_at_a_time_makes_the_item_due_from_then_on(world: World) {
    let then = now(&*world.store).await.plus(secs(10));
    wake_with(&world, Wake::at(item("a"), When::At(then))).await;
    assert_eq!(item_now(&*world.store, "a").await, Item { due: Some(then), ..idle("a") });

    world.advance(secs(9)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(1)).await;
    let lease = lease_one(&*world.store, "w").await;
    assert_eq!((lease.at, lease.mark), (Mark::ZERO, Mark::ZERO), "a time is no mark");
}

async fn a_wake_after_a_while_counts_from_the_stores_clock(world: World) {
    world.advance(secs(100)).await;
    let then = now(&*world.store).await.plus(secs(10));
    wake_with(&world, Wake::at(item("a"), When::In(secs(10)))).await;
    assert_eq!(item_now(&*world.store, "a").await, Item { due: Some(then), ..idle("a") });
}

async fn a_wake_at_a_time_that_has_passed_means_at_once(world: World) {
    let past = now(&*world.store).await;
    world.advance(secs(10)).await;
    wake_with(&world, Wake::at(item("a"), When::At(past))).await;

    let now = now(&*world.store).await;
    assert_eq!(item_now(&*world.store, "a").await, Item { due: Some(now), ..idle("a") });
    lease_one(&*world.store, "w").await;
}

async fn a_wake_by_mark_and_time_is_due_at_once(world: World) {
    let both = Wake { due: Some(When::In(secs(10))), ..Wake::to_mark(item("a"), mark(3)) };
    wake_with(&world, both).await;
    let now = now(&*world.store).await;
    assert_eq!(item_now(&*world.store, "a").await, due("a", 3, now));
}

async fn a_wake_sent_again_changes_nothing(world: World) {
    wake(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    world.advance(secs(1)).await;
    wake(&*world.store, "a", 5).await;
    assert_eq!(item_now(&*world.store, "a").await, before, "it is due since the first one");
}

async fn wakes_out_of_order_leave_the_furthest_mark(world: World) {
    let now = now(&*world.store).await;
    for to in [3, 7, 5] {
        wake(&*world.store, "a", to).await;
    }
    assert_eq!(item_now(&*world.store, "a").await, due("a", 7, now));
}

async fn of_two_times_the_earlier_one_counts(world: World) {
    let start = now(&*world.store).await;
    for (after, then) in [(20, 20), (10, 10), (30, 10)] {
        wake_with(&world, Wake::at(item("a"), When::In(secs(after)))).await;
        let expected = Item { due: Some(start.plus(secs(then))), ..idle("a") };
        assert_eq!(
            item_now(&*world.store, "a").await,
            expected,
            "after the one in {after} seconds"
        );
    }
}

async fn several_wakes_of_one_item_in_one_commit_all_count(world: World) {
    let start = now(&*world.store).await;
    let both = Commit::new()
        .wake(Wake::at(item("a"), When::In(secs(10))))
        .wake(Wake::to_mark(item("a"), mark(4)))
        .wake(Wake::to_mark(item("a"), mark(2)));
    commit(&*world.store, both).await;
    assert_eq!(item_now(&*world.store, "a").await, due("a", 4, start));
}

async fn a_mark_that_is_done_wakes_no_item(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(lease.token(), mark(5))).await;
    let done = item_now(&*world.store, "a").await;
    for old in [1, 5] {
        wake(&*world.store, "a", old).await;
        assert_eq!(item_now(&*world.store, "a").await, done, "mark {old}");
    }
    wake(&*world.store, "a", 6).await;
    let lease = lease_one(&*world.store, "w").await;
    assert_eq!((lease.at, lease.mark), (mark(5), mark(6)));
}

async fn a_time_wakes_an_item_whose_marks_are_all_done(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(lease.token(), mark(5))).await;
    wake_with(&world, Wake::at(item("a"), When::NOW)).await;
    let lease = lease_one(&*world.store, "w").await;
    assert_eq!((lease.at, lease.mark), (mark(5), mark(5)));
}

async fn a_wake_to_mark_zero_makes_an_idle_item(world: World) {
    wake(&*world.store, "a", 0).await;
    assert_eq!(item_now(&*world.store, "a").await, idle("a"));
    assert_eq!(lease(&*world.store, "w", 1).await, []);
}

async fn a_wake_of_a_blocked_item_is_noted_and_does_not_unblock_it(world: World) {
    let lease_a = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::block(lease_a.token(), "no hope")).await;
    let before = item_now(&*world.store, "a").await;

    wake(&*world.store, "a", 9).await;

    assert_eq!(item_now(&*world.store, "a").await, Item { mark: mark(9), ..before });
    assert_eq!(lease(&*world.store, "w", 1).await, []);
}

async fn a_wake_of_a_held_item_is_noted_and_does_not_free_it(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    let start = now(&*world.store).await;
    world.advance(secs(1)).await;

    wake(&*world.store, "a", 9).await;

    let expected = Item { mark: mark(9), ..held(&first, "w", start) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    assert_eq!(lease(&*world.store, "w", 1).await, []);
}

async fn a_wake_to_where_the_holder_gets_anyway_is_not_worked_on_twice(world: World) {
    let lease = leased(&*world.store, "a", 3).await;
    wake(&*world.store, "a", 3).await;
    wake(&*world.store, "a", 5).await;

    settle(&*world.store, Settlement::ack(lease.token(), mark(5))).await;

    assert_eq!(item_now(&*world.store, "a").await.due, None);
}

async fn a_timer_set_during_a_lease_outlives_the_lease_that_follows(world: World) {
    let stalled = leased(&*world.store, "a", 1).await;
    wake_with(&world, Wake::at(item("a"), When::In(secs(3600)))).await;
    world.advance(stalled.deadline.since(now(&*world.store).await)).await;

    let taken_over = lease_one(&*world.store, "v").await;
    settle(&*world.store, taken_over.ack()).await;

    assert_eq!(lease(&*world.store, "v", 1).await, []);
    world.advance(secs(3600)).await;
    assert_eq!(lease_one(&*world.store, "v").await.item, item("a"));
}

async fn a_wake_does_not_cut_a_backoff_short(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    stays_held_back(world, Settlement::retry(lease.token(), secs(10), "no luck")).await;
}

async fn a_wake_does_not_cut_a_deferral_short(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    stays_held_back(world, Settlement::defer(lease.token(), When::In(secs(10)))).await;
}

/// Given an item deferred for ten seconds, when wakes of all kinds come, then it is leased after
/// ten seconds.
async fn stays_held_back(world: World, settlement: Settlement) {
    settle(&*world.store, settlement).await;
    let before = item_now(&*world.store, "a").await;
    wake(&*world.store, "a", 9).await;
    wake_with(&world, Wake::at(item("a"), When::NOW)).await;
    assert_eq!(item_now(&*world.store, "a").await, Item { mark: mark(9), ..before });

    world.advance(secs(9)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(1)).await;
    assert_eq!(lease_one(&*world.store, "w").await.mark, mark(9));
}

async fn lane_and_priority_count_only_when_the_item_is_made(world: World) {
    let start = now(&*world.store).await;
    let urgent = |to, name, priority: i16| {
        Wake::to_mark(item("a"), mark(to))
            .in_lane(lane(name))
            .with_priority(Priority::new(priority).unwrap())
    };
    wake_with(&world, urgent(1, "slow", -7)).await;
    wake_with(&world, urgent(2, "fast", 7)).await;
    let expected =
        Item { lane: lane("slow"), priority: Priority::new(-7).unwrap(), ..due("a", 2, start) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
}

async fn the_same_key_in_another_queue_is_another_item(world: World) {
    let start = now(&*world.store).await;
    let other = ItemRef::parse("r", "a").unwrap();
    wake(&*world.store, "a", 1).await;
    wake_with(&world, Wake::to_mark(other.clone(), mark(2))).await;
    let expected = [due("a", 1, start), Item { item: other, ..due("a", 2, start) }];
    assert_eq!(items(&*world.store, ItemFilter::default()).await, expected);
}

async fn a_refused_commit_wakes_no_item(world: World) {
    let hopeless = Commit::new()
        .wake(Wake::to_mark(item("a"), mark(1)))
        .guard_record(&key("k"), ExpectedRevision::Exists);
    refused(&*world.store, hopeless).await;
    assert_eq!(items(&*world.store, ItemFilter::default()).await, []);
}

async fn an_event_and_the_wake_for_it_come_together(world: World) {
    let first = Commit::new()
        .append(&stream("s"), ExpectedVersion::NoStream, [event(1)])
        .wake(Wake::to_mark(item("a"), mark(1)));
    commit(&*world.store, first).await;
    let start = now(&*world.store).await;
    let second = Commit::new()
        .append(&stream("s"), exact(7), [event(2)])
        .wake(Wake::to_mark(item("a"), mark(2)));
    refused(&*world.store, second).await;
    assert_eq!(item_now(&*world.store, "a").await, due("a", 1, start));
}
