//! Sets and removes entries of the objects in a scope.

use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::super::span::Millis;
use super::changing::Changed;
use super::mutating::{Lives, Living, Mutating};
use super::{Which, refused};
use crate::extract::Body;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// A request to set an entry.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingEntry {
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
        Which,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        Living,
    ),
    request_body = SettingEntry,
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "The scope does not exist", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "There is no object there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "The scope was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "The scope is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn set_entry(
    Mutating { mutation, .. }: Mutating,
    Body(asked): Body<SettingEntry>,
) -> Result<Response, Problem> {
    Ok(Changed::ok(&mutation.set_entry(asked.at, asked.key, asked.value).await.map_err(refused)?))
}

/// Which entry to remove.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemovingEntry {
    /// The path of the object: a plain name, a JSON pointer for nested values, or empty for the
    /// whole document.
    #[serde(default)]
    at: String,
    /// The entry's key.
    key: String,
    /// As for every mutation.
    #[param(value_type = Option<u64>, minimum = 1)]
    lives_ms: Option<Millis>,
}

impl Lives for RemovingEntry {
    fn lives_ms(&self) -> Option<Millis> {
        self.lives_ms
    }
}

/// Remove an entry of an object; `value` says whether it existed.
#[utoipa::path(delete, path = "/v1/scopes/{kind}/{id}/entries", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        RemovingEntry,
    ),
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "The scope does not exist", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "There is no object there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "The scope was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "The scope is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn remove_entry(
    Mutating { mutation, query }: Mutating<RemovingEntry>,
) -> Result<Response, Problem> {
    let RemovingEntry { at, key, .. } = query;
    Ok(Changed::with(&mutation.remove_entry(at, key).await.map_err(refused)?))
}
