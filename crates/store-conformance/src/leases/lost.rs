//! Lost leases: the former holder writes nothing, and is told what is there now.

use tidelock_store::{
    Adjustment, AfterTrim, Append, Commit, Conflict, ExpectedRevision, ExpectedVersion, Fence,
    Item, ItemFilter, Lease, LeaseToken, Part, RecordWrite, Settlement, Slot, StoreExt,
    StreamQuery, StreamState, Violation, ViolationReason, Wake, When,
};

use crate::case::{World, cases};
use crate::items::{
    due, every_exit, held, item_now, items, leased, lost, lost_part, now, secs, settle,
};
use crate::sample::{
    LEASE, commit, event, events, exact, item, key, lease, lease_one, mark, refused, stream, value,
    version, wake,
};

cases! { "leases::lost":
    "LEASE-5" an_ack_after_a_takeover_is_refused,
    "LEASE-5 COMMIT-1" every_exit_after_a_takeover_is_refused_with_all_that_came_with_it,
    "LEASE-5" a_commit_fenced_by_a_lost_lease_is_refused,
    "LEASE-5" a_commit_fenced_by_a_lease_that_stands_is_accepted_and_leaves_it_standing,
    "LEASE-5" a_commit_fenced_by_an_expired_lease_that_was_not_taken_over_is_accepted,
    "LEASE-5" a_commit_fenced_by_a_settled_lease_is_refused,
    "LEASE-5" a_settlement_of_an_item_that_is_not_there_is_refused,
    "LEASE-5" a_settlement_of_an_item_never_leased_is_refused,
    "LEASE-5" a_settlement_under_a_fence_never_granted_is_refused,
    "LEASE-5 COMMIT-2" every_lost_lease_of_a_commit_is_named,
    "LEASE-5 LEASE-2" a_lease_revoked_by_a_reset_is_lost_for_good,
    "LEASE-2" fences_grow_whatever_happens_in_between,
    "LEASE-5" a_slow_first_claimant_cannot_complete_after_a_takeover,
    "LEASE-1 REC-5" a_claim_whose_record_expires_while_it_runs_is_not_run_twice,
    "LEASE-5 LOG-8 LOG-9" closing_the_books_under_a_live_lease_fences_its_holder,
}

/// An item leased by "w" and then, after its expiry, by "v": both leases, and the item now.
async fn taken_over(world: &World, key: &str) -> (Lease, Lease, Item) {
    let first = leased(&*world.store, key, 5).await;
    world.advance(LEASE).await;
    let second = lease_one(&*world.another().await, "v").await;
    assert!(second.fence > first.fence);
    let theirs = held(&second, "v", now(&*world.store).await);
    (first, second, theirs)
}

/// Schedule 17.
async fn an_ack_after_a_takeover_is_refused(world: World) {
    let (first, second, theirs) = taken_over(&world, "a").await;

    let late = Commit::new().settle(Settlement::ack(first.token(), mark(5)));
    let conflict = refused(&*world.store, late).await;

    assert_eq!(conflict, lost(Part::Settlement(0), &first.token(), Some(theirs.clone())));
    assert_eq!(item_now(&*world.store, "a").await, theirs);
    settle(&*world.store, Settlement::ack(second.token(), mark(5))).await;
    assert_eq!(item_now(&*world.store, "a").await.at, mark(5));
}

/// Schedule 18.
async fn every_exit_after_a_takeover_is_refused_with_all_that_came_with_it(world: World) {
    let (first, _, theirs) = taken_over(&world, "a").await;
    for exit in every_exit(&first) {
        let kind = exit.exit.kind();
        let late = Commit::new()
            .append(&stream("s"), ExpectedVersion::Any, [event(1)])
            .write(RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1)))
            .wake(Wake::to_mark(item("b"), mark(1)))
            .settle(exit.having_done(mark(1)));
        let expected = lost(Part::Settlement(0), &first.token(), Some(theirs.clone()));
        assert_eq!(refused(&*world.store, late).await, expected, "{kind:?}");
    }
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), Slot::Absent);
    assert_eq!(world.store.read_whole_stream(&stream("s")).await.unwrap(), []);
    assert_eq!(items(&*world.store, ItemFilter::default()).await, [theirs]);
}

async fn a_commit_fenced_by_a_lost_lease_is_refused(world: World) {
    let (first, _, theirs) = taken_over(&world, "a").await;
    let late = Commit::new()
        .write(RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1)))
        .fenced_by(first.token());
    assert_eq!(
        refused(&*world.store, late).await,
        lost(Part::Fence(0), &first.token(), Some(theirs))
    );
    assert_eq!(world.store.get_one(&key("k")).await.unwrap(), Slot::Absent);
}

fn fenced_write(lease: &Lease) -> Commit {
    Commit::new()
        .write(RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1)))
        .fenced_by(lease.token())
}

async fn a_commit_fenced_by_a_lease_that_stands_is_accepted_and_leaves_it_standing(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    let before = item_now(&*world.store, "a").await;
    commit(&*world.store, fenced_write(&lease)).await;
    assert_eq!(item_now(&*world.store, "a").await, before);
}

async fn a_commit_fenced_by_an_expired_lease_that_was_not_taken_over_is_accepted(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    world.advance(LEASE + secs(1)).await;
    commit(&*world.store, fenced_write(&lease)).await;
}

async fn a_commit_fenced_by_a_settled_lease_is_refused(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    settle(&*world.store, Settlement::ack(lease.token(), mark(5))).await;
    let found = Some(item_now(&*world.store, "a").await);
    let conflict = refused(&*world.store, fenced_write(&lease)).await;
    assert_eq!(conflict, lost(Part::Fence(0), &lease.token(), found));
}

async fn a_settlement_of_an_item_that_is_not_there_is_refused(world: World) {
    let invented = LeaseToken { item: item("a"), fence: Fence::FIRST };
    let ack = Commit::new().settle(Settlement::ack(invented.clone(), mark(1)));
    assert_eq!(refused(&*world.store, ack).await, lost(Part::Settlement(0), &invented, None));
    assert_eq!(items(&*world.store, ItemFilter::default()).await, []);
}

async fn a_settlement_of_an_item_never_leased_is_refused(world: World) {
    wake(&*world.store, "a", 5).await;
    let found = due("a", 5, now(&*world.store).await);
    let invented = LeaseToken { item: item("a"), fence: Fence::FIRST };
    let ack = Commit::new().settle(Settlement::ack(invented.clone(), mark(5)));
    let expected = lost(Part::Settlement(0), &invented, Some(found.clone()));
    assert_eq!(refused(&*world.store, ack).await, expected);
    assert_eq!(item_now(&*world.store, "a").await, found);
}

async fn a_settlement_under_a_fence_never_granted_is_refused(world: World) {
    let lease = leased(&*world.store, "a", 5).await;
    let ours = item_now(&*world.store, "a").await;
    let invented = LeaseToken { fence: lease.fence.plus(1), ..lease.token() };
    let ack = Commit::new().settle(Settlement::ack(invented.clone(), mark(5)));
    let expected = lost(Part::Settlement(0), &invented, Some(ours.clone()));
    assert_eq!(refused(&*world.store, ack).await, expected);
    assert_eq!(item_now(&*world.store, "a").await, ours);
}

async fn every_lost_lease_of_a_commit_is_named(world: World) {
    let (first, _, theirs) = taken_over(&world, "a").await;
    wake(&*world.store, "b", 1).await;
    let good = lease_one(&*world.store, "w").await;
    let unheld = LeaseToken { item: item("c"), fence: Fence::FIRST };
    let late = Commit::new()
        .fenced_by(good.token())
        .fenced_by(unheld.clone())
        .settle(Settlement::ack(good.token(), mark(1)))
        .settle(Settlement::release(first.token()));

    let conflict = refused(&*world.store, late).await;

    let violations = vec![
        lost_part(Part::Settlement(1), &first.token(), Some(theirs)),
        lost_part(Part::Fence(1), &unheld, None),
    ];
    assert_eq!(conflict, Conflict { violations });
    assert_eq!(item_now(&*world.store, "b").await.holder.unwrap().deadline, good.deadline);
}

async fn a_lease_revoked_by_a_reset_is_lost_for_good(world: World) {
    let first = leased(&*world.store, "a", 5).await;
    world.store.adjust(ItemFilter::default(), Adjustment::Reset { to: mark(2) }).await.unwrap();
    for round in 0..3 {
        for exit in every_exit(&first) {
            let found = item_now(&*world.store, "a").await;
            let late = Commit::new().settle(exit).fenced_by(first.token());
            let violations = vec![
                lost_part(Part::Settlement(0), &first.token(), Some(found.clone())),
                lost_part(Part::Fence(0), &first.token(), Some(found)),
            ];
            assert_eq!(
                refused(&*world.store, late).await,
                Conflict { violations },
                "round {round}"
            );
        }
        // Leased, expired, and leased again: the old fence does not become valid again.
        world.advance(LEASE).await;
        assert!(lease_one(&*world.store, "v").await.fence > first.fence);
    }
}

async fn fences_grow_whatever_happens_in_between(world: World) {
    let mut last = leased(&*world.store, "a", 100).await;
    for round in 0..10 {
        settle(&*world.store, every_exit(&last)[round % 5].clone()).await;
        world.store.adjust(ItemFilter::default(), Adjustment::Unblock).await.unwrap();
        if round >= 5 {
            world
                .store
                .adjust(ItemFilter::default(), Adjustment::Reset { to: mark(0) })
                .await
                .unwrap();
        }
        world.advance(secs(5)).await;
        let next = lease_one(&*world.store, "w").await;
        assert!(next.fence > last.fence, "{} after {}, round {round}", next.fence, last.fence);
        last = next;
    }
}

/// A claim on an idempotency key: the work item is the claim, the record is its result.
fn complete(lease: &Lease, result: i64) -> Commit {
    Commit::new()
        .write(RecordWrite::put(&key("result"), ExpectedRevision::Absent, value(result)))
        .settle(Settlement::ack(lease.token(), mark(1)))
}

/// Schedule 59.
async fn a_slow_first_claimant_cannot_complete_after_a_takeover(world: World) {
    let (slow, quick, theirs) = taken_over(&world, "claim").await;
    let expected = lost(Part::Settlement(0), &slow.token(), Some(theirs));
    assert_eq!(
        refused(&*world.store, complete(&slow, 1)).await,
        expected,
        "before the other completes"
    );
    commit(&*world.store, complete(&quick, 2)).await;
    refused(&*world.store, complete(&slow, 1)).await;
    let stored = world.store.get_one(&key("result")).await.unwrap();
    let record = stored.live().expect("one result is stored");
    assert_eq!((record.revision.get(), &record.value), (1, &value(2)));
}

/// Schedule 61.
async fn a_claim_whose_record_expires_while_it_runs_is_not_run_twice(world: World) {
    let started = RecordWrite::put(&key("claim"), ExpectedRevision::Absent, value(0));
    let claim = Commit::new()
        .write(started.expiring(When::In(secs(10))))
        .wake(Wake::to_mark(item("claim"), mark(1)));
    commit(&*world.store, claim.clone()).await;
    let running = lease_one(&*world.store, "w").await;
    world.advance(secs(20)).await;
    assert!(world.store.get_one(&key("claim")).await.unwrap().live().is_none(), "it has expired");

    // The key looks free, so a second caller claims it; the first one still runs.
    commit(&*world.store, claim).await;

    assert_eq!(lease(&*world.store, "v", 1).await, [], "no second execution");
    settle(&*world.store, Settlement::ack(running.token(), mark(1))).await;
}

/// Schedule 31.
async fn closing_the_books_under_a_live_lease_fences_its_holder(world: World) {
    let books = stream("books");
    commit(&*world.store, Commit::new().append(&books, ExpectedVersion::NoStream, events(3))).await;
    let holder = leased(&*world.store, "books", 3).await;

    let close = Commit::new().with_append(Append::closing(&books, exact(3))).trim(
        &books,
        version(3),
        AfterTrim::StayClosed,
    );
    commit(&*world.store, close).await;
    world.store.adjust(ItemFilter::default(), Adjustment::Reset { to: mark(3) }).await.unwrap();

    let late = Commit::new()
        .append(&books, exact(3), [event(4)])
        .settle(Settlement::ack(holder.token(), mark(3)));
    let found = item_now(&*world.store, "books").await;
    let closed = ViolationReason::Closed { stream: books.clone(), version: version(3) };
    let violations = vec![
        Violation { part: Part::Append(0), reason: closed },
        lost_part(Part::Settlement(0), &holder.token(), Some(found)),
    ];
    assert_eq!(refused(&*world.store, late).await, Conflict { violations });
    let page = world.store.read_stream(StreamQuery::forward(&books)).await.unwrap();
    assert_eq!((page.events, page.state), (vec![], StreamState::Closed(version(3))));
}
