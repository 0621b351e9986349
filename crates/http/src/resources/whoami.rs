//! The caller, as the server knows it.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app_state::AppState;
use crate::auth::{Caller, Role};

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallerDto {
    /// The name of the token; absent if the server has no tokens.
    #[schema(example = "alice")]
    name: Option<String>,
    /// The caller's role.
    role: Role,
    /// The server has no tokens: every client can read, and no client can change anything.
    read_only: bool,
}

/// Read the caller's name and role.
#[utoipa::path(get, path = "/v1/whoami", tag = "server", responses((status = 200, body = CallerDto)))]
pub(crate) async fn whoami(State(served): State<AppState>, caller: Caller) -> Json<CallerDto> {
    let name = caller.name.as_deref().map(str::to_owned);
    Json(CallerDto { name, role: caller.role, read_only: served.setup.tokens.is_none() })
}
