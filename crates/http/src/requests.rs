//! Request metrics, by route. A path is never a label: it contains names, so its cardinality is
//! unbounded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::app_state::AppState;

/// Requests answered, by `method`, `route` and `status`.
pub(crate) const REQUESTS: &str = "tidelock_http_requests_total";
/// Seconds until the response, by `method` and `route`; for an event stream, until it began.
pub(crate) const SECONDS: &str = "tidelock_http_request_seconds";

/// The route that is counted.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) served: AppState,
    pub(crate) method: Arc<str>,
    pub(crate) route: Arc<str>,
}

pub(crate) async fn count(
    State(counted): State<Counted>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let response = next.run(request).await;
    let Counted { served, method, route } = counted;
    served.samples.requests.fetch_add(1, Ordering::Relaxed);
    let status = response.status().as_u16().to_string();
    metrics::counter!(REQUESTS, "method" => method.clone(), "route" => route.clone(), "status" => status)
        .increment(1);
    metrics::histogram!(SECONDS, "method" => method, "route" => route)
        .record(begun.elapsed().as_secs_f64());
    response
}
