//! Request metrics and the span of a request, by route. A path is never a label: it contains names,
//! so its cardinality is unbounded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tidelock::TraceContext;
use tidelock::telemetry::MetricInfo;
use tracing::Instrument;

use crate::app_state::AppState;

/// Requests answered, by `method`, `route` and `status`.
pub(crate) const REQUESTS: &str = "tidelock_http_requests_total";
/// Seconds until the response, by `method` and `route`; for an event stream, until it began.
pub(crate) const SECONDS: &str = "tidelock_http_request_seconds";

/// The metrics of requests.
pub(crate) const METRICS: &[MetricInfo] = &[
    MetricInfo::counter(REQUESTS, &["method", "route", "status"], "Requests answered."),
    MetricInfo::seconds(
        SECONDS,
        &["method", "route"],
        "Time until the response; for an event stream, until it began.",
    ),
];

/// The route that is counted.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) served: AppState,
    pub(crate) method: Arc<str>,
    pub(crate) route: Arc<str>,
}

/// Answers the request in a span of its own, as part of the trace that its headers name.
async fn traced(request: Request, method: &str, route: &str, next: Next) -> Response {
    let header = |name: &str| request.headers().get(name)?.to_str().ok();
    let trace = TraceContext::from_headers(header);
    let span = tracing::info_span!(
        "request",
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = tracing::field::Empty,
    );
    let answer = next.run(request).instrument(span.clone());
    let response = match trace {
        Some(trace) => {
            trace.continue_in(&span);
            trace.scope(answer).await
        }
        None => answer.await,
    };
    span.record("http.response.status_code", response.status().as_u16());
    response
}

pub(crate) async fn count(
    State(counted): State<Counted>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let Counted { served, method, route } = counted;
    let response = traced(request, &method, &route, next).await;
    served.samples.requests.fetch_add(1, Ordering::Relaxed);
    let status = response.status().as_u16().to_string();
    metrics::counter!(REQUESTS, "method" => method.clone(), "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!(SECONDS, "method" => method, "route" => route)
        .record(begun.elapsed().as_secs_f64());
    response
}
