//! Who asks, as the server knows them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app_state::AppState;
use crate::auth::{Caller, Role};

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Whoami {
    /// The name of the token; nothing if the server has no tokens.
    #[schema(example = "alice")]
    name: Option<String>,
    /// What they may do.
    role: Role,
    /// The server has no tokens: everybody may look, and nobody may change anything.
    read_only: bool,
}

/// Who asks, and what they may do.
#[utoipa::path(get, path = "/v1/whoami", tag = "server", responses((status = 200, body = Whoami)))]
pub(crate) async fn whoami(State(served): State<AppState>, caller: Caller) -> Json<Whoami> {
    let name = caller.name.as_deref().map(str::to_owned);
    Json(Whoami { name, role: caller.role, read_only: served.setup.tokens.is_none() })
}
