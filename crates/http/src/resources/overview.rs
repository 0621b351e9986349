//! The overview of a store, now and over the last hour; and as a live stream.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use tidelock::problem::Problem;
use tidelock::store::Position;
use tokio::time::interval;
use utoipa::ToSchema;

use crate::app_state::AppState;
use crate::limits::BEAT;
use crate::samples::{self, Sample};
use crate::sse;

/// The overview of a store.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Overview {
    /// The store answers. Whether anything is stuck is up to the doctor.
    healthy: bool,
    /// The kind of store.
    #[schema(example = "sqlite")]
    store: &'static str,
    /// Committed data survives a power failure.
    durable: bool,
    /// Several processes can use the store at once.
    shared: bool,
    /// The server's version.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// The end of the feed.
    #[schema(value_type = u64)]
    head_position: Position,
    /// The kinds of aggregates whose state can be shown.
    kinds: Vec<&'static str>,
    /// The current sample.
    now: Sample,
    /// The samples of the last hour, oldest first.
    samples: Vec<Sample>,
}

/// Read the overview of the store, now and over the last hour.
#[utoipa::path(get, path = "/v1/overview", tag = "server", responses((status = 200, body = Overview)))]
pub(crate) async fn overview(State(served): State<AppState>) -> Result<Json<Overview>, Problem> {
    samples::keep(&served);
    let now = served.samples.look(&served.setup).await?;
    let can = served.store().capabilities();
    Ok(Json(Overview {
        healthy: true,
        store: can.name,
        durable: can.durable,
        shared: can.shared,
        version: env!("CARGO_PKG_VERSION"),
        head_position: now.head_position,
        kinds: served.setup.kinds.names(),
        samples: served.samples.kept(),
        now,
    }))
}

/// Follow the samples by server-sent events: each is named `sample`.
#[utoipa::path(get, path = "/v1/overview/live", tag = "server", responses(
    (status = 200, description = "Samples, until the client disconnects", body = String, content_type = "text/event-stream"),
))]
pub(crate) async fn live(State(served): State<AppState>) -> Result<Response, Problem> {
    samples::keep(&served);
    let samples = stream::unfold((served.clone(), interval(BEAT)), |(served, mut beat)| async {
        beat.tick().await;
        let event = match served.samples.look(&served.setup).await {
            Ok(sample) => sse::event("sample", None, &sample),
            Err(error) => sse::problem(error),
        };
        Some((event, (served, beat)))
    });
    sse::answer(&served, samples)
}
