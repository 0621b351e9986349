//! The OpenAPI document of this server.

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

use crate::app_state::AppState;

/// Read this document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server", responses(
    (status = 200, description = "The OpenAPI document", body = serde_json::Value, content_type = "application/json"),
))]
pub(crate) async fn document(State(served): State<AppState>) -> impl IntoResponse {
    let document =
        served.document.get().cloned().expect("a router has its document before it is served");
    ([(CONTENT_TYPE, "application/json")], document)
}
