//! Sets and removes entries of the objects in a scope.

use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use tidelock::problem::Problem;
use utoipa::{IntoParams, ToSchema};

use super::super::durations::Millis;
use super::ScopePath;
use super::mutation_request::{HasTtl, MutationRequest, TtlQuery};
use super::mutations::MutationResponse;
use crate::extract::Body;

/// A request to set an entry.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetEntryRequest {
    /// The path of the object: a plain name, a JSON pointer for nested values, or empty for the
    /// whole document.
    #[serde(default)]
    #[schema(example = "/prices")]
    at: String,
    /// The entry's key.
    key: String,
    /// The value.
    value: Value,
}

/// Set an entry of an object, empty if it does not exist.
#[utoipa::path(post, path = "/v1/scopes/{kind}/{id}/entries", tag = "scopes",
    params(
        ScopePath,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        TtlQuery,
    ),
    request_body = SetEntryRequest,
    responses(
        (status = 200, body = MutationResponse, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 409, description = "There is no object there"),
    ))]
pub(crate) async fn set_entry(
    MutationRequest { mutation, .. }: MutationRequest,
    Body(asked): Body<SetEntryRequest>,
) -> Result<Response, Problem> {
    MutationResponse::ok(mutation.set_entry(asked.at, asked.key, asked.value).await)
}

/// The entry to remove.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveEntryQuery {
    /// The path of the object: a plain name, a JSON pointer for nested values, or empty for the
    /// whole document.
    #[serde(default)]
    at: String,
    /// The entry's key.
    key: String,
    /// As for every mutation.
    #[param(value_type = Option<u64>, minimum = 1)]
    ttl_ms: Option<Millis>,
}

impl HasTtl for RemoveEntryQuery {
    fn ttl_ms(&self) -> Option<Millis> {
        self.ttl_ms
    }
}

/// Remove an entry of an object; `value` says whether it existed.
#[utoipa::path(delete, path = "/v1/scopes/{kind}/{id}/entries", tag = "scopes",
    params(
        ScopePath,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        RemoveEntryQuery,
    ),
    responses(
        (status = 200, body = MutationResponse, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 409, description = "There is no object there"),
    ))]
pub(crate) async fn remove_entry(
    MutationRequest { mutation, query }: MutationRequest<RemoveEntryQuery>,
) -> Result<Response, Problem> {
    let RemoveEntryQuery { at, key, .. } = query;
    MutationResponse::with(mutation.remove_entry(at, key).await)
}
