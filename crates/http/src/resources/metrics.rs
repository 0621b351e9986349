//! The metrics endpoint for Prometheus.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use tidelock::telemetry::{MetricInfo, MetricKind};

use crate::app_state::AppState;
use crate::limits::Limits;
use crate::samples;

/// Read the metrics, in the text format of Prometheus. Figures about the store are from the newest
/// sample, which is at most ten seconds old.
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "Metrics", body = String, content_type = "text/plain"),
))]
pub(crate) async fn metrics(State(served): State<AppState>) -> impl IntoResponse {
    samples::keep(&served);
    let mut text =
        served.setup.metrics.as_ref().map_or_else(String::new, crate::metrics::Metrics::render);
    for (MetricInfo { name, kind, help, .. }, value) in figures(&served) {
        let kind = if kind == MetricKind::Counter { "counter" } else { "gauge" };
        let _written = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// Open event streams.
const EVENT_STREAMS: MetricInfo =
    MetricInfo::gauge("tidelock_http_event_streams", &[], "Open event streams.");
/// Commits of this process.
const COMMITS: MetricInfo =
    MetricInfo::counter("tidelock_commits_total", &[], "Commits made by this process.");
/// The end of the feed.
const FEED_POSITION: MetricInfo =
    MetricInfo::gauge("tidelock_feed_position", &[], "The end of the feed.");
/// Reactions that stand still.
const UNSERVED: MetricInfo =
    MetricInfo::gauge("tidelock_reactions_unserved", &[], "Reactions that no process routes.");
/// The slowest reaction.
const LAG: MetricInfo = MetricInfo::gauge(
    "tidelock_reactions_lag",
    &[],
    "The largest routing lag, in positions, over the reactions that a process routes.",
);

/// The server's own metrics, beside those that the process records.
pub(crate) const METRICS: &[MetricInfo] = &[EVENT_STREAMS, COMMITS, FEED_POSITION, UNSERVED, LAG];

/// Their values.
fn figures(served: &AppState) -> Vec<(MetricInfo, u64)> {
    let Limits { streams, .. } = *served.limits();
    let open = streams - served.streams.available_permits();
    let mut figures = vec![(EVENT_STREAMS, open as u64)];
    figures.extend(served.setup.commits.as_ref().map(|commits| (COMMITS, commits.get())));
    if let Some(sample) = served.samples.last() {
        figures.push((FEED_POSITION, sample.head_position.get()));
        figures.push((UNSERVED, sample.unserved_reactions as u64));
        figures.extend(sample.lag.map(|lag| (LAG, lag)));
    }
    figures
}
