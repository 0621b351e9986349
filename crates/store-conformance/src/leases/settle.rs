//! Settlements: the five ways in which a holder ends its lease.

use tidelock_store::{
    Adjustment, Commit, ExpectedVersion, Item, ItemFilter, Lease, Settle, SettleKind, Settlement,
    StoreExt, Wake, When, limits,
};

use crate::case::{World, cases};
use crate::items::{every_exit, item_now, leased, now, secs, set_aside, settle};
use crate::sample::{LEASE, commit, event, item, lease, lease_one, mark, stream, wake};

cases! { "leases::settle":
    "LEASE-8" an_ack_of_everything_leaves_the_item_idle,
    "LEASE-8" an_ack_of_a_part_makes_the_item_due_again_at_once,
    "LEASE-8" an_ack_beyond_the_mark_moves_the_mark,
    "LEASE-8" an_ack_never_moves_the_cursor_back,
    "LEASE-8" an_ack_without_progress_ends_the_lease,
    "LEASE-8" an_ack_sets_the_counts_to_zero,
    "LEASE-8" an_ack_takes_an_earlier_error_away,
    "LEASE-8" an_ack_can_defer_what_is_left,
    "LEASE-3 LEASE-8" an_ack_can_defer_what_comes,
    "LEASE-8" a_retry_counts_a_failure_and_holds_the_item_back,
    "LEASE-8" failures_add_up_until_there_is_progress,
    "LEASE-8" a_long_error_is_cut_and_the_settlement_stands,
    "LEASE-8" an_error_at_the_limit_is_kept_whole,
    "LEASE-8" an_error_with_a_nul_in_it_does_not_fail_the_settlement,
    "LEASE-8" a_deferral_holds_the_item_back_without_counting,
    "LEASE-8" a_block_takes_the_item_out_of_circulation,
    "LEASE-8" a_release_gives_the_item_back_at_once,
    "LEASE-8" every_settlement_keeps_progress_and_resets_the_counts,
    "LEASE-3" a_wake_during_the_lease_survives_every_exit,
    "LEASE-3" a_timer_set_during_the_lease_survives_an_ack,
    "LEASE-3 LEASE-6" a_wake_during_the_lease_survives_its_expiry,
    "LEASE-3 COMMIT-3" a_wake_in_the_settling_commit_counts_after_the_settlement,
    "LEASE-5 LEASE-6" every_settlement_of_an_expired_lease_that_was_not_taken_over_is_accepted,
    "COMMIT-1 LEASE-8" a_settlement_and_what_was_done_under_it_come_together,
    "LEASE-8" a_blocked_event_holds_up_its_stream_until_it_is_unblocked,
    "COMMIT-1 LEASE-8" several_leases_are_settled_in_one_commit,
}

/// The item after this settlement of a current lease, with nothing else changed.
fn settled(before: Item, kind: SettleKind) -> Item {
    Item { holder: None, settled: Some(kind), ..before }
}

async fn an_ack_of_everything_leaves_the_item_idle(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;

    settle(&*world.store, Settlement::ack(first.token(), mark(5))).await;

    let expected = Item { at: mark(5), attempts: 0, ..settled(before, SettleKind::Ack) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    world.advance(LEASE).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
}

async fn an_ack_of_a_part_makes_the_item_due_again_at_once(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    world.advance(secs(3)).await;

    settle(&*world.store, Settlement::ack(first.token(), mark(3))).await;

    let due = Some(now(&*world.store).await);
    let expected = Item { at: mark(3), due, attempts: 0, ..settled(before, SettleKind::Ack) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    let second = lease_one(&*world.store, "w").await;
    assert_eq!((second.at, second.mark, second.attempts), (mark(3), mark(5), 1));
}

async fn an_ack_beyond_the_mark_moves_the_mark(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    settle(&*world.store, Settlement::ack(first.token(), mark(8))).await;
    let expected =
        Item { at: mark(8), mark: mark(8), attempts: 0, ..settled(before, SettleKind::Ack) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
}

async fn an_ack_never_moves_the_cursor_back(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(first.token(), mark(4))).await;
    let second = lease_one(&*world.store, "w").await;
    settle(&*world.store, Settlement::ack(second.token(), mark(2))).await;
    let third = lease_one(&*world.store, "w").await;
    assert_eq!((third.at, third.mark), (mark(4), mark(5)));
}

async fn an_ack_without_progress_ends_the_lease(world: World) {
    commit(&*world.store, Commit::new().wake(Wake::at(item("a"), When::NOW))).await;
    let first = lease_one(&*world.store, "w").await;
    let before = item_now(&*world.store, "a").await;
    let done = Settlement {
        lease: first.token(),
        done: None,
        exit: Settle::Ack { defer: None, forget: None },
    };
    settle(&*world.store, done).await;
    let expected = Item { attempts: 0, ..settled(before, SettleKind::Ack) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    assert_eq!(lease(&*world.store, "w", 1).await, [], "the timer was heard");
}

/// Leases the item with an expiry and a failure behind it.
async fn leased_after_trouble(world: &World, key: &str) -> Lease {
    leased(&*world.store, key, 5).await;
    world.advance(LEASE).await;
    let second = lease_one(&*world.store, "w").await;
    settle(&*world.store, Settlement::retry(second.token(), secs(0), "no luck")).await;
    let third = lease_one(&*world.store, "w").await;
    assert_eq!((third.attempts, third.failures, third.expiries), (3, 1, 1));
    third
}

async fn an_ack_sets_the_counts_to_zero(world: World) {
    let third = leased_after_trouble(&world, "a").await;
    settle(&*world.store, Settlement::ack(third.token(), mark(1))).await;
    let fourth = lease_one(&*world.store, "w").await;
    assert_eq!((fourth.attempts, fourth.failures, fourth.expiries), (1, 0, 0));
}

async fn an_ack_takes_an_earlier_error_away(world: World) {
    let third = leased_after_trouble(&world, "a").await;
    assert_eq!(item_now(&*world.store, "a").await.error.as_deref(), Some("no luck"));
    settle(&*world.store, Settlement::ack(third.token(), mark(1))).await;
    assert_eq!(item_now(&*world.store, "a").await.error, None);
}

async fn an_ack_can_defer_what_is_left(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    let start = now(&*world.store).await;

    settle(&*world.store, Settlement::ack_and_defer(first.token(), mark(1), When::In(secs(9))))
        .await;

    let (due, hold) = (Some(start), Some(start.plus(secs(9))));
    let expected = Item { at: mark(1), due, hold, attempts: 0, ..settled(before, SettleKind::Ack) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(9)).await;
    assert_eq!(lease_one(&*world.store, "w").await.at, mark(1));
}

async fn an_ack_can_defer_what_comes(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::ack_and_defer(first.token(), mark(1), When::In(secs(9))))
        .await;
    wake(&*world.store, "a", 2).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(9)).await;
    assert_eq!(lease_one(&*world.store, "w").await.mark, mark(2));
}

async fn a_retry_counts_a_failure_and_holds_the_item_back(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    world.advance(secs(2)).await;
    let start = now(&*world.store).await;

    settle(&*world.store, Settlement::retry(first.token(), secs(9), "no luck")).await;

    let (due, hold) = (Some(start), Some(start.plus(secs(9))));
    let error = Some("no luck".to_owned());
    let expected = Item { due, hold, failures: 1, error, ..settled(before, SettleKind::Retry) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    world.advance(secs(8)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(1)).await;
    let second = lease_one(&*world.store, "w").await;
    assert_eq!((second.attempts, second.failures, second.expiries), (2, 1, 0));
    assert_eq!(
        item_now(&*world.store, "a").await.hold,
        None,
        "a hold is over once it was waited for"
    );
}

async fn failures_add_up_until_there_is_progress(world: World) {
    wake(&*world.store, "a", 5).await;
    for nth in 0..4 {
        let lease = lease_one(&*world.store, "w").await;
        assert_eq!((lease.attempts, lease.failures), (nth + 1, nth));
        settle(&*world.store, Settlement::retry(lease.token(), secs(0), "no luck")).await;
    }
    let lease = lease_one(&*world.store, "w").await;
    let halfway = Settlement::retry(lease.token(), secs(0), "no luck").having_done(mark(2));
    settle(&*world.store, halfway).await;
    let lease = lease_one(&*world.store, "w").await;
    assert_eq!((lease.at, lease.attempts, lease.failures), (mark(2), 1, 1));
}

async fn a_long_error_is_cut_and_the_settlement_stands(world: World) {
    let long = "é".repeat(limits::ERROR_CHARS + 1);
    let cut = "é".repeat(limits::ERROR_CHARS) + "…";
    let first = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::retry(first.token(), secs(0), &long)).await;
    assert_eq!(item_now(&*world.store, "a").await.error.as_ref(), Some(&cut));
    let second = lease_one(&*world.store, "w").await;
    settle(&*world.store, Settlement::block(second.token(), &long)).await;
    assert_eq!(item_now(&*world.store, "a").await.error.as_ref(), Some(&cut));
}

async fn an_error_with_a_nul_in_it_does_not_fail_the_settlement(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::block(first.token(), "at byte 3: \0 found")).await;
    assert_eq!(
        item_now(&*world.store, "a").await.error.as_deref(),
        Some("at byte 3: \u{fffd} found")
    );
}

async fn an_error_at_the_limit_is_kept_whole(world: World) {
    let error = "é".repeat(limits::ERROR_CHARS);
    let first = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::block(first.token(), &error)).await;
    assert_eq!(item_now(&*world.store, "a").await.error.as_ref(), Some(&error));
}

async fn a_deferral_holds_the_item_back_without_counting(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    let start = now(&*world.store).await;
    let then = start.plus(secs(9));

    settle(&*world.store, Settlement::defer(first.token(), When::At(then))).await;

    let expected =
        Item { due: Some(start), hold: Some(then), ..settled(before, SettleKind::Defer) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    world.advance(secs(8)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(1)).await;
    assert_eq!(lease_one(&*world.store, "w").await.failures, 0);
}

async fn a_block_takes_the_item_out_of_circulation(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    let start = now(&*world.store).await;

    settle(&*world.store, Settlement::block(first.token(), "no hope")).await;

    let error = Some("no hope".to_owned());
    let expected =
        Item { due: Some(start), blocked: true, error, ..settled(before, SettleKind::Block) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    world.advance(secs(1_000_000)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
}

async fn a_release_gives_the_item_back_at_once(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    let start = now(&*world.store).await;
    settle(&*world.store, Settlement::release(first.token())).await;
    let expected = Item { due: Some(start), ..settled(before, SettleKind::Release) };
    assert_eq!(item_now(&*world.store, "a").await, expected);
    let second = lease_one(&*world.store, "v").await;
    assert_eq!(second, Lease { fence: second.fence, attempts: 2, ..first });
}

async fn every_settlement_keeps_progress_and_resets_the_counts(world: World) {
    for nth in 0..5 {
        let key = format!("item-{nth}");
        let lease = leased_after_trouble(&world, &key).await;
        let exit = every_exit(&lease)[nth].clone().having_done(mark(2));
        let kind = exit.exit.kind();

        settle(&*world.store, exit).await;

        let after = item_now(&*world.store, &key).await;
        assert_eq!((after.at, after.settled), (mark(2), Some(kind)));
        let failures = u32::from(kind == SettleKind::Retry);
        assert_eq!((after.attempts, after.failures, after.expiries), (0, failures, 0), "{kind:?}");
        set_aside(&*world.store).await;
    }
}

async fn a_wake_during_the_lease_survives_every_exit(world: World) {
    for nth in 0..5 {
        let key = format!("item-{nth}");
        let lease = leased(&*world.store, &key, 1).await;
        wake(&*world.store, &key, 7).await;
        settle(&*world.store, every_exit(&lease)[nth].clone().having_done(mark(1))).await;
        world.store.adjust(ItemFilter::default(), Adjustment::Unblock).await.unwrap();
        world.advance(secs(5)).await;
        let next = lease_one(&*world.store, "w").await;
        assert_eq!((next.item, next.at, next.mark), (item(&key), mark(1), mark(7)), "exit {nth}");
        set_aside(&*world.store).await;
    }
}

async fn a_timer_set_during_the_lease_survives_an_ack(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    let then = now(&*world.store).await.plus(secs(100));
    commit(&*world.store, Commit::new().wake(Wake::at(item("a"), When::At(then)))).await;
    settle(&*world.store, Settlement::ack(first.token(), mark(1))).await;
    assert_eq!(item_now(&*world.store, "a").await.due, Some(then));
    world.advance(secs(99)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(1)).await;
    lease_one(&*world.store, "w").await;
}

async fn a_wake_during_the_lease_survives_its_expiry(world: World) {
    leased(&*world.store, "a", 1).await;
    wake(&*world.store, "a", 7).await;
    world.advance(LEASE).await;
    assert_eq!(lease_one(&*world.store, "v").await.mark, mark(7));
}

async fn a_wake_in_the_settling_commit_counts_after_the_settlement(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    let then = now(&*world.store).await.plus(secs(60));
    let suspend = Commit::new()
        .settle(Settlement::ack(first.token(), mark(5)))
        .wake(Wake::at(item("a"), When::At(then)))
        .wake(Wake::to_mark(item("a"), mark(5)));
    commit(&*world.store, suspend).await;
    assert_eq!(
        item_now(&*world.store, "a").await.due,
        Some(then),
        "mark 5 was done, the timer is new"
    );
}

async fn every_settlement_of_an_expired_lease_that_was_not_taken_over_is_accepted(world: World) {
    for nth in 0..5 {
        let key = format!("item-{nth}");
        let lease = leased(&*world.store, &key, 1).await;
        world.advance(LEASE + secs(1)).await;
        let exit = every_exit(&lease)[nth].clone().having_done(mark(1));
        let kind = exit.exit.kind();
        settle(&*world.store, exit).await;
        let after = item_now(&*world.store, &key).await;
        assert_eq!((after.at, after.settled, after.expiries), (mark(1), Some(kind), 0));
        set_aside(&*world.store).await;
    }
}

async fn a_settlement_and_what_was_done_under_it_come_together(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    let done = Commit::new()
        .append(&stream("s"), ExpectedVersion::NoStream, [event(1)])
        .settle(Settlement::ack(first.token(), mark(1)));
    commit(&*world.store, done).await;
    assert_eq!(world.store.read_whole_stream(&stream("s")).await.unwrap().len(), 1);
    assert_eq!(item_now(&*world.store, "a").await.at, mark(1));
}

/// Schedule 28.
async fn a_blocked_event_holds_up_its_stream_until_it_is_unblocked(world: World) {
    let first = leased(&*world.store, "stream", 3).await;
    let poisoned = Settlement::block(first.token(), "event 2 is poison").having_done(mark(1));
    settle(&*world.store, poisoned).await;
    wake(&*world.store, "stream", 4).await;
    assert_eq!(lease(&*world.store, "w", 9).await, [], "nothing after event 1 is delivered");

    world.store.adjust(ItemFilter::queue("q"), Adjustment::Unblock).await.unwrap();

    let next = lease_one(&*world.store, "w").await;
    assert_eq!((next.at, next.mark, next.attempts), (mark(1), mark(4), 1), "event 2 is next");
}

async fn several_leases_are_settled_in_one_commit(world: World) {
    let (a, b) = (leased(&*world.store, "a", 1).await, leased(&*world.store, "b", 1).await);
    let both = Commit::new()
        .settle(Settlement::block(b.token(), "no hope"))
        .settle(Settlement::ack(a.token(), mark(1)))
        .fenced_by(a.token());
    commit(&*world.store, both).await;
    assert_eq!(item_now(&*world.store, "a").await.settled, Some(SettleKind::Ack));
    assert_eq!(item_now(&*world.store, "b").await.settled, Some(SettleKind::Block));
}
