//! Adjustments: bulk operations on items.

use tidelock_store::{
    Adjusted, Adjustment, Commit, Item, ItemFilter, LeaseRequest, NamePattern, Priority,
    Settlement, Wake, When,
};

use crate::case::{World, cases};
use crate::items::{due, held, item_now, items, leased, now, secs, settle};
use crate::sample::{LEASE, commit, item, lane, lease, lease_one, mark, queue, wake, worker};

cases! { "leases::adjust":
    "LEASE-10 LEASE-8" an_unblocked_item_goes_on_where_it_stopped_with_its_counts_at_zero,
    "LEASE-10" unblocking_leaves_others_alone,
    "LEASE-10" unblocking_counts_those_that_were_blocked_and_passed_the_filter,
    "LEASE-10 LEASE-5" a_reset_revokes_a_live_lease,
    "LEASE-10" a_reset_goes_back_and_unblocks_and_forgets_holds_and_counts,
    "LEASE-10" a_reset_to_the_end_leaves_nothing_to_do,
    "LEASE-10" a_reset_beyond_the_mark_moves_the_mark,
    "LEASE-10" a_reset_that_changes_nothing_says_so,
    "LEASE-10 LEASE-3" a_deferred_item_is_not_leased_before_then,
    "LEASE-10" a_deferral_does_not_touch_a_lease_that_stands,
    "LEASE-10" a_deferral_holds_a_released_item_back,
    "LEASE-10 LEASE-11" a_holder_does_not_cut_a_deferral_short,
    "LEASE-10 LEASE-7" a_new_priority_changes_the_order,
    "LEASE-10" an_item_moved_is_leased_from_its_new_lane_only,
    "LEASE-10" an_item_that_is_held_can_be_moved_and_prioritized,
    "LEASE-10" only_what_passes_the_filter_is_changed,
    "LEASE-10" nothing_passes_and_nothing_is_changed,
}

async fn adjust(world: &World, filter: ItemFilter, adjustment: Adjustment) -> Adjusted {
    world.nth(0).await.adjust(filter, adjustment).await.unwrap()
}

/// Adjusts every item and expects these counts.
async fn adjust_all(world: &World, adjustment: Adjustment, matched: u64, changed: u64) {
    let adjusted = adjust(world, ItemFilter::default(), adjustment).await;
    assert_eq!(adjusted, Adjusted { matched, changed });
}

async fn block(world: &World, key: &str) {
    let lease = leased(&*world.store, key, 5).await;
    settle(&*world.store, Settlement::block(lease.token(), "no hope").having_done(mark(2))).await;
}

async fn an_unblocked_item_goes_on_where_it_stopped_with_its_counts_at_zero(world: World) {
    wake(&*world.store, "a", 5).await;
    for _ in 0..2 {
        let lease = lease_one(&*world.store, "w").await;
        settle(&*world.store, Settlement::retry(lease.token(), secs(0), "no luck")).await;
    }
    let last = lease_one(&*world.store, "w").await;
    settle(&*world.store, Settlement::block(last.token(), "no hope")).await;
    let before = item_now(&*world.store, "a").await;
    assert_eq!((before.attempts, before.failures), (3, 2));
    world.advance(secs(10)).await;

    adjust_all(&world, Adjustment::Unblock, 1, 1).await;

    let expected = Item { blocked: false, error: None, attempts: 0, failures: 0, ..before };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    let next = lease_one(&*world.store, "w").await;
    assert_eq!((next.at, next.mark, next.attempts, next.failures), (mark(0), mark(5), 1, 0));
}

async fn unblocking_leaves_others_alone(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::retry(lease.token(), secs(60), "no luck")).await;
    let before = item_now(&*world.store, "a").await;
    adjust_all(&world, Adjustment::Unblock, 1, 0).await;
    assert_eq!(item_now(&*world.store, "a").await, before);
}

async fn unblocking_counts_those_that_were_blocked_and_passed_the_filter(world: World) {
    for key in ["a-1", "a-2", "b-1"] {
        block(&world, key).await;
    }
    wake(&*world.store, "a-3", 1).await;
    let filter = ItemFilter::queue("q").key(NamePattern::like("a-*"));
    let adjusted = adjust(&world, filter, Adjustment::Unblock).await;
    assert_eq!(adjusted, Adjusted { matched: 3, changed: 2 });
    let blocked = items(&*world.store, ItemFilter::default().blocked(true)).await;
    assert_eq!(blocked.iter().map(|item| item.item.key.as_str()).collect::<Vec<_>>(), ["b-1"]);
}

async fn a_reset_revokes_a_live_lease(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    world.advance(secs(1)).await;
    let start = now(&*world.store).await;

    adjust_all(&world, Adjustment::Reset { to: mark(2) }, 1, 1).await;

    let after = item_now(&*world.store, "a").await;
    assert_eq!(after, Item { at: mark(2), fence: after.fence, ..due("a", 5, start) });
    assert!(after.fence > Some(first.fence), "the old fence is not good any more");
    let second = lease_one(&*world.store, "v").await;
    assert!(Some(second.fence) > after.fence);
    assert_eq!(
        (second.at, second.mark, second.attempts, second.expiries),
        (mark(2), mark(5), 1, 0)
    );
}

async fn a_reset_goes_back_and_unblocks_and_forgets_holds_and_counts(world: World) {
    let start = now(&*world.store).await;
    block(&world, "a").await;
    let lease = leased(&*world.store, "b", 5).await;
    settle(&*world.store, Settlement::retry(lease.token(), secs(60), "no luck")).await;

    adjust_all(&world, Adjustment::Reset { to: mark(1) }, 2, 2).await;

    for key in ["a", "b"] {
        let fence = Some(lease.fence);
        let expected = Item { at: mark(1), fence, ..due(key, 5, start) };
        assert_eq!(item_now(&*world.store, key).await, expected);
    }
    assert_eq!(lease_keys(&world).await, ["a", "b"]);
}

async fn lease_keys(world: &World) -> Vec<String> {
    let leases = lease(&*world.store, "w", 10).await;
    leases.iter().map(|lease| lease.item.key.to_string()).collect()
}

async fn a_reset_to_the_end_leaves_nothing_to_do(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(lease.token(), mark(5))).await;
    adjust_all(&world, Adjustment::Reset { to: mark(5) }, 1, 1).await;
    assert_eq!(lease_keys(&world).await, Vec::<String>::new());
    adjust_all(&world, Adjustment::Reset { to: mark(4) }, 1, 1).await;
    assert_eq!(lease_keys(&world).await, ["a"]);
}

async fn a_reset_beyond_the_mark_moves_the_mark(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(lease.token(), mark(5))).await;
    adjust_all(&world, Adjustment::Reset { to: mark(9) }, 1, 1).await;
    let after = item_now(&*world.store, "a").await;
    assert_eq!((after.at, after.mark, after.due), (mark(9), mark(9), None));
    wake(&*world.store, "a", 9).await;
    assert_eq!(item_now(&*world.store, "a").await, after, "mark 9 counts as done");
}

async fn a_reset_that_changes_nothing_says_so(world: World) {
    wake(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    adjust_all(&world, Adjustment::Reset { to: mark(0) }, 1, 0).await;
    assert_eq!(item_now(&*world.store, "a").await, before);
}

async fn a_deferred_item_is_not_leased_before_then(world: World) {
    wake(&*world.store, "a", 5).await;
    let start = now(&*world.store).await;
    adjust_all(&world, Adjustment::Defer { until: When::In(secs(10)) }, 1, 1).await;
    let expected = Item { hold: Some(start.plus(secs(10))), ..due("a", 5, start) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    world.advance(secs(9)).await;
    assert_eq!(lease_keys(&world).await, Vec::<String>::new());
    world.advance(secs(1)).await;
    assert_eq!(lease_keys(&world).await, ["a"]);
}

async fn a_deferral_does_not_touch_a_lease_that_stands(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    let start = now(&*world.store).await;
    let until = start.plus(LEASE + secs(10));
    adjust_all(&world, Adjustment::Defer { until: When::At(until) }, 1, 1).await;
    let expected = Item { hold: Some(until), ..held(&lease, "w", start) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    world.advance(LEASE).await;
    assert_eq!(lease_keys(&world).await, Vec::<String>::new(), "expired, but not to be leased yet");
    world.advance(secs(10)).await;
    assert_eq!(lease_keys(&world).await, ["a"]);
}

async fn a_deferral_holds_a_released_item_back(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    adjust_all(&world, Adjustment::Defer { until: When::In(secs(10)) }, 1, 1).await;
    settle(&*world.store, Settlement::release(lease.token())).await;
    assert_eq!(lease_keys(&world).await, Vec::<String>::new());
    world.advance(secs(10)).await;
    assert_eq!(lease_keys(&world).await, ["a"]);
}

async fn a_holder_does_not_cut_a_deferral_short(world: World) {
    for which in 0..3 {
        let lease = leased(&*world.store, &format!("{which}"), 5).await;
        let until = now(&*world.store).await.plus(secs(3600));
        adjust(
            &world,
            ItemFilter::default().held(true),
            Adjustment::Defer { until: When::At(until) },
        )
        .await;
        let soon = When::In(secs(1));
        let exit = match which {
            0 => Settlement::retry(lease.token(), secs(1), "no luck"),
            1 => Settlement::defer(lease.token(), soon),
            _ => Settlement::ack_and_defer(lease.token(), mark(2), soon),
        };
        settle(&*world.store, exit).await;
        assert_eq!(item_now(&*world.store, &format!("{which}")).await.hold, Some(until));
    }
}

async fn a_new_priority_changes_the_order(world: World) {
    for key in ["a", "b", "c"] {
        wake(&*world.store, key, 1).await;
    }
    let urgent = Adjustment::Prioritize { priority: Priority::new(50).unwrap() };
    let filter = ItemFilter::queue("q").key(NamePattern::is("c"));
    assert_eq!(adjust(&world, filter, urgent.clone()).await, Adjusted { matched: 1, changed: 1 });
    adjust_all(&world, urgent, 3, 2).await;
    let filter = ItemFilter::queue("q").key(NamePattern::is("b"));
    let most = Adjustment::Prioritize { priority: Priority::new(51).unwrap() };
    adjust(&world, filter, most).await;
    assert_eq!(lease_one(&*world.store, "w").await.item, item("b"));
}

async fn an_item_moved_is_leased_from_its_new_lane_only(world: World) {
    for key in ["a", "b"] {
        wake(&*world.store, key, 1).await;
    }
    let slow = Wake::to_mark(item("c"), mark(1)).in_lane(lane("slow"));
    commit(&*world.store, Commit::new().wake(slow)).await;
    adjust_all(&world, Adjustment::Move { lane: lane("slow") }, 3, 2).await;
    let request = LeaseRequest::new(&queue("q"), &worker("w"), LEASE, 10);
    let old = world.store.lease(request.clone().in_lane(&lane("default"))).await.unwrap();
    assert_eq!((old.leases, old.next_due), (vec![], None));
    let new = world.store.lease(request.in_lane(&lane("slow"))).await.unwrap();
    assert_eq!(new.leases.len(), 3);
    assert!(new.leases.iter().all(|lease| lease.lane == lane("slow")));
}

async fn an_item_that_is_held_can_be_moved_and_prioritized(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    let priority = Priority::new(50).unwrap();
    adjust_all(&world, Adjustment::Move { lane: lane("slow") }, 1, 1).await;
    adjust_all(&world, Adjustment::Prioritize { priority }, 1, 1).await;
    assert_eq!(item_now(&*world.store, "a").await, Item { lane: lane("slow"), priority, ..before });
    settle(&*world.store, Settlement::ack(lease.token(), mark(5))).await;
}

async fn only_what_passes_the_filter_is_changed(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    wake(&*world.store, "b", 5).await;
    let b = item_now(&*world.store, "b").await;
    let filter = ItemFilter::queue("q").held(true);
    let adjusted = adjust(&world, filter, Adjustment::Reset { to: mark(1) }).await;
    assert_eq!(adjusted, Adjusted { matched: 1, changed: 1 });
    assert_eq!(item_now(&*world.store, "b").await, b);
    assert!(item_now(&*world.store, "a").await.fence > Some(lease.fence));
}

async fn nothing_passes_and_nothing_is_changed(world: World) {
    wake(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    let adjusted = adjust(&world, ItemFilter::queue("r"), Adjustment::Reset { to: mark(9) }).await;
    assert_eq!(adjusted, Adjusted { matched: 0, changed: 0 });
    assert_eq!(item_now(&*world.store, "a").await, before);
}
