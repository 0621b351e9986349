//! Handlers that fail never poison their key.

use axum::response::IntoResponse;
use http::StatusCode;
use tidelock_test_stage::{Observed, TestStore, on_every_store};
use tidelock_tower::OnFailure;
use tower::service_fn;
use tower::{Layer, ServiceExt};

use crate::client::{Reply, ask, pay};
use crate::till::{app_of, keys};

/// The first run ends with this status, later ones succeed.
fn first(status: u16) -> impl Fn(usize) -> (StatusCode, String) + Clone + Send + Sync + 'static {
    let status = StatusCode::from_u16(status).unwrap();
    move |nth| (if nth == 1 { status } else { StatusCode::OK }, format!("run {nth}"))
}

/// CLAIM-50. A status that means that nothing was done, or a failure, is not recorded: a retry runs
/// the handler.
async fn a_failure_frees_the_key_at_once(stage: TestStore) {
    let layer = keys(&stage.tidelock().await);
    for status in [500, 502, 503, 401, 407, 408, 425, 429] {
        let (runs, key) = (Observed::default(), format!("k-{status}"));
        let app = app_of(&runs, layer.clone(), first(status));
        assert_eq!(ask(&app, pay(&key, "")).await.told(), (status, "run 1"));
        assert_eq!(ask(&app, pay(&key, "")).await.told(), (200, "run 2"));
        assert!(ask(&app, pay(&key, "")).await.is_replay());
    }
}

/// CLAIM-50. A refusal is a response like any other.
async fn a_refusal_by_the_handler_is_recorded(stage: TestStore) {
    let layer = keys(&stage.tidelock().await);
    for status in [400, 403, 404, 409, 422, 302] {
        let (runs, key) = (Observed::default(), format!("k-{status}"));
        let app = app_of(&runs, layer.clone(), first(status));
        for _ in 0..2 {
            assert_eq!(ask(&app, pay(&key, "")).await.told(), (status, "run 1"));
        }
    }
}

/// CLAIM-50. Optionally a failure is recorded; and the statuses that free the key are an option
/// too.
async fn a_failure_is_recorded_on_request(stage: TestStore) {
    let runs = Observed::default();
    let layer = keys(&stage.tidelock().await)
        .on_failure(OnFailure::Remember)
        .releasing([StatusCode::NOT_FOUND]);
    let app = app_of(&runs, layer.clone(), first(500));
    for _ in 0..2 {
        assert_eq!(ask(&app, pay("a", "")).await.told(), (500, "run 1"));
    }
    let app = app_of(&Observed::default(), layer.clone(), first(404));
    ask(&app, pay("b", "")).await;
    assert_eq!(ask(&app, pay("b", "")).await.told(), (200, "run 2"));
    let app = app_of(&Observed::default(), layer, first(429));
    ask(&app, pay("c", "")).await;
    assert_eq!(ask(&app, pay("c", "")).await.told(), (429, "run 1"));
}

/// CLAIM-50. The panic propagates as it would without the layer.
async fn a_panic_frees_the_key_or_is_recorded(stage: TestStore) {
    let layer = keys(&stage.tidelock().await);
    let clumsy = |nth: usize| match nth {
        1 => panic!("the handler stumbles, as it should"),
        _ => "on its feet".into_response(),
    };
    let app = app_of(&Observed::default(), layer.clone(), clumsy);
    assert!(asked(&app, "a").await.is_err_and(|e| e.is_panic()));
    assert_eq!(ask(&app, pay("a", "")).await.told(), (200, "on its feet"));
    let app = app_of(&Observed::default(), layer.on_failure(OnFailure::Remember), clumsy);
    assert!(asked(&app, "b").await.is_err_and(|e| e.is_panic()));
    let again = ask(&app, pay("b", "")).await;
    assert_eq!((again.problem(), again.is_replay()), ((500, "handler-failed".into()), true));
}

async fn asked(app: &axum::Router, key: &'static str) -> Result<Reply, tokio::task::JoinError> {
    let app = app.clone();
    tokio::spawn(async move { ask(&app, pay(key, "")).await }).await
}

/// CLAIM-50. So does a service that fails without a response: any tower service will do.
async fn an_error_of_the_service_frees_the_key(stage: TestStore) {
    let runs = Observed::default();
    let seen = runs.clone();
    let service = keys(&stage.tidelock().await).layer(service_fn(
        move |_: http::Request<axum::body::Body>| {
            seen.note("run");
            let answer = match seen.count() {
                1 => Err("the upstream is gone"),
                _ => Ok(http::Response::new(axum::body::Body::from("there it is"))),
            };
            async { answer }
        },
    ));
    assert_eq!(service.clone().oneshot(pay("k", "")).await.unwrap_err(), "the upstream is gone");
    let second = Reply::read(service.clone().oneshot(pay("k", "")).await.unwrap()).await;
    let third = Reply::read(service.oneshot(pay("k", "")).await.unwrap()).await;
    assert_eq!((second.told(), third.told()), ((200, "there it is"), (200, "there it is")));
    assert_eq!((runs.count(), third.is_replay()), (2, true));
}

on_every_store!(
    a_failure_frees_the_key_at_once,
    a_refusal_by_the_handler_is_recorded,
    a_failure_is_recorded_on_request,
    a_panic_frees_the_key_or_is_recorded,
    an_error_of_the_service_frees_the_key,
);
