//! Mutations of a scope: replace, patch, delete, increment, push, set and remove entries.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidelock::problem::Problem;
use tidelock::scopes::Mutated;
use tidelock::scopes::ScopeError;
use tidelock::store::Revision;
use utoipa::ToSchema;

use super::mutation_request::{MutationRequest, TtlQuery};
use super::precondition::Precondition;
use super::{ScopePath, scope, to_problem};
use crate::app_state::AppState;
use crate::extract::{Body, InPath, InQuery, check_is_json, parse, whole};
use crate::idempotency::IdempotencyScope;

/// The result of a mutation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MutationResponse {
    /// The scope's revision afterwards; absent if there is no scope.
    #[schema(value_type = Option<u64>, minimum = 1)]
    revision: Option<Revision>,
    /// `applied`, or `unchanged`: the document already was as requested, and nothing was written.
    outcome: MutationDto,
    /// The mutation's value: the sum of a counter, the length of a list, whether an entry existed.
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

impl MutationResponse {
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

    /// The response to a mutation without a value.
    pub(super) fn ok<R>(mutated: Result<Mutated<R>, ScopeError>) -> Result<Response, Problem> {
        Ok(Self::answer(StatusCode::OK, &mutated.map_err(to_problem)?, None))
    }

    /// The response to a mutation with its value.
    pub(super) fn with<R: Clone + Into<Value>>(
        mutated: Result<Mutated<R>, ScopeError>,
    ) -> Result<Response, Problem> {
        let mutated = mutated.map_err(to_problem)?;
        Ok(Self::answer(StatusCode::OK, &mutated, Some(mutated.value.clone().into())))
    }
}

/// Replace a scope's document; the body is the document. `If-None-Match: *` creates it, for the
/// first time or after it was deleted.
#[utoipa::path(put, path = "/v1/scopes/{kind}/{id}", tag = "scopes",
    params(
        ScopePath,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        ("If-None-Match" = Option<String>, Header, description = "Only *: the scope must not exist"),
        TtlQuery,
    ),
    request_body = Value,
    responses(
        (status = 200, body = MutationResponse, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 201, description = "Created", body = MutationResponse),
    ))]
pub(crate) async fn replace(
    State(served): State<AppState>,
    InPath(which): InPath<ScopePath>,
    InQuery(living): InQuery<TtlQuery>,
    once: IdempotencyScope,
    headers: HeaderMap,
    Body(state): Body<Value>,
) -> Result<Response, Problem> {
    let precondition = Precondition::of(&headers)?;
    let scope = scope(&served, &which, living.ttl_ms)?;
    if precondition == Precondition::Absent {
        let created = once.mutation(scope.mutation()).create(state).await.map_err(to_problem)?;
        return Ok(MutationResponse::answer(StatusCode::CREATED, &created, None));
    }
    MutationResponse::ok(once.mutation(precondition.mutation(&scope)?).set(&state).await)
}

/// Merge into a scope's document (RFC 7396): objects are merged entry by entry, `null` removes an
/// entry, and every other value replaces the previous one.
#[utoipa::path(patch, path = "/v1/scopes/{kind}/{id}", tag = "scopes",
    params(
        ScopePath,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        TtlQuery,
    ),
    request_body(content((Value = "application/merge-patch+json"), (Value = "application/json"))),
    responses((status = 200, body = MutationResponse, headers(("ETag" = String, description = "The revision, in quotes")))))]
pub(crate) async fn patch(
    State(served): State<AppState>,
    MutationRequest { mutation, .. }: MutationRequest,
    request: Request,
) -> Result<Response, Problem> {
    check_is_json(request.headers(), &["application/merge-patch+json", "application/json"])?;
    let patch: Value = parse(&whole(request.into_body(), &served).await?)?;
    MutationResponse::ok(mutation.patch(patch).await)
}

/// Delete a scope. It stays deleted until it is created again. A scope that does not exist is left
/// as it is, unless `If-Match` requires that it exists.
#[utoipa::path(delete, path = "/v1/scopes/{kind}/{id}", tag = "scopes",
    params(
        ScopePath,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
    ),
    responses((status = 200, description = "Deleted", body = MutationResponse)))]
pub(crate) async fn delete(
    State(served): State<AppState>,
    InPath(which): InPath<ScopePath>,
    once: IdempotencyScope,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mutation = Precondition::of(&headers)?.mutation(&scope(&served, &which, None)?)?;
    MutationResponse::ok(once.mutation(mutation).delete().await)
}

/// A request to add to an integer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IncrementRequest {
    /// The path: a plain name, a JSON pointer for nested values, or empty for the whole document.
    #[serde(default)]
    #[schema(example = "/visits")]
    at: String,
    /// The amount.
    #[schema(example = 1)]
    by: i64,
}

/// Add to an integer, 0 if it does not exist; `value` is the sum.
#[utoipa::path(post, path = "/v1/scopes/{kind}/{id}/increment", tag = "scopes",
    params(
        ScopePath,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        TtlQuery,
    ),
    request_body = IncrementRequest,
    responses(
        (status = 200, body = MutationResponse, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 409, description = "There is no integer there, or the sum is too large"),
    ))]
pub(crate) async fn increment(
    MutationRequest { mutation, .. }: MutationRequest,
    Body(asked): Body<IncrementRequest>,
) -> Result<Response, Problem> {
    MutationResponse::with(mutation.increment(asked.at, asked.by).await)
}

/// A request to append to a list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushRequest {
    /// The path: a plain name, a JSON pointer for nested values, or empty for the whole document.
    #[serde(default)]
    #[schema(example = "/items")]
    at: String,
    /// The value.
    value: Value,
}

/// Append to a list, empty if it does not exist; `value` is its length.
#[utoipa::path(post, path = "/v1/scopes/{kind}/{id}/push", tag = "scopes",
    params(
        ScopePath,
        ("If-Match" = Option<String>, Header, description = "The required revision, in quotes; or *"),
        TtlQuery,
    ),
    request_body = PushRequest,
    responses(
        (status = 200, body = MutationResponse, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 409, description = "There is no list there"),
    ))]
pub(crate) async fn push(
    MutationRequest { mutation, .. }: MutationRequest,
    Body(asked): Body<PushRequest>,
) -> Result<Response, Problem> {
    MutationResponse::with(mutation.push(asked.at, asked.value).await)
}
