//! One key, one effect: retries get the first result.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::ClaimError;
use tidelock::claims::{
    ClaimGuard, FingerprintMismatch, Idempotency, InProgress, OnFailure, OnceError,
};
use tidelock::prelude::*;
use tidelock::store::{Commit, NewEvent, RecordKey, RecordQuery, StoreExt, StreamName};
use tidelock_test_stage::{
    Observed, PATIENCE, Pause, Running, TestStore, brisk, in_memory, note, on_every_store, until,
};

use crate::lost_replies::LostReplies;

/// Short enough to wait for, and long enough not to expire on a slow machine.
const BRIEF: Duration = Duration::from_secs(2);
/// Expires immediately.
const INSTANT: Duration = Duration::from_millis(5);

fn pay(tidelock: &Tidelock) -> Idempotency {
    tidelock.claims().idempotency("pay:42").fingerprint(&json!({ "amount": 7 }))
}

async fn won(claim: &Idempotency) -> ClaimGuard<Value> {
    match claim.claim().await.unwrap() {
        IdempotencyClaim::Won(won) => won,
        other => panic!("{other:?}"),
    }
}

async fn held(claim: &Idempotency) -> InProgress<Value> {
    match claim.claim().await.unwrap() {
        IdempotencyClaim::Held(holder) => holder,
        other => panic!("{other:?}"),
    }
}

async fn done(claim: &Idempotency) -> Value {
    match claim.claim().await.unwrap() {
        IdempotencyClaim::Done(value) => value,
        other => panic!("{other:?}"),
    }
}

async fn mismatch(claim: &Idempotency) -> FingerprintMismatch {
    match claim.claim::<Value>().await.unwrap() {
        IdempotencyClaim::Mismatch(first) => first,
        other => panic!("{other:?}"),
    }
}

/// Waits until the holder's lease has expired.
async fn takes_over(claim: &Idempotency) -> ClaimGuard<Value> {
    let taken = std::sync::Mutex::new(None);
    until("the claim can be taken over", async || {
        if let IdempotencyClaim::Won(won) = claim.claim().await.unwrap() {
            *taken.lock().unwrap() = Some(won);
        }
        taken.lock().unwrap().is_some()
    })
    .await;
    taken.into_inner().unwrap().unwrap()
}

/// CLAIM-1.
async fn the_first_claimant_wins_and_others_get_its_result(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let here = here.claims().by("here");
    let claim = here.idempotency("pay:42").fingerprint(&json!({ "amount": 7 }));
    assert_eq!(claim.key().as_str(), "idempotency/pay:42");
    let first = won(&claim).await;
    let holder = held(&pay(&there)).await;
    assert_eq!((holder.by().as_str(), holder.since()), ("here", Some(first.since())));
    assert!(holder.until() > holder.since());
    assert_eq!(first.complete(&json!("receipt 1")).await.unwrap(), "receipt 1");
    assert_eq!(holder.wait(PATIENCE).await.unwrap(), "receipt 1");
    assert_eq!(
        (done(&claim).await, done(&pay(&there)).await),
        (json!("receipt 1"), json!("receipt 1"))
    );
}

/// CLAIM-1. A key that was released and claimed for another request has no result for earlier
/// waiters.
async fn a_waiter_does_not_get_another_requests_result(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let first = won(&pay(&here)).await;
    let holder = held(&pay(&there)).await;
    first.release().await.unwrap();
    let other = here.claims().idempotency("pay:42").fingerprint(&json!({ "amount": 9 }));
    won(&other).await.complete(&json!("receipt of 9")).await.unwrap();
    assert!(matches!(holder.wait(PATIENCE).await, Err(ClaimError::Free { .. })));
    assert_eq!(mismatch(&pay(&there)).await.key.as_str(), "idempotency/pay:42");
}

/// Schedule 94. CLAIM-1.
async fn ten_callers_with_one_key_make_one_effect_and_get_ten_equal_answers(stage: TestStore) {
    let effects = Observed::default();
    let callers = (0..10).map(|caller| {
        let (tidelock, effects) = (stage.tidelock(), effects.clone());
        async move {
            let work = async || {
                effects.note(caller.to_string());
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok::<_, String>(json!({ "receipt": effects.count(), "by": caller }))
            };
            pay(&tidelock.await).once(PATIENCE, work).await.unwrap()
        }
    });
    let answers = futures_util::future::join_all(callers).await;
    assert_eq!(effects.count(), 1, "{:?}", effects.lines());
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(answers[0]["by"].to_string(), effects.lines()[0]);
}

/// Schedule 60. CLAIM-2: while the work is in progress, and after.
async fn the_same_key_with_another_request_is_a_mismatch(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let other = tidelock.claims().idempotency("pay:42").fingerprint(&json!({ "amount": 8 }));
    let first = won(&pay(&tidelock)).await;
    assert_eq!(mismatch(&other).await.at, Some(first.since()));
    first.complete(&json!("paid")).await.unwrap();
    let error = mismatch(&other).await;
    assert_eq!(error.at, Some(first.since()));
    assert!(error.to_string().contains("\"idempotency/pay:42\""), "{error}");
    let silent = tidelock.claims().idempotency("pay:42");
    assert_eq!(done(&silent).await, "paid", "without a fingerprint there is no comparison");
    assert!(matches!(
        other.once(PATIENCE, async || Ok::<Value, String>(json!("twice"))).await,
        Err(OnceError::Mismatch(_))
    ));
}

/// CLAIM-2. The fingerprint of a dead claimant does not bind the next one.
async fn the_fingerprint_of_a_dead_claimant_is_dropped(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let first = won(&pay(&tidelock).lease(BRIEF)).await;
    let other = tidelock.claims().idempotency("pay:42").fingerprint(&json!({ "amount": 8 }));
    drop(first);
    let second = takes_over(&other).await;
    mismatch(&pay(&tidelock)).await;
    second.complete(&json!("paid")).await.unwrap();
    mismatch(&pay(&tidelock)).await;
}

/// Schedule 59. CLAIM-3: one result is stored, the newest claimant's.
async fn a_slow_claimant_that_was_replaced_completes_nothing(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let gate = Pause::over(&tidelock);
    let slow = won(&pay(&Tidelock::over(gate.clone())).lease(INSTANT)).await;
    gate.stop();
    let second = takes_over(&pay(&tidelock)).await;
    assert!(second.fence() > slow.fence());
    gate.go_on();
    let stream = StreamName::new("payments").unwrap();
    let event = NewEvent::of("paid", &json!({})).unwrap();
    let with = Commit::new().append(&stream, ExpectedVersion::Any, [event]);
    let refusals = [
        slow.complete(&json!("slow")).await.map(drop),
        slow.complete_with(&json!("slow"), with).await.map(drop),
    ];
    for refused in refusals {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, ClaimError::Lost { fence, .. } if fence == slow.fence()),
            "{error}"
        );
    }
    assert!(slow.lost().is_cancelled());
    assert!(
        matches!(slow.release().await, Err(ClaimError::Lost { .. })),
        "only the holder gives it back"
    );
    assert!(tidelock.store().read_whole_stream(&stream).await.unwrap().is_empty());
    second.complete(&json!("second")).await.unwrap();
    assert_eq!(done(&pay(&tidelock)).await, "second");
}

/// CLAIM-3.
async fn a_claimant_that_was_slow_and_not_replaced_completes(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let gate = Pause::over(&tidelock);
    let claim = pay(&Tidelock::over(gate.clone())).lease(INSTANT);
    let slow = won(&claim).await;
    gate.stop();
    let lease = RecordKey::new("~claim/idempotency/pay:42/").unwrap();
    let over = async || tidelock.store().get_one(&lease).await.unwrap().live().is_none();
    until("the lease has run out", over).await;
    gate.go_on();
    assert_eq!(slow.complete(&json!("late")).await.unwrap(), "late");
    assert_eq!(done(&pay(&tidelock)).await, "late");
}

/// CLAIM-3.
async fn a_claim_is_kept_for_as_long_as_the_work_takes(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claim = pay(&tidelock).lease(BRIEF * 3);
    let first = won(&claim).await;
    let begun = held(&claim).await;
    until("the lease was renewed", async || {
        let holder = held(&claim).await;
        assert_eq!(holder.since(), Some(first.since()), "it is the same claim");
        holder.until() > begun.until()
    })
    .await;
    assert!(!first.lost().is_cancelled());
    first.complete(&json!("long")).await.unwrap();
}

/// Schedule 61. CLAIM-4: the TTL of a result begins with the result.
async fn a_ttl_shorter_than_the_work_makes_no_second_effect(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claim = pay(&tidelock).ttl(INSTANT);
    let first = won(&claim).await;
    let end = first.since().plus(INSTANT * 4);
    until("the result's life would be over", async || {
        held(&claim).await;
        tidelock.store().now().await.unwrap() > end
    })
    .await;
    first.complete(&json!("paid")).await.unwrap();
}

/// CLAIM-4.
async fn a_result_expires_after_its_ttl(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claim = pay(&tidelock).ttl(INSTANT);
    let first = won(&claim).await;
    first.complete(&json!("paid")).await.unwrap();
    let again = takes_over(&claim).await;
    assert!(again.fence() > first.fence(), "no fence is given out twice");
    again.complete(&json!("paid again")).await.unwrap();
}

/// CLAIM-1.
#[test]
fn a_result_is_kept_for_thirty_days_unless_the_claim_says_otherwise() {
    in_memory(async |stage: TestStore| {
        let tidelock = stage.tidelock().await;
        let (usual, kept) = (pay(&tidelock), tidelock.claims().idempotency("kept").without_ttl());
        for claim in [&usual, &kept] {
            won(claim).await.complete(&json!("paid")).await.unwrap();
        }
        let days = |count: u64| tokio::time::sleep(Duration::from_secs(count * 24 * 3600));
        days(29).await;
        for claim in [&usual, &kept] {
            assert!(matches!(claim.claim::<Value>().await.unwrap(), IdempotencyClaim::Done(_)));
        }
        days(1).await;
        drop(won(&usual).await);
        assert!(matches!(kept.claim::<Value>().await.unwrap(), IdempotencyClaim::Done(_)));
    });
}

/// CLAIM-5.
async fn a_failure_frees_the_key_or_is_recorded(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    won(&pay(&tidelock)).await.fail("no network").await.unwrap();
    won(&pay(&tidelock)).await.release().await.unwrap();
    let strict = pay(&tidelock).on_failure(OnFailure::Remember);
    won(&strict).await.fail("card declined").await.unwrap();
    let error = pay(&tidelock).claim::<Value>().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"claim "idempotency/pay:42": it was done before and failed: card declined"#
    );
}

/// CLAIM-5.
async fn a_failed_worker_gets_the_error_and_the_next_claimant_works(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let error =
        pay(&tidelock).once(PATIENCE, async || Err::<Value, _>("no network")).await.unwrap_err();
    assert!(matches!(error, OnceError::Work("no network")), "{error}");
    let value =
        pay(&tidelock).once(PATIENCE, async || Ok::<_, String>(json!("paid"))).await.unwrap();
    assert_eq!(value, "paid");
}

/// CLAIM-5: the progress of the work is unknown, so no other claimant starts at once.
async fn a_dropped_claim_is_free_after_its_lease(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claim = pay(&tidelock).lease(BRIEF);
    let dropped = won(&claim).await;
    let (fence, since) = (dropped.fence(), dropped.since());
    drop(dropped);
    let holder = held(&claim).await;
    assert!(matches!(holder.wait(PATIENCE).await, Err(ClaimError::Free { .. })), "the wait ends");
    let next = takes_over(&claim).await;
    assert!(next.fence() > fence && next.since() >= since.plus(BRIEF));
}

/// CLAIM-1.
async fn a_wait_ends_with_its_deadline(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let first = won(&pay(&tidelock)).await;
    let error = held(&pay(&tidelock)).await.wait(INSTANT).await.unwrap_err();
    assert!(
        matches!(&error, ClaimError::StillHeld { waited, .. } if *waited >= INSTANT),
        "{error}"
    );
    first.complete(&json!("paid")).await.unwrap();
}

/// CLAIM-6.
async fn a_result_lands_with_the_events_that_it_stands_for_or_neither_does(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let stream = StreamName::new("payments").unwrap();
    let paid = |expected| {
        let event = NewEvent::of("paid", &json!({ "amount": 7 })).unwrap();
        Commit::new().append(&stream, expected, [event])
    };
    let claim = pay(&tidelock);
    let first = won(&claim).await;
    note(&tidelock, "payments", "a note").await;
    let error =
        first.complete_with(&json!("paid"), paid(ExpectedVersion::NoStream)).await.unwrap_err();
    assert!(matches!(error, ClaimError::Refused { .. }), "{error}");
    held(&claim).await;
    let landed = first.complete_with(&json!("paid"), paid(ExpectedVersion::Any)).await.unwrap();
    assert_eq!(landed.appends[0].version.get(), 2);
    assert_eq!(done(&claim).await, "paid");
}

/// CLAIM-6.
async fn a_result_lands_with_the_ack_of_a_reaction(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    note(&tidelock, "orders", "42").await;
    let handler = |_: tidelock::store::StoredEvent, ctx: ReactionCtx| async move {
        let claim = pay(ctx.tidelock());
        if let IdempotencyClaim::Won(won) =
            claim.claim::<Value>().await.map_err(|e| HandlerError::again(e.to_string()))?
        {
            ctx.complete(&won, &json!("paid"))?;
        }
        Ok(())
    };
    let app = tidelock.app().reaction("pay", on_any(), handler).worker(brisk("here"));
    let running = Running::start(app);
    let record = RecordKey::new("~claim/idempotency/pay:42").unwrap();
    until("the claim is completed", async || {
        let slot = tidelock.store().get_one(&record).await.unwrap();
        slot.live().is_some_and(|claim| claim.value.as_str().contains("paid"))
    })
    .await;
    assert_eq!(done(&pay(&tidelock)).await, "paid");
    running.stop().await;
}

/// CLAIM-7.
async fn a_lost_reply_is_recovered(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let deaf = LostReplies::over(&tidelock);
    let first = won(&pay(&deaf)).await;
    held(&pay(&tidelock)).await;
    assert_eq!(first.complete(&json!("paid")).await.unwrap(), "paid");
    assert_eq!(done(&pay(&tidelock)).await, "paid");
    let other = deaf.claims().idempotency("pay:43");
    won(&other).await.release().await.unwrap();
    let third = won(&other).await;
    let landed = third.complete_with(&json!(3), Commit::new()).await.unwrap();
    assert_eq!((landed.writes.len(), done(&other).await), (1, json!(3)));
}

/// CLAIM-8.
async fn a_key_that_names_nothing_is_refused(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    for (key, complaint) in
        [("", "is empty"), ("a\nb", "control character"), (&"k".repeat(600), "limit is 512")]
    {
        let error = claims.idempotency(key).claim::<Value>().await.unwrap_err();
        assert!(
            error.to_string().contains(complaint) && error.to_string().contains("claim"),
            "{error}"
        );
    }
    let first = won(&claims.idempotency("a/b")).await;
    assert_eq!(first.key().as_str(), "idempotency/a%2Fb");
    first.complete(&json!(null)).await.unwrap();
    assert_eq!(done(&claims.idempotency("a/b")).await, json!(null));
    let error = claims.idempotency("a/b").claim::<u64>().await.unwrap_err();
    assert!(matches!(error, ClaimError::Unreadable { .. }), "{error}");
}

/// CLAIM-8: an invalid name of the claimant is an error of every claim.
async fn a_claimant_without_a_name_claims_nothing(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claims = tidelock.claims().by("");
    let (quota, lock) = (claims.quota("points", 1), claims.lock("door"));
    for error in [
        claims.idempotency("k").claim::<Value>().await.map(drop).unwrap_err(),
        claims.singleton("s").take(&1).await.map(drop).unwrap_err(),
        claims.singleton("s").part(&1).await.map(drop).unwrap_err(),
        quota.take(1).await.map(drop).unwrap_err(),
        lock.acquire().await.map(drop).unwrap_err(),
        claims.claim_all().lock(&lock).claim().await.map(drop).unwrap_err(),
    ] {
        assert_eq!(tidelock::Error::from(error).kind(), tidelock::ErrorKind::Invalid);
    }
    let records = tidelock.store().rows(RecordQuery::prefix("~claim/")).all().await.unwrap();
    assert!(records.is_empty(), "{records:?}");
    won(&claims.by("ada").idempotency("k")).await.release().await.unwrap();
}

on_every_store!(
    a_claimant_without_a_name_claims_nothing,
    a_waiter_does_not_get_another_requests_result,
    the_first_claimant_wins_and_others_get_its_result,
    ten_callers_with_one_key_make_one_effect_and_get_ten_equal_answers,
    the_same_key_with_another_request_is_a_mismatch,
    the_fingerprint_of_a_dead_claimant_is_dropped,
    a_slow_claimant_that_was_replaced_completes_nothing,
    a_claimant_that_was_slow_and_not_replaced_completes,
    a_claim_is_kept_for_as_long_as_the_work_takes,
    a_ttl_shorter_than_the_work_makes_no_second_effect,
    a_result_expires_after_its_ttl,
    a_failure_frees_the_key_or_is_recorded,
    a_failed_worker_gets_the_error_and_the_next_claimant_works,
    a_dropped_claim_is_free_after_its_lease,
    a_wait_ends_with_its_deadline,
    a_result_lands_with_the_events_that_it_stands_for_or_neither_does,
    a_result_lands_with_the_ack_of_a_reaction,
    a_lost_reply_is_recovered,
    a_key_that_names_nothing_is_refused,
);
