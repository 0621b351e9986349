//! The store at a glance, now and over the last hour; and the same as it goes on.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use tidelock::Position;
use tokio::time::{Interval, interval};
use utoipa::ToSchema;

use crate::app_state::AppState;
use crate::limits::BEAT;
use crate::problem::Problem;
use crate::samples::{self, Sample};
use crate::sse::{self, Piece, Source};

/// The store at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Overview {
    /// It answers. Whether anything is stuck, the doctor says.
    healthy: bool,
    /// Which store it is.
    #[schema(example = "sqlite")]
    store: &'static str,
    /// What was committed is there after the machine loses power.
    durable: bool,
    /// Several processes can use it at once.
    shared: bool,
    /// The version of the server.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// Where the feed ends.
    #[schema(value_type = u64)]
    head_position: Position,
    /// The kinds of aggregates whose states can be shown.
    kinds: Vec<&'static str>,
    /// How it is now.
    now: Sample,
    /// How it was in the last hour, the oldest first.
    samples: Vec<Sample>,
}

/// The store at a glance, now and over the last hour.
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

/// How it goes on, by server-sent events: each is called `sample`.
#[utoipa::path(get, path = "/v1/overview/live", tag = "server", responses(
    (status = 200, description = "Samples, for as long as the client stays", body = String, content_type = "text/event-stream"),
))]
pub(crate) async fn live(State(served): State<AppState>) -> Result<Response, Problem> {
    samples::keep(&served);
    sse::answer(&served, Beats { served: served.clone(), beat: interval(BEAT) })
}

struct Beats {
    served: AppState,
    beat: Interval,
}

impl Source for Beats {
    async fn next(&mut self) -> Option<Piece> {
        let mut piece = Piece::default();
        self.beat.tick().await;
        match self.served.samples.look(&self.served.setup).await {
            Ok(sample) => piece.push("sample", None, &sample),
            Err(error) => piece.push("problem", None, &Problem::from(error).logged()),
        }
        Some(piece)
    }
}
