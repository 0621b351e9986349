//! Responses that cannot be recorded: streams, and oversized ones.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use tidelock_test_stage::{Observed, TestStore, on_every_store};
use tidelock_tower::{IdempotencyLayer, OnFailure, Unrecorded};
use tower::ServiceExt;

use crate::client::{Reply, ask, ask_until_answered, pay};
use crate::till::{app_of, keys};

fn flowing(_: usize) -> Body {
    let pieces = ["1, ", "2, ", "3"]
        .map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes())));
    Body::from_stream(stream::iter(pieces))
}

/// Sends twice; returns both responses, and how often the handler ran.
async fn twice(
    layer: IdempotencyLayer,
    key: &str,
    handler: fn(usize) -> Body,
) -> (Reply, Reply, usize) {
    let runs = Observed::default();
    let app = app_of(&runs, layer, handler);
    let (first, again) = (ask(&app, pay(key, "")).await, ask(&app, pay(key, "")).await);
    (first, again, runs.count())
}

/// CLAIM-51.
async fn a_stream_goes_to_the_first_client_only(stage: TestStore) {
    let (first, again, runs) = twice(keys(&stage.tidelock().await), "k", flowing).await;
    assert_eq!(
        (first.told(), again.problem()),
        ((200, "1, 2, 3"), (410, "response-not-kept".into()))
    );
    assert_eq!(runs, 1);
}

/// CLAIM-51.
async fn a_stream_is_repeated_for_every_client_on_request(stage: TestStore) {
    let layer = keys(&stage.tidelock().await).unrecorded(Unrecorded::PassAlways);
    let (first, again, runs) = twice(layer, "k", flowing).await;
    assert_eq!((first.told(), again.told(), runs), ((200, "1, 2, 3"), (200, "1, 2, 3"), 2));
}

/// CLAIM-51.
async fn a_stream_is_refused_on_request(stage: TestStore) {
    let layer = keys(&stage.tidelock().await).unrecorded(Unrecorded::Refuse);
    let (first, again, runs) = twice(layer, "k", flowing).await;
    let refused = (500, "response-refused".to_owned());
    assert_eq!((first.problem(), again.problem(), runs), (refused.clone(), refused, 1));
}

/// CLAIM-51. Too large by the route's limit, or by the store's.
async fn an_oversized_response_is_treated_like_a_stream(stage: TestStore) {
    let layer = keys(&stage.tidelock().await);
    let small = layer.clone().max_response_bytes(3);
    let (first, again, runs) = twice(small, "a", |_| Body::from("1234")).await;
    assert_eq!((first.told(), again.status, runs), ((200, "1234"), 410, 1));
    // Each of these takes six characters in JSON.
    let (first, again, runs) =
        twice(layer.clone(), "b", |_| Body::from("\u{1}".repeat(400_000))).await;
    assert_eq!((first.status, first.body.len(), again.status, runs), (200, 400_000, 410, 1));
    let (first, again, runs) = twice(layer, "c", |_| Body::from("x".repeat(500_000))).await;
    assert_eq!(
        (first.body.len(), again.body.len(), runs),
        (500_000, 500_000, 1),
        "this is not too large"
    );
}

/// CLAIM-50. A response whose body fails is a failure of the handler.
async fn a_failing_response_body_frees_the_key(stage: TestStore) {
    let layer = keys(&stage.tidelock().await);
    let runs = Observed::default();
    let app = app_of(&runs, layer, |nth| match nth {
        1 => Body::new(BreaksOff),
        _ => Body::from("whole"),
    });
    ask(&app, pay("k", "")).await.refused(500, "handler-failed");
    assert_eq!(ask(&app, pay("k", "")).await.told(), (200, "whole"));
}

/// Part of a stream, and then an error.
fn breaking_off(nth: usize) -> Body {
    match nth {
        1 => Body::from_stream(stream::iter([
            Ok(Bytes::from_static(b"1, ")),
            Err(std::io::Error::other("the disk is gone")),
        ])),
        _ => Body::from("whole"),
    }
}

/// CLAIM-50. A stream that fails is a failure of the handler, too, and not a complete response.
async fn a_failing_stream_frees_the_key_or_is_recorded(stage: TestStore) {
    let layer = keys(&stage.tidelock().await);
    let asked = async |app: &Router, key: &str| {
        let response = app.clone().oneshot(pay(key, "")).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err(), "it broke off");
    };
    let app = app_of(&Observed::default(), layer.clone(), breaking_off);
    asked(&app, "a").await;
    assert_eq!(ask(&app, pay("a", "")).await.told(), (200, "whole"));
    let app = app_of(&Observed::default(), layer.on_failure(OnFailure::Remember), breaking_off);
    asked(&app, "b").await;
    let again = ask(&app, pay("b", "")).await;
    assert_eq!((again.problem(), again.is_replay()), ((500, "handler-failed".into()), true));
}

/// CLAIM-51. CLAIM-53. During a stream its key is held; a client that disconnects in the middle has
/// had its response.
async fn the_key_of_a_stream_is_held_until_its_end(stage: TestStore) {
    let runs = Observed::default();
    let app = app_of(&runs, keys(&stage.tidelock().await), flowing);
    let mut body = app.clone().oneshot(pay("k", "")).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "1, ");
    assert!(ask(&app, pay("k", "")).await.is_in_progress());
    drop(body);
    let again = ask_until_answered(&app, "k", "").await;
    assert_eq!((again.problem(), runs.count()), ((410, "response-not-kept".into()), 1));
}

/// A body with a known length that fails.
struct BreaksOff;

impl http_body::Body for BreaksOff {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        std::task::Poll::Ready(Some(Err(std::io::Error::other("the disk is gone"))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(5)
    }
}

on_every_store!(
    a_stream_goes_to_the_first_client_only,
    a_stream_is_repeated_for_every_client_on_request,
    a_stream_is_refused_on_request,
    an_oversized_response_is_treated_like_a_stream,
    a_failing_response_body_frees_the_key,
    a_failing_stream_frees_the_key_or_is_recorded,
    the_key_of_a_stream_is_held_until_its_end,
);
