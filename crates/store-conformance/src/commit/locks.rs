//! Locks made of records: what a pattern can build on one commit.
//!
//! A lock is a record that exists while it is held; its revision is the holder's token.

use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedRevision, LeaseToken, Part, RecordKey,
    RecordWrite, Revision, Slot, Store, StoreExt, ViolationKind, ViolationReason, When,
};

use crate::case::{World, cases};
use crate::sample::{
    LEASE, at_once, commit, json, key, lease_one, refused_whole, revision, value, violation, wake,
};

cases! { "commit::locks":
    "REC-1 REC-5" a_lock_that_was_taken_over_survives_its_first_holders_release,
    "COMMIT-1 REC-1" two_locks_taken_in_opposite_order_go_to_one_taker,
    "COMMIT-1" of_a_set_of_locks_of_which_one_is_held_none_is_taken,
    "COMMIT-1" a_taker_that_is_dropped_half_way_holds_all_its_locks_or_none,
    "COMMIT-1 REC-1" a_release_that_fails_half_way_releases_nothing,
    "COMMIT-1 REC-5 LEASE-5" a_renewal_under_a_lost_fence_renews_nothing,
}

const HELD_FOR: Duration = Duration::from_secs(20);

fn held() -> When {
    When::In(HELD_FOR)
}

/// Takes all of these locks or none.
fn take(who: &str, locks: &[RecordKey]) -> Commit {
    locks.iter().fold(Commit::new(), |commit, lock| {
        let put = RecordWrite::put(lock, ExpectedRevision::Absent, json(&format!("{who:?}")));
        commit.write(put.expiring(held()))
    })
}

/// Releases all of these locks or none, by the token with which each was taken.
fn release(locks: &[(RecordKey, Revision)]) -> Commit {
    locks.iter().fold(Commit::new(), |commit, (lock, token)| {
        commit.write(RecordWrite::delete(lock, ExpectedRevision::Revision(*token)))
    })
}

fn tokens(taken: Committed) -> Vec<(RecordKey, Revision)> {
    taken.writes.into_iter().map(|written| (written.key, written.revision.unwrap())).collect()
}

async fn held_by(store: &dyn Store, lock: &RecordKey) -> Option<String> {
    store.get_one(lock).await.unwrap().live().map(|record| record.value.to().unwrap())
}

/// Schedule 65.
async fn a_lock_that_was_taken_over_survives_its_first_holders_release(world: World) {
    let (anna, bert, locks) = (&*world.store, world.another().await, [key("lock")]);
    let annas = tokens(commit(anna, take("anna", &locks)).await);
    world.advance(HELD_FOR).await;
    let berts = tokens(commit(&*bert, take("bert", &locks)).await);

    let conflict = refused_whole(anna, release(&annas)).await;
    let reason = ViolationReason::Record {
        key: key("lock"),
        expected: ExpectedRevision::Revision(annas[0].1),
        found: anna.get_one(&key("lock")).await.unwrap(),
    };
    assert_eq!(conflict, violation(Part::Write(0), reason));
    assert!(conflict.has(ViolationKind::Moved));
    assert_eq!(held_by(anna, &key("lock")).await.as_deref(), Some("bert"));
    commit(&*bert, release(&berts)).await;
}

/// Schedule 66.
async fn two_locks_taken_in_opposite_order_go_to_one_taker(world: World) {
    let (store, a, b) = (&*world.store, key("a"), key("b"));
    for _ in 0..20 {
        let annas = take("anna", &[a.clone(), b.clone()]);
        let berts = take("bert", &[b.clone(), a.clone()]);
        let outcomes = at_once(&world, annas, berts).await;
        let (won, lost): (Vec<_>, Vec<_>) =
            outcomes.into_iter().map(CommitOutcome::committed).partition(Result::is_ok);
        let lost: Vec<Conflict> = lost.into_iter().map(Result::unwrap_err).collect();
        assert_eq!((won.len(), lost.len()), (1, 1), "neither blocks the other");
        assert_eq!(lost[0].violations.len(), 2, "the loser is told of both");
        assert_eq!(held_by(store, &a).await, held_by(store, &b).await);
        let won = won.into_iter().next().unwrap().unwrap();
        commit(store, release(&tokens(won))).await;
    }
}

/// Schedule 67, as far as it can be driven without killing a process.
async fn of_a_set_of_locks_of_which_one_is_held_none_is_taken(world: World) {
    let (store, locks) = (&*world.store, ["a", "b", "c", "d"].map(key));
    commit(&*world.another().await, take("bert", &locks[2..3])).await;
    let conflict = refused_whole(store, take("anna", &locks)).await;
    assert_eq!(conflict.violations.len(), 1);
    assert_eq!(
        (conflict.first().part, conflict.first().reason.kind()),
        (Part::Write(2), ViolationKind::Taken)
    );
    let slots = store.get(&locks).await.unwrap();
    assert_eq!([&slots[0], &slots[1], &slots[3]], [&Slot::Absent; 3]);
}

/// Schedule 67, with a future that is dropped wherever it happens to be.
async fn a_taker_that_is_dropped_half_way_holds_all_its_locks_or_none(world: World) {
    for round in 0..20 {
        let locks: Vec<_> = (0..10).map(|lock| key(&format!("{round}/{lock}"))).collect();
        let (taker, set) = (world.nth(0).await, take("anna", &locks));
        let taking = tokio::spawn(async move { taker.commit(set).await });
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        taking.abort();
        // Aborted or answered: either is fine, half of the locks is not.
        drop(taking.await);
        let slots = world.store.get(&locks).await.unwrap();
        let held = slots.iter().filter(|slot| slot.live().is_some()).count();
        assert!(held == 0 || held == locks.len(), "{held} of {} locks are held", locks.len());
    }
}

/// Schedule 68.
async fn a_release_that_fails_half_way_releases_nothing(world: World) {
    let (store, locks) = (&*world.store, ["a", "b", "c"].map(key));
    let mine = tokens(commit(store, take("anna", &locks)).await);
    let seized =
        RecordWrite::put(&locks[1], ExpectedRevision::Exists, json("\"bert\"")).expiring(held());
    commit(&*world.another().await, Commit::new().write(seized)).await;

    let conflict = refused_whole(store, release(&mine)).await;
    assert_eq!(conflict.violations.len(), 1);
    assert_eq!(conflict.first().part, Part::Write(1));
    assert_eq!(held_by(store, &locks[0]).await.as_deref(), Some("anna"));
    assert_eq!(held_by(store, &locks[2]).await.as_deref(), Some("anna"));
}

/// Schedule 68, of a renewal.
async fn a_renewal_under_a_lost_fence_renews_nothing(world: World) {
    let (store, locks) = (&*world.store, ["a", "b"].map(key));
    wake(store, "worker", 1).await;
    let lease = lease_one(store, "anna").await;
    commit(store, take("anna", &locks).fenced_by(lease.token())).await;
    let renew = |token: LeaseToken| {
        let expected = ExpectedRevision::Exists;
        locks.iter().fold(Commit::new().fenced_by(token), |commit, lock| {
            commit.write(RecordWrite::put(lock, expected, value(1)).expiring(When::In(LEASE * 2)))
        })
    };
    commit(store, renew(lease.token())).await;

    world.advance(LEASE).await;
    let next = lease_one(&*world.another().await, "bert").await;
    let before = store.get(&locks).await.unwrap();
    let conflict = refused_whole(store, renew(lease.token())).await;
    assert_eq!((conflict.violations.len(), conflict.first().part), (1, Part::Fence(0)));
    assert_eq!(store.get(&locks).await.unwrap(), before);
    assert!(before.iter().all(|slot| slot.revision() == Some(revision(2))));
    commit(store, renew(next.token())).await;
}
