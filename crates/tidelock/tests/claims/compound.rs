//! Compound claims: all of them, or none.

use std::time::Duration;

use serde_json::json;
use tidelock::claims::ClaimError;
use tidelock::claims::Claims;
use tidelock::claims::{ClaimState, Compound, CompoundGuard, Refusal, RefusalReason, Refusals};
use tidelock::prelude::*;
use tidelock::store::{Commit, NewEvent, RecordKey, Slot, StreamName};
use tidelock_test_stage::{Observed, PATIENCE, Pause, TestStore, on_every_store, until};

/// Expires immediately.
const INSTANT: Duration = Duration::from_millis(5);

fn award(claims: &Claims) -> Compound {
    claims
        .claim_all()
        .idempotency(&claims.idempotency("award:1").fingerprint(&json!(7)))
        .singleton(&claims.singleton("prayer").of("child-7"))
        .lock(&claims.lock("child-7"))
        .quota(&claims.quota("points", 10).of("child-7"), 6)
}

async fn won(compound: &Compound) -> CompoundGuard {
    compound.claim().await.unwrap().granted().unwrap()
}

async fn refused(compound: &Compound) -> Refusals {
    match compound.claim().await.unwrap() {
        Outcome::Refused(refusals) => refusals,
        Outcome::Granted(all) => panic!("{all:?}"),
    }
}

async fn pending(tidelock: &Tidelock) -> Vec<String> {
    let claims = tidelock.claims().list("").all().await.unwrap().into_iter();
    claims.filter(|claim| claim.state == ClaimState::Pending).map(|claim| claim.key).collect()
}

/// CLAIM-14.
async fn a_compound_is_acquired_and_completed_in_one_commit_each(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claims = tidelock.claims();
    let stream = StreamName::new("awards").unwrap();
    let mut all = won(&award(&claims)).await;
    assert_eq!(pending(&tidelock).await.len(), 3);
    assert_eq!(
        all.names(),
        "idempotency/award:1, singleton/prayer/child-7, lock/child-7, quota/points/child-7"
    );
    let event = NewEvent::of("awarded", &json!({})).unwrap();
    let with = Commit::new().append(&stream, ExpectedVersion::NoStream, [event]);
    all.complete_with(&json!("awarded"), with).await.unwrap();
    assert!(pending(&tidelock).await.is_empty());
    assert_eq!(claims.quota("points", 10).of("child-7").usage().await.unwrap().used, 6);
    let refusals = refused(&award(&claims)).await;
    let kinds: Vec<_> = refusals.iter().map(|refusal| refusal.key.kind()).collect();
    assert_eq!(
        kinds,
        ["idempotency", "singleton", "quota"],
        "everything that is in the way is named"
    );
    assert!(
        matches!(&refusals[0].why, RefusalReason::Done { result, .. } if result.as_str() == "\"awarded\"")
    );
    locked(&claims).await;
}

async fn locked(claims: &Claims) {
    claims.lock("child-7").acquire().await.unwrap().granted().unwrap().release().await.unwrap();
}

/// CLAIM-14: whichever part is unavailable.
async fn a_compound_with_an_unavailable_part_acquires_nothing(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claims = tidelock.claims();
    let lock = claims.lock("child-7").acquire().await.unwrap().granted().unwrap();
    assert!(matches!(
        refused(&award(&claims)).await[..],
        [Refusal { why: RefusalReason::Held { .. }, .. }]
    ));
    lock.release().await.unwrap();
    let grant = claims.quota("points", 10).of("child-7").take(5).await.unwrap().granted().unwrap();
    let refusals = refused(&award(&claims)).await;
    assert!(
        matches!(&refusals[..], [Refusal { why: RefusalReason::Exceeded(error), .. }] if error.used == 5),
        "{refusals:?}"
    );
    claims.quota("points", 10).of("child-7").refund(&grant).await.unwrap();
    let other = award(&claims).with(
        Commit::new().guard_stream(&StreamName::new("missing").unwrap(), ExpectedVersion::Exists),
    );
    assert!(matches!(other.claim().await, Err(ClaimError::Refused { .. })));
    let mismatch =
        claims.claim_all().idempotency(&claims.idempotency("award:1").fingerprint(&json!(8)));
    assert!(pending(&tidelock).await.is_empty(), "nothing is left of what was not had");
    let all = won(&award(&claims)).await;
    assert!(matches!(
        refused(&mismatch).await[..],
        [Refusal { why: RefusalReason::Mismatch(_), .. }]
    ));
    all.release().await.unwrap();
    assert!(pending(&tidelock).await.is_empty());
    assert_eq!(
        claims.quota("points", 10).of("child-7").usage().await.unwrap().used,
        0,
        "all of it is undone"
    );
    won(&award(&claims)).await.release().await.unwrap();
}

/// Schedule 66. CLAIM-14.
async fn compounds_in_opposite_orders_do_not_deadlock(stage: TestStore) {
    let turns = Observed::default();
    let callers: Vec<_> = [("a", "b"), ("b", "a")]
        .into_iter()
        .map(|(one, other)| {
            let (turns, tidelock) = (turns.clone(), stage.tidelock());
            async move {
                let claims = tidelock.await.claims();
                let polls = Backoff::linear(INSTANT, Duration::from_secs(1)).with_jitter(0.9);
                let long = Retry::default().backoff(polls).within(PATIENCE);
                let both = claims
                    .claim_all()
                    .lock(&claims.lock(one))
                    .lock(&claims.lock(other))
                    .retry(long);
                for _ in 0..25 {
                    let mut all = won(&both).await;
                    turns.note(one);
                    all.complete(&json!(null)).await.unwrap();
                }
            }
        })
        .collect();
    futures_util::future::join_all(callers).await;
    assert_eq!(turns.count(), 50);
}

/// Schedule 68. CLAIM-14: when one part is lost, none is completed, released or renewed.
async fn a_compound_ends_as_a_whole_or_not_at_all(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let gate = Pause::over(&tidelock);
    let claims = Tidelock::over(gate.clone()).claims();
    let both =
        claims.claim_all().lock(&claims.lock("kept")).lock(&claims.lock("lost")).lease(INSTANT);
    let mut both = won(&both).await;
    let kept = ["~claim/lock/kept", "~claim/lock/kept/"].map(|key| RecordKey::new(key).unwrap());
    let revisions = async || {
        let slots = tidelock.store().get(&kept).await.unwrap();
        slots.iter().map(Slot::revision).collect::<Vec<_>>()
    };
    gate.stop();
    let thief =
        tidelock.claims().lock("lost").within(PATIENCE).acquire().await.unwrap().granted().unwrap();
    // Commits in flight when the gate was shut landed before the lease expired.
    let before = revisions().await;
    gate.go_on();
    until("the loss is noticed", async || both.lost().is_cancelled()).await;
    assert_eq!(revisions().await, before, "the other one was not renewed without it");
    assert!(matches!(both.complete(&json!(null)).await, Err(ClaimError::Lost { .. })));
    assert!(matches!(both.release().await, Err(ClaimError::Lost { .. })));
    assert_eq!(revisions().await, before, "nor given back");
    thief.release().await.unwrap();
}

/// CLAIM-14.
async fn locks_that_are_dropped_together_are_given_back_together(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let both = claims.claim_all().lock(&claims.lock("a")).lock(&claims.lock("b"));
    drop(won(&both).await);
    let again = both.clone().within(PATIENCE);
    won(&again).await.release().await.unwrap();
    let error = claims.claim_all().claim().await.unwrap_err();
    assert!(error.to_string().contains("a compound of nothing"), "{error}");
}

on_every_store!(
    a_compound_is_acquired_and_completed_in_one_commit_each,
    a_compound_with_an_unavailable_part_acquires_nothing,
    compounds_in_opposite_orders_do_not_deadlock,
    a_compound_ends_as_a_whole_or_not_at_all,
    locks_that_are_dropped_together_are_given_back_together,
);
