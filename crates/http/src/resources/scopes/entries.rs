//! Setting and removing entries of the objects in a scope.

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

/// Which entry is set, and to what.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingEntry {
    /// Of which object: a plain name, a JSON pointer to reach deeper, or nothing for the whole
    /// document.
    #[serde(default)]
    #[schema(example = "/prices")]
    at: String,
    /// Which entry.
    key: String,
    /// To what.
    value: Value,
}

/// Set an entry of an object, which is empty if it is not there.
#[utoipa::path(post, path = "/v1/scopes/{kind}/{id}/entries", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The revision that it must have, in quotes; or *"),
        Living,
    ),
    request_body = SettingEntry,
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "It was to be there", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "There is no object there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "It was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "It is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn set_entry(
    Mutating { mutation, .. }: Mutating,
    Body(asked): Body<SettingEntry>,
) -> Result<Response, Problem> {
    Ok(Changed::ok(&mutation.set_entry(asked.at, asked.key, asked.value).await.map_err(refused)?))
}

/// Which entry is removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemovingEntry {
    /// Of which object: a plain name, a JSON pointer to reach deeper, or nothing for the whole
    /// document.
    #[serde(default)]
    at: String,
    /// Which entry.
    key: String,
    /// As for every change.
    #[param(value_type = Option<u64>, minimum = 1)]
    lives_ms: Option<Millis>,
}

impl Lives for RemovingEntry {
    fn lives_ms(&self) -> Option<Millis> {
        self.lives_ms
    }
}

/// Take an entry of an object away; `value` says whether it was there.
#[utoipa::path(delete, path = "/v1/scopes/{kind}/{id}/entries", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The revision that it must have, in quotes; or *"),
        RemovingEntry,
    ),
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "It was to be there", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "There is no object there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "It was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "It is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn remove_entry(
    Mutating { mutation, query }: Mutating<RemovingEntry>,
) -> Result<Response, Problem> {
    let RemovingEntry { at, key, .. } = query;
    Ok(Changed::with(&mutation.remove_entry(at, key).await.map_err(refused)?))
}
