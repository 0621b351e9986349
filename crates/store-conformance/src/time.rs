//! The store's clock: what is compared on it, and that changes of the calendar do no harm.

use tidelock_store::{
    Commit, ExpectedRevision, ExpectedVersion, FeedQuery, Part, Position, RecordWrite, Renewal,
    Settlement, Slot, StoreExt, Wake, When,
};

use crate::case::{World, cases};
use crate::items::{INSTANT, held, item_now, leased, lost, now, secs, settle};
use crate::sample::{
    LEASE, commit, event, item, key, lease, lease_one, mark, refused, stream, value, wake,
};

cases! { "time":
    "TIME-2" the_clock_never_goes_back,
    "TIME-2" the_clock_goes_on_when_the_calendar_was_set_back,
    "TIME-2" the_clock_follows_the_calendar_forward,
    "TIME-2" a_handle_opened_after_the_calendar_was_set_back_does_not_go_back,
    "TIME-2 LEASE-1" a_lease_runs_out_though_the_calendar_was_set_back,
    "TIME-2" a_lease_granted_after_the_calendar_was_set_back_lasts_its_duration,
    "TIME-2 LEASE-4" a_renewal_after_the_calendar_was_set_back_counts_from_the_stores_clock,
    "TIME-1 LEASE-1 LEASE-5" a_calendar_set_forward_ends_leases_and_makes_no_second_holder,
    "TIME-2" a_timer_comes_though_the_calendar_was_set_back,
    "TIME-2 LEASE-8" a_backoff_ends_though_the_calendar_was_set_back,
    "TIME-2 REC-5" a_record_expires_though_the_calendar_was_set_back,
    "TIME-1 REC-5" a_record_expires_at_its_very_moment,
    "TIME-1 REC-5" a_record_expires_when_the_calendar_is_set_forward,
    "TIME-1" a_commit_is_dated_by_the_stores_clock,
    "TIME-2 LOG-7" the_feed_is_dated_in_order_whatever_the_calendar_does,
    "TIME-1" a_huge_jump_makes_everything_due_and_breaks_nothing,
}

async fn the_clock_never_goes_back(world: World) {
    let mut last = now(&*world.store).await;
    for hours in [1, 5, 2, 100] {
        world.set_back(secs(hours * 3600)).await;
        let then = now(&*world.store).await;
        assert!(then >= last, "{then} after {last}");
        world.set_forward(secs(3600)).await;
        last = now(&*world.store).await;
        assert!(last >= then, "{last} after {then}");
    }
}

async fn the_clock_goes_on_when_the_calendar_was_set_back(world: World) {
    let before = now(&*world.store).await;
    world.set_back(secs(3600)).await;
    world.advance(secs(7)).await;
    assert_eq!(now(&*world.store).await, before.plus(secs(7)));
    world.advance(secs(3)).await;
    assert_eq!(now(&*world.store).await, before.plus(secs(10)));
}

async fn the_clock_follows_the_calendar_forward(world: World) {
    let before = now(&*world.store).await;
    world.set_forward(secs(3600)).await;
    assert_eq!(now(&*world.store).await, before.plus(secs(3600)));
}

async fn a_handle_opened_after_the_calendar_was_set_back_does_not_go_back(world: World) {
    wake(&*world.store, "a", 1).await;
    let before = now(&*world.store).await;
    world.set_back(secs(3600)).await;
    let other = world.another().await;
    assert!(now(&*other).await >= before, "a moment that was written has been");
    wake(&*other, "b", 1).await;
    assert!(item_now(&*other, "b").await.due >= Some(before));
}

/// Schedule 22, back.
async fn a_lease_runs_out_though_the_calendar_was_set_back(world: World) {
    let other = world.another().await;
    leased(&*world.store, "a", 1).await;
    world.set_back(secs(3600)).await;
    assert_eq!(lease(&*other, "v", 1).await, []);
    world.advance(LEASE - secs(1)).await;
    assert_eq!(lease(&*other, "v", 1).await, [], "no double holder");
    world.advance(secs(1)).await;
    assert_eq!(lease(&*other, "v", 1).await.len(), 1, "no immortal lease");
    assert_eq!(lease(&*world.store, "w", 1).await, []);
}

async fn a_lease_granted_after_the_calendar_was_set_back_lasts_its_duration(world: World) {
    let start = now(&*world.store).await;
    world.set_back(secs(3600)).await;
    let first = leased(&*world.store, "a", 1).await;
    assert_eq!(first.deadline, start.plus(LEASE));
    // The calendar is corrected before the lease expires: no time is lost.
    world.set_forward(secs(3600)).await;
    world.advance(LEASE - secs(1)).await;
    assert_eq!(lease(&*world.store, "v", 1).await, []);
    world.advance(secs(1)).await;
    lease_one(&*world.store, "v").await;
}

async fn a_renewal_after_the_calendar_was_set_back_counts_from_the_stores_clock(world: World) {
    let start = now(&*world.store).await;
    let lease = leased(&*world.store, "a", 1).await;
    world.set_back(secs(3600)).await;
    world.advance(secs(20)).await;
    let renewed = world.store.renew(&[lease.token()], LEASE).await.unwrap();
    assert_eq!(renewed, [Renewal::Renewed(start.plus(secs(20) + LEASE))]);
}

/// Schedule 22, forward.
async fn a_calendar_set_forward_ends_leases_and_makes_no_second_holder(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    world.set_forward(secs(3600)).await;
    let second = lease_one(&*world.another().await, "v").await;
    let theirs = held(&second, "v", now(&*world.store).await);
    assert_eq!(second.deadline, now(&*world.store).await.plus(LEASE));
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    let late = Commit::new().settle(Settlement::ack(first.token(), mark(1)));
    assert_eq!(
        refused(&*world.store, late).await,
        lost(Part::Settlement(0), &first.token(), Some(theirs))
    );
    world.set_back(secs(3600)).await;
    assert_eq!(
        lease(&*world.store, "w", 1).await,
        [],
        "the new lease stands, whatever the calendar says"
    );
    settle(&*world.store, Settlement::ack(second.token(), mark(1))).await;
}

async fn a_timer_comes_though_the_calendar_was_set_back(world: World) {
    commit(&*world.store, Commit::new().wake(Wake::at(item("a"), When::In(secs(10))))).await;
    world.set_back(secs(3600)).await;
    world.advance(secs(9)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(1)).await;
    lease_one(&*world.store, "w").await;
}

async fn a_backoff_ends_though_the_calendar_was_set_back(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    settle(&*world.store, Settlement::retry(first.token(), secs(10), "no luck")).await;
    world.set_back(secs(3600)).await;
    world.advance(secs(9)).await;
    assert_eq!(lease(&*world.store, "w", 1).await, []);
    world.advance(secs(1)).await;
    lease_one(&*world.store, "w").await;
}

async fn put_for_ten_seconds(world: &World) {
    let write =
        RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1)).expiring(When::In(secs(10)));
    commit(&*world.store, Commit::new().write(write)).await;
}

async fn is_live(world: &World) -> bool {
    matches!(world.store.get_one(&key("k")).await.unwrap(), Slot::Live(_))
}

async fn a_record_expires_though_the_calendar_was_set_back(world: World) {
    put_for_ten_seconds(&world).await;
    world.set_back(secs(3600)).await;
    world.advance(secs(9)).await;
    assert!(is_live(&world).await);
    world.advance(secs(1)).await;
    assert!(!is_live(&world).await);
}

async fn a_record_expires_at_its_very_moment(world: World) {
    put_for_ten_seconds(&world).await;
    world.advance(secs(10) - INSTANT).await;
    assert!(is_live(&world).await);
    world.advance(INSTANT).await;
    assert!(!is_live(&world).await);
}

async fn a_record_expires_when_the_calendar_is_set_forward(world: World) {
    put_for_ten_seconds(&world).await;
    world.set_forward(secs(10)).await;
    assert!(!is_live(&world).await);
    world.set_back(secs(3600)).await;
    assert!(!is_live(&world).await, "and does not come back");
}

async fn a_commit_is_dated_by_the_stores_clock(world: World) {
    world.set_forward(secs(3600)).await;
    let start = now(&*world.store).await;
    world.set_back(secs(7200)).await;
    let note = Commit::new().append(&stream("s"), ExpectedVersion::NoStream, [event(1)]);
    let committed = commit(&*world.store, note).await;
    assert_eq!(committed.at, start);
    let events = world.store.read_whole_stream(&stream("s")).await.unwrap();
    assert_eq!(events[0].recorded_at, start);
}

async fn the_feed_is_dated_in_order_whatever_the_calendar_does(world: World) {
    for nth in 0..12 {
        match nth % 3 {
            0 => world.set_back(secs(500)).await,
            1 => world.set_forward(secs(300)).await,
            _ => world.advance(secs(1)).await,
        }
        let store = world.another().await;
        let note = Commit::new().append(&stream("s"), ExpectedVersion::Any, [event(nth)]);
        commit(&*store, note).await;
    }
    let page = world.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!(page.events.len(), 12);
    assert!(page.events.is_sorted_by_key(|event| event.recorded_at));
}

async fn a_huge_jump_makes_everything_due_and_breaks_nothing(world: World) {
    let years = 365 * 24 * 3600;
    put_for_ten_seconds(&world).await;
    let held = leased(&*world.store, "held", 1).await;
    commit(&*world.store, Commit::new().wake(Wake::at(item("timer"), When::In(secs(50 * years)))))
        .await;
    let start = now(&*world.store).await;

    world.advance(secs(60 * years)).await;

    assert_eq!(now(&*world.store).await, start.plus(secs(60 * years)));
    assert!(!is_live(&world).await);
    let leases = lease(&*world.store, "v", 10).await;
    let mut keys: Vec<&str> = leases.iter().map(|lease| lease.item.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["held", "timer"]);
    refused(&*world.store, Commit::new().settle(Settlement::ack(held.token(), mark(1)))).await;
    for lease in leases {
        settle(&*world.store, Settlement::ack(lease.token(), lease.mark)).await;
    }
}
