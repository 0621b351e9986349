//! What is counted, for Prometheus.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

use crate::app_state::AppState;
use crate::limits::Limits;
use crate::samples;

/// What is counted, in the text format of Prometheus. What has to be asked of the store is as old
/// as the newest sample, ten seconds at most.
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

/// One figure.
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

/// What this server knows beside what the process counts.
fn figures(served: &AppState) -> Vec<Figure> {
    let Limits { streams, .. } = *served.limits();
    let open = streams - served.streams.available_permits();
    let mut figures = vec![Figure::gauge(
        "tidelock_http_event_streams",
        "Event streams that are open.",
        open as u64,
    )];
    if let Some(commits) = &served.setup.commits {
        let help = "Commits that this process made.";
        figures.push(Figure {
            name: "tidelock_commits_total",
            kind: "counter",
            help,
            value: commits.get(),
        });
    }
    if let Some(sample) = served.samples.last() {
        let (end, unserved) = (sample.head_position.get(), sample.unserved_reactions as u64);
        figures.push(Figure::gauge("tidelock_feed_position", "Where the feed ends.", end));
        figures.push(Figure::gauge(
            "tidelock_reactions_unserved",
            "Reactions whose events nobody routes.",
            unserved,
        ));
        let help = "Positions that the reaction which is furthest behind has yet to look at, of those that somebody routes.";
        figures.extend(sample.lag.map(|lag| Figure::gauge("tidelock_reactions_lag", help, lag)));
    }
    figures
}
