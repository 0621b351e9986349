//! Liveness and readiness. Both are public: neither reveals anything about the store's contents.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tidelock::problem::Problem;
use utoipa::ToSchema;

use crate::app_state::AppState;

/// How long the store can take to return its time before it counts as unavailable.
const ANSWER: Duration = Duration::from_secs(5);

/// The health of the process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether this path is answered even when the server is full.
pub(crate) fn is_health_check(path: &str) -> bool {
    matches!(path, "/health" | "/ready")
}

const OK: Json<Health> = Json(Health { status: "ok" });

/// Whether the process is alive.
#[utoipa::path(get, path = "/health", tag = "health", responses((status = 200, body = Health)))]
pub(crate) async fn health() -> Json<Health> {
    OK
}

/// Whether the store answers.
#[utoipa::path(get, path = "/ready", tag = "health", responses(
    (status = 200, body = Health),
    (status = 503, description = "The store does not answer"),
))]
pub(crate) async fn ready(State(served): State<AppState>) -> Result<Json<Health>, Problem> {
    match tokio::time::timeout(ANSWER, served.store().now()).await {
        Ok(Ok(_)) => Ok(OK),
        // The location of the store is not public: it is in the log only.
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store is not ready");
            Err(away())
        }
        Err(_) => Err(away()),
    }
}

fn away() -> Problem {
    Problem::unavailable("store-unavailable", "the store does not answer; try again later")
}
