//! Responses that are recorded in one commit with their effects.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use serde_json::json;
use tidelock::claims::ClaimError;
use tidelock::prelude::*;
use tidelock::store::{Commit, NewEvent, StoreExt, StreamName};
use tidelock_test_stage::{DyingStore, TestStore, on_every_store};
use tidelock_tower::{CompleteError, IdempotencyKey};

use crate::client::{ask, ask_until_answered, pay};
use crate::till::{INSTANT, keys};

fn stream() -> StreamName {
    StreamName::new("payments").unwrap()
}

fn paid(amount: &str, expected: ExpectedVersion) -> Commit {
    let event = NewEvent::of("paid", &json!({ "amount": amount })).unwrap();
    Commit::new().append(&stream(), expected, [event])
}

async fn payments(tidelock: &Tidelock) -> usize {
    tidelock.store().read_whole_stream(&stream()).await.unwrap().len()
}

/// The payment and its response, in one commit.
async fn in_one_commit(claimed: IdempotencyKey, amount: String) -> Response {
    let receipt = (StatusCode::CREATED, format!("paid {amount}")).into_response();
    match claimed.complete_with(receipt, paid(&amount, ExpectedVersion::Any)).await {
        Ok(response) => response.into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

/// The payment and its response, in a commit that the handler makes itself.
async fn in_a_commit_of_its_own(
    State(tidelock): State<Tidelock>,
    claimed: IdempotencyKey,
    amount: String,
) -> Response {
    let receipt = (StatusCode::CREATED, format!("paid {amount}")).into_response();
    let (write, response) = claimed.completion(receipt).await.unwrap();
    let commit = paid(&amount, ExpectedVersion::Any).write(write);
    match tidelock.store().commit(commit).await {
        Ok(outcome) => outcome.committed().map_or_else(refused, |_| response.into_response()),
        Err(error) => refused(error),
    }
}

fn refused(reason: impl std::fmt::Display) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, reason.to_string()).into_response()
}

fn app(tidelock: &Tidelock) -> Router {
    Router::new().route("/pay", post(in_one_commit).layer(keys(tidelock).lease(INSTANT)))
}

fn own_app(tidelock: &Tidelock) -> Router {
    let route = post(in_a_commit_of_its_own).layer(keys(tidelock).lease(INSTANT));
    Router::new().route("/pay", route).with_state(tidelock.clone())
}

/// CLAIM-54. Wherever a process dies, there is one payment in the end, and its response.
async fn wherever_a_process_dies_there_is_one_effect(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for (nth, make) in [app as fn(&Tidelock) -> Router, own_app].into_iter().enumerate() {
        for calls in 0..5 {
            for last_words in [false, true] {
                let before = payments(&tidelock).await;
                let key = format!("k-{nth}-{calls}-{last_words}");
                let mortal = DyingStore::over(tidelock.store().clone(), calls, last_words);
                ask(&make(&Tidelock::over(mortal)), pay(&key, "7")).await;
                let answer = ask_until_answered(&make(&tidelock), &key, "7").await;
                assert_eq!(answer.told(), (201, "paid 7"), "{key}");
                assert!(ask(&make(&tidelock), pay(&key, "7")).await.is_replay());
                assert_eq!(payments(&tidelock).await, before + 1, "{key}");
            }
        }
    }
}

/// CLAIM-54. A refused commit records neither, and the claim is still held: the handler decides
/// again.
async fn a_refused_commit_records_nothing(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let handler = async |claimed: IdempotencyKey| {
        let wrong = claimed
            .complete_with("wrong".into_response(), paid("7", ExpectedVersion::Exists))
            .await;
        let Err(CompleteError::Claim(ClaimError::Refused { .. })) = wrong else {
            panic!("{wrong:?}")
        };
        claimed
            .complete_with("right".into_response(), paid("7", ExpectedVersion::NoStream))
            .await
            .unwrap()
    };
    let app = Router::new().route("/pay", post(handler).layer(keys(&tidelock)));
    assert_eq!(ask(&app, pay("k", "")).await.told(), (200, "right"));
    assert_eq!(ask(&app, pay("k", "")).await.told(), (200, "right"));
    assert_eq!(payments(&tidelock).await, 1);
}

/// CLAIM-54. A recorded response counts, whatever happens to the handler.
async fn a_response_recorded_by_the_handler_counts(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let handler = async |claimed: IdempotencyKey| {
        claimed
            .complete_with("done".into_response(), paid("7", ExpectedVersion::Any))
            .await
            .unwrap();
        StatusCode::INTERNAL_SERVER_ERROR
    };
    let app = Router::new().route("/pay", post(handler).layer(keys(&tidelock)));
    assert_eq!(ask(&app, pay("k", "")).await.status, 500);
    assert_eq!(ask(&app, pay("k", "")).await.told(), (200, "done"));
    assert_eq!(payments(&tidelock).await, 1);
}

/// CLAIM-54. A claim ends with its handler.
async fn a_claim_ends_with_its_handler(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (taken_out, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let handler = async move |claimed: IdempotencyKey| {
        taken_out.send(claimed).unwrap();
        "done"
    };
    let app = Router::new().route("/pay", post(handler).layer(keys(&tidelock)));
    ask(&app, pay("k", "")).await;
    let claimed = taken.recv().await.unwrap();
    assert_eq!(claimed.key(), "idempotency/http::k");
    let late = claimed.complete_with("late".into_response(), paid("7", ExpectedVersion::Any)).await;
    assert!(matches!(late, Err(CompleteError::Over { .. })), "{late:?}");
    let guarded = Commit { guards: vec![claimed.guard()], ..paid("7", ExpectedVersion::Any) };
    assert!(tidelock.store().commit(guarded).await.unwrap().conflict().is_some());
    assert_eq!(payments(&tidelock).await, 0);
}

on_every_store!(
    wherever_a_process_dies_there_is_one_effect,
    a_refused_commit_records_nothing,
    a_response_recorded_by_the_handler_counts,
    a_claim_ends_with_its_handler,
);
