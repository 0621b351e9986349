//! Changing a scope: replace, patch, delete, count, add to a list, set and remove entries.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidelock::Revision;
use tidelock::scopes::Mutated;
use utoipa::ToSchema;

use super::mutating::{Living, Mutating};
use super::precondition::Precondition;
use super::{Which, refused, scope};
use crate::app_state::AppState;
use crate::extract::{Body, InPath, InQuery, check_is_json, parse, whole};
use crate::idempotency::IdempotencyScope;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// What became of a change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Changed {
    /// The scope's revision then; none if there is no scope.
    #[schema(value_type = Option<u64>, minimum = 1)]
    revision: Option<Revision>,
    /// `applied`, or `unchanged`: it was like that already, and nothing was written.
    outcome: MutationDto,
    /// What it came to: the sum of a counter, the length of a list, whether an entry was there.
    #[schema(value_type = Option<Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
}

/// Whether anything was written.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChangeOutcome)]
pub(crate) enum MutationDto {
    Applied,
    Unchanged,
}

impl Changed {
    fn answer<R>(status: StatusCode, mutated: &Mutated<R>, value: Option<Value>) -> Response {
        let (revision, applied) = (mutated.revision(), mutated.is_applied());
        let outcome = if applied { MutationDto::Applied } else { MutationDto::Unchanged };
        let changed = Answer(Self { revision, outcome, value });
        match revision {
            Some(revision) => {
                (status, [(ETAG, format!("\"{revision}\""))], changed).into_response()
            }
            None => (status, changed).into_response(),
        }
    }

    pub(super) fn ok<R>(mutated: &Mutated<R>) -> Response {
        Self::answer(StatusCode::OK, mutated, None)
    }

    pub(super) fn with<R: Clone + Into<Value>>(mutated: &Mutated<R>) -> Response {
        Self::answer(StatusCode::OK, mutated, Some(mutated.value.clone().into()))
    }
}

/// Replace a scope's document; the body is the document. With `If-None-Match: *` it is created, for
/// the first time or anew after it is gone.
#[utoipa::path(put, path = "/v1/scopes/{kind}/{id}", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The revision that it must have, in quotes; or *"),
        ("If-None-Match" = Option<String>, Header, description = "Only *: it must not be there"),
        Living,
    ),
    request_body = Value,
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 201, description = "It is created", body = Changed),
        (status = 404, description = "It was to be there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "It was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "It is at another revision, or is there", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn replace(
    State(served): State<AppState>,
    InPath(which): InPath<Which>,
    InQuery(living): InQuery<Living>,
    once: IdempotencyScope,
    headers: HeaderMap,
    Body(state): Body<Value>,
) -> Result<Response, Problem> {
    let precondition = Precondition::of(&headers)?;
    let scope = scope(&served, &which, living.lives_ms)?;
    if precondition == Precondition::Absent {
        let created = once.mutation(scope.mutation()).create(state).await.map_err(refused)?;
        return Ok(Changed::answer(StatusCode::CREATED, &created, None));
    }
    let replaced =
        once.mutation(precondition.mutation(&scope)?).set(&state).await.map_err(refused)?;
    Ok(Changed::ok(&replaced))
}

/// Merge into a scope's document: objects entry by entry, `null` takes an entry away, and all else
/// replaces what was there (RFC 7396).
#[utoipa::path(patch, path = "/v1/scopes/{kind}/{id}", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The revision that it must have, in quotes; or *"),
        Living,
    ),
    request_body(content((Value = "application/merge-patch+json"), (Value = "application/json"))),
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "It was to be there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "It was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "It is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn patch(
    State(served): State<AppState>,
    Mutating { mutation, .. }: Mutating,
    request: Request,
) -> Result<Response, Problem> {
    check_is_json(request.headers(), &["application/merge-patch+json", "application/json"])?;
    let patch: Value = parse(&whole(request.into_body(), &served).await?)?;
    Ok(Changed::ok(&mutation.patch(patch).await.map_err(refused)?))
}

/// Take a scope away. It stays gone until somebody creates it again. One that is gone already stays
/// as it is, unless `If-Match` says that it was to be there.
#[utoipa::path(delete, path = "/v1/scopes/{kind}/{id}", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The revision that it must have, in quotes; or *"),
    ),
    responses(
        (status = 200, description = "It is gone", body = Changed),
        (status = 404, description = "It was to be there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "It was to be there, and was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "It is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn delete(
    State(served): State<AppState>,
    InPath(which): InPath<Which>,
    once: IdempotencyScope,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mutation = Precondition::of(&headers)?.mutation(&scope(&served, &which, None)?)?;
    Ok(Changed::ok(&once.mutation(mutation).delete().await.map_err(refused)?))
}

/// What is counted, and by how much.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Incrementing {
    /// Where: a plain name, a JSON pointer to reach deeper, or nothing for the whole document.
    #[serde(default)]
    #[schema(example = "/visits")]
    at: String,
    /// By how much.
    #[schema(example = 1)]
    by: i64,
}

/// Add to an integer, which is zero if it is not there; `value` is the sum.
#[utoipa::path(post, path = "/v1/scopes/{kind}/{id}/increment", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The revision that it must have, in quotes; or *"),
        Living,
    ),
    request_body = Incrementing,
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "It was to be there", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "There is no integer there, or the sum is too large", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "It was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "It is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn increment(
    Mutating { mutation, .. }: Mutating,
    Body(asked): Body<Incrementing>,
) -> Result<Response, Problem> {
    Ok(Changed::with(&mutation.increment(asked.at, asked.by).await.map_err(refused)?))
}

/// What is added, and to which list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pushing {
    /// Where: a plain name, a JSON pointer to reach deeper, or nothing for the whole document.
    #[serde(default)]
    #[schema(example = "/items")]
    at: String,
    /// What.
    value: Value,
}

/// Add to the end of a list, which is empty if it is not there; `value` is its length.
#[utoipa::path(post, path = "/v1/scopes/{kind}/{id}/push", tag = "scopes",
    params(
        Which,
        ("If-Match" = Option<String>, Header, description = "The revision that it must have, in quotes; or *"),
        Living,
    ),
    request_body = Pushing,
    responses(
        (status = 200, body = Changed, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "It was to be there", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "There is no list there", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "It was deleted, or has expired", body = Details, content_type = PROBLEM_JSON),
        (status = 412, description = "It is at another revision", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn push(
    Mutating { mutation, .. }: Mutating,
    Body(asked): Body<Pushing>,
) -> Result<Response, Problem> {
    Ok(Changed::with(&mutation.push(asked.at, asked.value).await.map_err(refused)?))
}
