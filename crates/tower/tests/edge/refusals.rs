//! Requests that are refused before anything is claimed.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request};
use tidelock::prelude::*;
use tidelock::store::{RecordQuery, StoreExt};
use tidelock_test_stage::{DyingStore, TestStore, on_every_store};

use crate::client::{ask, pay, without_key};
use crate::till::{Till, keys};

/// CLAIM-45.
async fn a_key_that_is_missing_or_malformed_is_refused(stage: TestStore) {
    let till = Till::open();
    let app = till.app(keys(&stage.tidelock().await).required());
    ask(&app, without_key(Method::POST, "7")).await.refused(400, "key-missing");
    let long = "k".repeat(256);
    for key in ["", "\"\"", "a b", "\"a", "\"a\", \"b\"", "a\tb", &long] {
        assert_eq!(
            ask(&app, pay(key, "7")).await.problem(),
            (400, "key-malformed".into()),
            "{key}"
        );
    }
    let mut twice = pay("a", "7");
    twice.headers_mut().append("idempotency-key", "b".parse().unwrap());
    ask(&app, twice).await.refused(400, "key-malformed");
    assert_eq!(till.effects.count(), 0);
    assert_eq!(ask(&app, pay(&"k".repeat(255), "7")).await.status, 201);
}

/// CLAIM-48. The key is unused afterwards.
async fn a_body_that_is_too_large_is_refused_before_anything_is_claimed(stage: TestStore) {
    let till = Till::open();
    let tidelock = stage.tidelock().await;
    let app = till.app(keys(&tidelock).max_request_bytes(8));
    let (known, unknown) = (pay("k", "123456789"), in_pieces("k", &["1234", "56789"]));
    for request in [known, unknown] {
        ask(&app, request).await.refused(413, "body-too-large");
    }
    ask(&app, broken_off("k")).await.refused(400, "body-unreadable");
    let claims = tidelock.store().rows(RecordQuery::prefix("~claim/")).all().await.unwrap();
    assert_eq!((till.effects.count(), claims.len()), (0, 0));
    assert_eq!(
        ask(&app, in_pieces("k", &["12", "", "345678"])).await.told(),
        (201, "payment 1 of 12345678")
    );
    assert!(ask(&app, pay("k", "12345678")).await.is_replay(), "it is the same in one piece");
}

/// CLAIM-49.
async fn nothing_is_done_while_the_store_does_not_answer(stage: TestStore) {
    let till = Till::open();
    let tidelock = stage.tidelock().await;
    let dead = Tidelock::over(DyingStore::over(tidelock.store().clone(), 0, false));
    let reply = ask(&till.app(keys(&dead)), pay("k", "7")).await;
    reply.refused(503, "store-unavailable");
    assert_eq!((till.effects.count(), &reply.headers["retry-after"]), (0, &"1".parse().unwrap()));
    assert_eq!(ask(&till.app(keys(&tidelock)), pay("k", "7")).await.status, 201);
}

/// CLAIM-49. The client gets the response, instead of being told to retry.
async fn a_response_that_could_not_be_recorded_is_returned_all_the_same(stage: TestStore) {
    let till = Till::open();
    let tidelock = stage.tidelock().await;
    let dying = Tidelock::over(DyingStore::over(tidelock.store().clone(), 1, false));
    assert_eq!(ask(&till.app(keys(&dying)), pay("k", "7")).await.told(), (201, "payment 1 of 7"));
    assert_eq!(
        ask(&till.app(keys(&tidelock)), pay("k", "7")).await.status,
        409,
        "until the lease has expired"
    );
}

fn in_pieces(key: &str, pieces: &'static [&'static str]) -> Request<Body> {
    let pieces =
        pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes())));
    pay(key, "").map(|_| Body::from_stream(stream::iter(pieces)))
}

fn broken_off(key: &str) -> Request<Body> {
    let pieces = [Ok(Bytes::from_static(b"12")), Err(std::io::Error::other("the cable is cut"))];
    pay(key, "").map(|_| Body::from_stream(stream::iter(pieces)))
}

on_every_store!(
    a_key_that_is_missing_or_malformed_is_refused,
    a_body_that_is_too_large_is_refused_before_anything_is_claimed,
    nothing_is_done_while_the_store_does_not_answer,
    a_response_that_could_not_be_recorded_is_returned_all_the_same,
);
