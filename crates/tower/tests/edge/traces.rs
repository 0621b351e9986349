//! The trace of a request, with and without a key, through the layers.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::post;
use http::Request;
use tidelock::{Tidelock, TraceContext};
use tidelock_tower::{IdempotencyLayer, TraceContextLayer};
use tower::ServiceExt;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn ask(routes: &Router, headers: &[(&str, &str)]) -> String {
    let request = headers
        .iter()
        .fold(Request::post("/"), |request, (name, value)| request.header(*name, *value));
    let answer = routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let body = to_bytes(answer.into_body(), 1_000).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// TRACE-1, TRACE-2. With a key the handler runs in a task of its own.
#[tokio::test]
async fn a_handler_is_part_of_the_trace_of_its_request() {
    let tidelock = Tidelock::open("memory:").await.unwrap();
    let current = async || match TraceContext::current() {
        Some(trace) => format!("{trace} {}", trace.state().unwrap_or_default()),
        None => "none".to_owned(),
    };
    let routes = Router::new().route("/", post(current));
    let routes = routes.layer(IdempotencyLayer::new(&tidelock)).layer(TraceContextLayer::new());
    let traced = [("traceparent", PARENT), ("tracestate", "congo=1")];
    let expected = format!("{PARENT} congo=1");
    assert_eq!(ask(&routes, &traced).await, expected);
    assert_eq!(
        ask(&routes, &[&traced[..], &[("idempotency-key", "\"1\"")]].concat()).await,
        expected
    );
    assert_eq!(ask(&routes, &[("idempotency-key", "\"2\"")]).await, "none");
    assert_eq!(ask(&routes, &[("traceparent", "00-nonsense")]).await, "none");
}
