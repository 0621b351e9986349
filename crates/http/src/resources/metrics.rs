//! What is counted, for Prometheus.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

use crate::limits::Limits;
use crate::served::Served;

/// What is counted, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "Metrics", body = String, content_type = "text/plain"),
))]
pub(crate) async fn metrics(State(served): State<Served>) -> impl IntoResponse {
    let mut text = served.setup.metrics.as_ref().map_or_else(String::new, crate::metrics::Metrics::render);
    let Limits { streams, .. } = *served.limits();
    let open = streams - served.streams.available_permits();
    let _written = write!(
        text,
        "# HELP tidelock_http_event_streams Event streams that are open.\n# TYPE tidelock_http_event_streams gauge\ntidelock_http_event_streams {open}\n"
    );
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
