//! The metrics endpoint for Prometheus.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

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
    for Figure { name, kind, help, value } in figures(&served) {
        let _written = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// One metric.
struct Figure {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: u64,
}

impl Figure {
    fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, kind: "gauge", help, value }
    }
}

/// The server's own metrics, beside those that the process records.
fn figures(served: &AppState) -> Vec<Figure> {
    let Limits { streams, .. } = *served.limits();
    let open = streams - served.streams.available_permits();
    let mut figures =
        vec![Figure::gauge("tidelock_http_event_streams", "Open event streams.", open as u64)];
    if let Some(commits) = &served.setup.commits {
        let help = "Commits made by this process.";
        figures.push(Figure {
            name: "tidelock_commits_total",
            kind: "counter",
            help,
            value: commits.get(),
        });
    }
    if let Some(sample) = served.samples.last() {
        let (end, unserved) = (sample.head_position.get(), sample.unserved_reactions as u64);
        figures.push(Figure::gauge("tidelock_feed_position", "The end of the feed.", end));
        figures.push(Figure::gauge(
            "tidelock_reactions_unserved",
            "Reactions that no process routes.",
            unserved,
        ));
        let help =
            "The largest routing lag, in positions, over the reactions that a process routes.";
        figures.extend(sample.lag.map(|lag| Figure::gauge("tidelock_reactions_lag", help, lag)));
    }
    figures
}
