//! Claims with an operation id: retried after a lost reply, they take effect once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::{ClaimError, Claims, Handoff, LockGuard, Period, RefundOutcome, Released};
use tidelock::prelude::*;
use tidelock::store::{ManualClock, MemoryStore, StoreErrorKind};
use tidelock_test_stage::{TestStore, on_every_store, until};

use crate::lost_replies::LostReplies;

const MINUTE: Duration = Duration::from_secs(60);
/// Expires immediately.
const INSTANT: Duration = Duration::from_millis(5);

on_every_store!(
    a_retried_lock_keeps_its_fence,
    an_expired_lock_with_waiters_can_be_acquired_again,
    a_retried_claim_keeps_its_key_until_it_has_a_result,
    a_retried_draw_is_charged_once,
    a_reservation_is_made_confirmed_and_given_back_once,
    a_claim_that_ran_out_is_freed_once,
    a_retried_compound_keeps_its_parts,
    lost_replies_change_nothing,
);

async fn asking(stage: &TestStore, id: &str) -> Claims {
    stage.tidelock().await.claims().operation_id(id)
}

async fn lock(claims: &Claims, lease: Duration) -> Option<Handoff> {
    let lock = claims.lock("door").lease(lease).retry(Retry::never());
    lock.acquire().await.unwrap().granted().ok().map(LockGuard::detach)
}

/// CLAIM-21. As long as its lease lasts; afterwards it is free for every claimant.
async fn a_retried_lock_keeps_its_fence(stage: TestStore) {
    let (here, there) = (asking(&stage, "a").await, asking(&stage, "a").await);
    let first = lock(&here, MINUTE).await.unwrap();
    let again = lock(&there, MINUTE).await.unwrap();
    assert_eq!(again, first);
    assert_eq!(lock(&asking(&stage, "b").await, MINUTE).await, None, "no other operation gets it");
    here.lock("door").attach(first.fence).release().await.unwrap();
    let brief = lock(&asking(&stage, "c").await, INSTANT).await.unwrap();
    until("it has run out", async || here.lock("door").holder().await.unwrap().is_none()).await;
    let again = lock(&asking(&stage, "c").await, MINUTE).await.unwrap();
    assert!(again.fence > brief.fence && again.until > brief.until);
    assert_eq!(lock(&asking(&stage, "c").await, MINUTE).await, Some(again));
}

/// CLAIM-21. Waiters that have left leave a mark in the queue for a while.
async fn an_expired_lock_with_waiters_can_be_acquired_again(stage: TestStore) {
    let (ours, theirs) = (asking(&stage, "a").await, asking(&stage, "b").await);
    let mut brief = Duration::from_millis(100);
    let first = loop {
        let first = lock(&ours, brief).await.unwrap();
        match theirs.lock("door").within(brief / 10).acquire().await.unwrap().granted() {
            Err(_busy) => break first,
            // It expired before they had polled: the machine is slow.
            Ok(guard) => guard.release().await.unwrap(),
        };
        brief *= 2;
    };
    until("it has run out", async || ours.lock("door").holder().await.unwrap().is_none()).await;
    let again = lock(&ours, MINUTE).await.unwrap();
    assert!(again.fence > first.fence);
}

/// CLAIM-21.
async fn a_retried_claim_keeps_its_key_until_it_has_a_result(stage: TestStore) {
    let claim = async || {
        let claims = asking(&stage, "a").await;
        claims.idempotency("pay:42").lease(MINUTE).claim::<Value>().await.unwrap()
    };
    let mut fences = Vec::new();
    for _ in 0..2 {
        let IdempotencyClaim::Won(won) = claim().await else { panic!("it is theirs") };
        fences.push(won.detach());
    }
    assert_eq!(fences[0], fences[1]);
    let work = asking(&stage, "b").await.idempotency("pay:42").attach(fences[0].fence);
    work.complete(&json!("paid")).await.unwrap();
    let IdempotencyClaim::Done(result) = claim().await else { panic!("it is done") };
    assert_eq!(result, json!("paid"));
}

/// CLAIM-21.
async fn a_retried_draw_is_charged_once(stage: TestStore) {
    let quota = async |id: &str| asking(&stage, id).await.quota("points", 5);
    let first = quota("a").await.take(3).await.unwrap().granted().unwrap();
    // Others have used up the quota; this operation was granted before.
    quota("b").await.take(2).await.unwrap().granted().unwrap();
    assert_eq!(quota("a").await.take(3).await.unwrap().granted().unwrap(), first);
    assert_eq!(quota("a").await.usage().await.unwrap().used, 5);
    quota("c").await.take(1).await.unwrap().granted().unwrap_err();
    let ClaimError::Store(other) = quota("a").await.take(2).await.unwrap_err() else { panic!() };
    assert_eq!(other.kind(), StoreErrorKind::IdempotencyMismatch, "it is another request: {other}");
    for _ in 0..2 {
        assert_eq!(quota("d").await.refund(&first).await.unwrap(), RefundOutcome::Refunded);
    }
    assert_eq!(quota("e").await.refund(&first).await.unwrap(), RefundOutcome::Already);
    assert_eq!(quota("e").await.usage().await.unwrap().used, 2);
}

/// CLAIM-21.
async fn a_reservation_is_made_confirmed_and_given_back_once(stage: TestStore) {
    let quota = async |id: &str| asking(&stage, id).await.quota("points", 5);
    let first = quota("a").await.reserve(3, MINUTE).await.unwrap().granted().unwrap().token();
    let again = quota("a").await.reserve(3, MINUTE).await.unwrap().granted().unwrap().token();
    assert_eq!(again, first);
    for _ in 0..2 {
        quota("b").await.attach(&first).unwrap().confirm().await.unwrap();
    }
    let over = quota("a").await.reserve(3, MINUTE).await.unwrap_err();
    assert!(matches!(over, ClaimError::Settled { .. }), "{over}");
    let other = quota("c").await.reserve(2, MINUTE).await.unwrap().granted().unwrap().token();
    for _ in 0..2 {
        assert_eq!(
            quota("d").await.attach(&other).unwrap().refund().await.unwrap(),
            RefundOutcome::Refunded
        );
    }
    assert_eq!(quota("e").await.usage().await.unwrap().used, 3);
}

/// CLAIM-21.
async fn a_claim_that_ran_out_is_freed_once(stage: TestStore) {
    let brief = async |id: &str| lock(&asking(&stage, id).await, INSTANT).await.unwrap();
    let free = async |id: &str| asking(&stage, id).await.release_stale("lock/door").await.unwrap();
    let stale = async || {
        until("it has run out", async || !matches!(free("look").await, Released::Held { .. }))
            .await;
    };
    brief("a").await;
    until("it is freed", async || matches!(free("x").await, Released::Free { .. })).await;
    brief("b").await;
    assert!(matches!(free("x").await, Released::Free { .. }), "it was");
    stale().await;
    assert_eq!(free("y").await, Released::Absent, "the second one was freed by a reader");
}

/// CLAIM-21. CLAIM-14.
async fn a_retried_compound_keeps_its_parts(stage: TestStore) {
    let mut had = Vec::new();
    for _ in 0..2 {
        let claims = asking(&stage, "a").await;
        let (door, points) = (claims.lock("door").lease(MINUTE), claims.quota("points", 5));
        let all = claims.claim_all().lock(&door).quota(&points, 3).claim().await.unwrap();
        let Outcome::Granted(all) = all else { panic!("they are theirs") };
        had.push((all.fences().map(|(_, fence)| fence).next(), all.grants().next().cloned()));
        // A dead holder releases nothing.
        std::mem::forget(all);
    }
    assert_eq!(had[0], had[1]);
    assert_eq!(asking(&stage, "b").await.quota("points", 5).usage().await.unwrap().used, 3);
}

/// CLAIM-21. CLAIM-7.
async fn lost_replies_change_nothing(stage: TestStore) {
    let lossy = LostReplies::over(&stage.tidelock().await);
    let claims = lossy.claims().operation_id("a");
    for _ in 0..4 {
        claims.quota("points", 5).take(3).await.unwrap().granted().unwrap();
        let seats = claims.quota("seats", 5).reserve(2, MINUTE).await.unwrap().granted().unwrap();
        assert_eq!(seats.units(), 2);
        lock(&claims, MINUTE).await.unwrap();
        let single = claims.singleton("prayer").take(&7).await.unwrap();
        assert!(matches!(single, Outcome::Granted(())), "{single:?}");
    }
    assert_eq!(claims.quota("points", 5).usage().await.unwrap().used, 3);
    assert_eq!(claims.quota("seats", 5).usage().await.unwrap().used, 2);
}

/// CLAIM-21. A retry on the next day does not take again.
#[tokio::test]
async fn a_period_that_is_over_does_not_make_it_another_request() {
    let clock = ManualClock::at("2026-11-15T23:59:59Z".parse().unwrap());
    let tidelock = Tidelock::over(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let claims = tidelock.claims().operation_id("a");
    let quota = claims.quota("points", 5).per(Period::Day);
    let single = claims.singleton("prayer").per(Period::Day);
    let first = quota.take(5).await.unwrap().granted().unwrap();
    assert!(matches!(single.take(&7).await.unwrap(), Outcome::Granted(())));
    clock.advance(MINUTE);
    assert_eq!(quota.take(5).await.unwrap().granted().unwrap(), first);
    assert_eq!(quota.usage().await.unwrap().used, 0);
    assert!(matches!(single.take(&7).await.unwrap(), Outcome::Granted(())));
    let today = tidelock.claims().operation_id("b").singleton("prayer").per(Period::Day);
    assert!(matches!(today.take(&7).await.unwrap(), Outcome::Granted(())), "it is still to be had");
    let again = single.take(&7).await.unwrap();
    assert!(
        matches!(again, Outcome::Granted(())),
        "today's belongs to another, theirs was yesterday's: {again:?}"
    );
    clock.advance(8 * 24 * 60 * MINUTE);
    assert!(
        quota.take(5).await.unwrap().granted().unwrap() != first,
        "nothing is kept indefinitely"
    );
}

/// CLAIM-21. The retention can be set before or after the operation's id.
#[tokio::test]
async fn the_retention_of_an_operation_can_be_set_in_any_order() {
    let clock = ManualClock::at("2026-11-15T12:00:00Z".parse().unwrap());
    let tidelock = Tidelock::over(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let orders = [
        tidelock.claims().operation_id("late").dedup_window(MINUTE),
        tidelock.claims().dedup_window(MINUTE).operation_id("early"),
    ];
    for claims in orders {
        let quota = claims.quota("points", 9);
        let first = quota.take(1).await.unwrap().granted().unwrap();
        clock.advance(MINUTE - Duration::from_secs(1));
        assert_eq!(quota.take(1).await.unwrap().granted().unwrap(), first);
        clock.advance(Duration::from_secs(1));
        assert_ne!(quota.take(1).await.unwrap().granted().unwrap(), first, "{claims:?}");
    }
}

/// CLAIM-21. An empty id is refused, whatever the operation.
#[tokio::test]
async fn an_operation_with_an_empty_id_is_refused() {
    let tidelock = Tidelock::over(Arc::new(MemoryStore::new()));
    let claims = tidelock.claims().operation_id("");
    let refused = [
        claims.quota("points", 9).take(1).await.map(drop),
        claims.quota("points", 9).reserve(1, MINUTE).await.map(drop),
        claims.lock("door").acquire().await.map(drop),
        claims.idempotency("k").claim::<u32>().await.map(drop),
        claims.singleton("s").take(&1).await.map(drop),
        claims.claim_all().quota(&claims.quota("points", 9), 1).claim().await.map(drop),
        claims.release_stale("lock/door").await.map(drop).map_err(ClaimError::from),
    ];
    for (nth, refused) in refused.into_iter().enumerate() {
        let Err(refused) = refused else { panic!("the one at {nth} was had") };
        assert!(
            refused.to_string().contains("the id of the operation is empty"),
            "{nth}: {refused}"
        );
    }
    assert!(tidelock.claims().quotas("").all().await.unwrap().is_empty());
}
