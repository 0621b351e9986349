//! Locks: mutual exclusion in FIFO order.

use std::time::Duration;

use serde_json::json;
use tidelock::claims::ClaimError;
use tidelock::claims::{Lock, LockGuard};
use tidelock::prelude::*;
use tidelock::store::{
    Commit, ExpectedRevision, RawJson, RecordKey, RecordQuery, RecordWrite, StoreExt,
};
use tidelock_test_stage::{Observed, PATIENCE, Pause, TestStore, on_every_store, until};

use crate::lost_replies::LostReplies;

/// Expires immediately.
const INSTANT: Duration = Duration::from_millis(5);

fn report(tidelock: &Tidelock) -> Lock {
    tidelock.claims().lock("report").of("2026").within(PATIENCE).lease(Duration::from_secs(20))
}

async fn locked(lock: &Lock) -> LockGuard {
    lock.acquire().await.unwrap().granted().unwrap()
}

async fn waiting(tidelock: &Tidelock) -> usize {
    let places = RecordQuery::prefix("~claim-place/lock/report/2026/");
    tidelock.store().rows(places).all().await.unwrap().len()
}

/// CLAIM-10.
async fn one_caller_holds_the_lock_and_others_learn_who(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let here = tidelock.claims().by("here").lock("report").of("2026");
    let guard = locked(&here).await;
    let there = report(&stage.tidelock().await).retry(Retry::never());
    let busy = there.acquire().await.unwrap().granted().unwrap_err();
    assert_eq!((busy.by.as_str(), busy.since), ("here", Some(guard.since())));
    assert!(busy.until > busy.since && busy.to_string().contains("lock/report/2026"), "{busy}");
    let first = guard.fence();
    guard.release().await.unwrap();
    let second = locked(&there).await;
    assert!(second.fence() > first);
}

/// CLAIM-10: on a return and on a panic alike.
async fn a_dropped_guard_releases_the_lock(stage: TestStore) {
    let lock = report(&stage.tidelock().await);
    drop(locked(&lock).await);
    let panicking = lock.clone();
    let panicked = tokio::spawn(async move {
        let _guard = locked(&panicking).await;
        panic!("in the middle of it");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    locked(&lock).await.release().await.unwrap();
}

/// CLAIM-10.
async fn a_commit_under_a_lost_lock_is_refused(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let gate = Pause::over(&tidelock);
    let slow = locked(&report(&Tidelock::over(gate.clone())).lease(INSTANT)).await;
    let record = RecordKey::new("total").unwrap();
    let total = |value: u64| {
        Commit::new().write(RecordWrite::put(
            &record,
            ExpectedRevision::Any,
            RawJson::new(&value).unwrap(),
        ))
    };
    slow.commit(total(1)).await.unwrap();
    gate.stop();
    let second = locked(&report(&tidelock)).await;
    gate.go_on();
    assert!(matches!(slow.commit(total(2)).await, Err(ClaimError::Lost { .. })));
    let mut staged = total(3);
    staged.guards.push(slow.guard());
    assert!(tidelock.store().commit(staged).await.unwrap().conflict().is_some());
    assert!(slow.lost().is_cancelled() && !second.lost().is_cancelled());
    let slot = tidelock.store().get_one(&record).await.unwrap();
    assert_eq!(slot.live().unwrap().value.to::<u64>().unwrap(), 1);
}

/// Schedule 65. CLAIM-10: a waiter that saw an expired lock cannot take it from its new holder.
async fn a_former_holder_cannot_take_the_lock_back(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let gate = Pause::over(&tidelock);
    let slow = locked(&report(&Tidelock::over(gate.clone())).lease(INSTANT)).await;
    gate.stop();
    let second = locked(&report(&tidelock)).await;
    gate.go_on();
    assert!(matches!(slow.release().await, Err(ClaimError::Lost { .. })));
    let third = report(&tidelock).retry(Retry::never());
    assert!(
        matches!(third.acquire().await.unwrap(), Outcome::Refused(_)),
        "the second one's lock survives"
    );
    second
        .commit(
            Commit::new()
                .write(RecordWrite::delete(&RecordKey::new("x").unwrap(), ExpectedRevision::Any)),
        )
        .await
        .unwrap();
    // A dropped guard does not release another holder's lock either.
    let gone = locked(&tidelock.claims().lock("other").lease(INSTANT)).await;
    drop(gone);
    second.release().await.unwrap();
}

/// CLAIM-11.
async fn waiters_are_served_in_fifo_order(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (served, first) = (Observed::default(), locked(&report(&tidelock)).await);
    let mut waiters = Vec::new();
    for nth in 0..6 {
        let (lock, served) = (report(&stage.tidelock().await), served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = locked(&lock).await;
            served.note(format!("{nth}"));
            guard.release().await.unwrap();
        }));
        until("it stands in line", async || waiting(&tidelock).await == nth + 1).await;
    }
    let newcomer = report(&tidelock).retry(Retry::never());
    assert!(newcomer.acquire().await.unwrap().granted().is_err());
    first.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(served.lines(), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(waiting(&tidelock).await, 0, "the queue is empty");
    locked(&newcomer).await.release().await.unwrap();
}

/// CLAIM-11.
async fn a_waiter_that_gives_up_leaves_the_queue(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let first = locked(&report(&tidelock)).await;
    let impatient = report(&tidelock).within(Duration::from_millis(20));
    let busy = impatient.acquire().await.unwrap().granted().unwrap_err();
    assert!(busy.attempts >= 1 && busy.waited >= Duration::from_millis(20), "{busy}");
    assert_eq!(waiting(&tidelock).await, 0);
    let lock = report(&stage.tidelock().await);
    let dropped = tokio::spawn(async move { locked(&lock).await.release().await });
    until("it stands in line", async || waiting(&tidelock).await == 1).await;
    dropped.abort();
    let behind = report(&stage.tidelock().await);
    let behind = tokio::spawn(async move { locked(&behind).await.release().await.unwrap() });
    first.release().await.unwrap();
    behind.await.unwrap();
}

/// CLAIM-10, CLAIM-11: mutual exclusion, no lost update, no starvation.
async fn twenty_at_once_take_turns(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let inside = Observed::default();
    let turns = (0..20).map(|nth| {
        let (lock, inside) = (report(&tidelock), inside.clone());
        tokio::spawn(async move {
            let guard = locked(&lock).await;
            inside.note(format!("in {nth}"));
            tokio::task::yield_now().await;
            inside.note(format!("out {nth}"));
            guard.release().await.unwrap();
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        turn.await.unwrap();
    }
    let lines = inside.lines();
    assert_eq!(lines.len(), 40);
    for pair in lines.chunks(2) {
        assert_eq!(pair[0].replace("in ", "out "), pair[1], "{lines:?}");
    }
}

/// CLAIM-7.
async fn a_lock_survives_lost_replies(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let deaf = report(&LostReplies::over(&tidelock));
    for _ in 0..3 {
        locked(&deaf).await.release().await.unwrap();
    }
    locked(&report(&tidelock)).await.release().await.unwrap();
}

/// CLAIM-16: operators see the holders.
async fn held_claims_are_listed(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let guard = locked(&report(&tidelock)).await;
    let listed = tidelock.claims().list("lock/").all().await.unwrap();
    let [pending] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((pending.key.as_str(), pending.since), ("lock/report/2026", Some(guard.since())));
    assert!(pending.until > pending.since);
    guard.release().await.unwrap();
    assert!(tidelock.claims().list("").all().await.unwrap().is_empty());
}

/// CLAIM-15: without coordination.
async fn the_last_write_wins_by_name(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let profile = tidelock.claims().register("profile:7");
    assert_eq!(profile.get::<serde_json::Value>().await.unwrap(), None);
    profile.put(&json!("Ada")).await.unwrap();
    stage.tidelock().await.claims().register("profile:7").put(&json!("Grace")).await.unwrap();
    assert_eq!(profile.get().await.unwrap(), Some(json!("Grace")));
    let with = Commit::new().write(profile.part(&json!("Mary")).unwrap());
    tidelock.store().commit(with).await.unwrap().committed().unwrap();
    assert_eq!(profile.get().await.unwrap(), Some(json!("Mary")));
}

on_every_store!(
    one_caller_holds_the_lock_and_others_learn_who,
    a_dropped_guard_releases_the_lock,
    a_commit_under_a_lost_lock_is_refused,
    a_former_holder_cannot_take_the_lock_back,
    waiters_are_served_in_fifo_order,
    a_waiter_that_gives_up_leaves_the_queue,
    twenty_at_once_take_turns,
    a_lock_survives_lost_replies,
    held_claims_are_listed,
    the_last_write_wins_by_name,
);
