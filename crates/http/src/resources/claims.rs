//! Claims: the right to carry out a request once. Won here, then renewed and completed by key and
//! fence.

mod abandoned;
mod held;
mod listing;
mod peek;

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::claims::{
    ClaimError, Claims, Fingerprint, Handoff, Idempotency, IdempotencyClaim, InProgress,
};
use tidelock::problem::Problem;
use tidelock::store::{Fence, RawJson};
use utoipa::ToSchema;

use super::cancellation::unless_gone;
use super::durations::Millis;
use super::{durations, named};
use crate::app_state::AppState;
use crate::auth::Caller;
use crate::extract::{Body, InPath};
use crate::idempotency::{IdempotencyScope, OnceClaims};

pub(crate) use abandoned::*;
pub(crate) use held::*;
pub(crate) use listing::*;
pub(crate) use peek::*;

/// The claims, in the name that was given, or in that of the caller.
pub(super) fn asked_by(
    claims: Claims,
    caller: &Caller,
    by: Option<&str>,
) -> Result<Claims, Problem> {
    let by = named::who(by.unwrap_or(caller.shown()))?;
    Ok(claims.by(by))
}

pub(super) fn key_of(claims: &Claims, key: &str) -> Idempotency {
    claims.idempotency(key)
}

/// A request to claim a key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimRequest {
    /// The request's content: a key can only be used for one content. Only a digest is kept.
    #[schema(value_type = Option<Value>)]
    fingerprint: Option<RawJson>,
    /// How long the claim is exclusive if it is not renewed.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
    /// How long the result is kept; 30 days by default.
    #[schema(value_type = Option<u64>, minimum = 1, example = 86400000)]
    ttl_ms: Option<Millis>,
    /// The claimant's name, shown to later callers; the name of the token by default.
    #[schema(max_length = 128)]
    by: Option<String>,
}

/// The outcome of a claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimResponse {
    /// `won`: do the work, then complete it. `done`: it was done, with this result. `failed`: it
    /// was done, and failed.
    outcome: ClaimOutcomeDto,
    /// The fence to complete the work with; only if the claim was won.
    #[schema(value_type = Option<u64>, minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<Fence>,
    /// When the claim's lease expires; only if it was won.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// The result; only if the work was done.
    #[schema(value_type = Option<Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RawJson>,
    /// Why the work failed; only if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ClaimOutcome)]
pub(crate) enum ClaimOutcomeDto {
    Won,
    Done,
    Failed,
}

impl ClaimResponse {
    fn came(outcome: ClaimOutcomeDto) -> Self {
        Self { outcome, fence: None, until: None, result: None, error: None }
    }

    fn won(passed: &Handoff) -> Response {
        let (fence, until) = (Some(passed.fence), Some(passed.until));
        (StatusCode::CREATED, Answer(Self { fence, until, ..Self::came(ClaimOutcomeDto::Won) }))
            .into_response()
    }

    fn done(result: RawJson) -> Response {
        Answer(Self { result: Some(result), ..Self::came(ClaimOutcomeDto::Done) }).into_response()
    }

    fn failed(error: String) -> Response {
        Answer(Self { error: Some(error), ..Self::came(ClaimOutcomeDto::Failed) }).into_response()
    }
}

/// Claim a key: the first claimant does the work, all others get its result.
///
/// The server renews nothing: renew the claim while you work, and complete it with the fence. If
/// you disconnect before the response, the claim is released.
#[utoipa::path(post, path = "/v1/claims/{key}", tag = "claims",
    params(
        ("key" = String, Path, description = "The key", min_length = 1),
    ),
    request_body = ClaimRequest,
    responses(
        (status = 201, description = "The claim is yours: do the work, then complete it", body = ClaimResponse),
        (status = 200, description = "The work was done", body = ClaimResponse),
        (status = 409, description = "The key is claimed: retry later, or wait for the result"),
        (status = 422, description = "The key was used for another request"),
    ))]
pub(crate) async fn claim(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    caller: Caller,
    once: IdempotencyScope,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<ClaimRequest>,
) -> Result<Response, Problem> {
    let claims = asked_by(claims, &caller, asked.by.as_deref())?;
    let mut claim = key_of(&claims, &key).lease(durations::lease(asked.lease_ms)?);
    if let Some(request) = &asked.fingerprint {
        claim = claim.fingerprinted(Fingerprint::of(request)?);
    }
    if let Some(ttl) = asked.ttl_ms {
        claim = claim.ttl(durations::some(ttl, "ttl_ms")?);
    }
    let claimed = match once.is_keyed() {
        // It runs to completion even if the client disconnects; a retry may own the claim already.
        true => claim.claim::<RawJson>().await,
        false => unless_gone(async move { claim.claim::<RawJson>().await }, give_back).await?,
    };
    match claimed {
        Ok(IdempotencyClaim::Won(won)) => Ok(ClaimResponse::won(&won.detach())),
        Ok(IdempotencyClaim::Done(result)) => Ok(ClaimResponse::done(result)),
        Ok(IdempotencyClaim::Held(holder)) => Err(held(&served, &holder).await?),
        Ok(IdempotencyClaim::Mismatch(first)) => Err(first.into()),
        Err(ClaimError::Failed { error, .. }) => Ok(ClaimResponse::failed(error)),
        Err(error) => Err(error.into()),
    }
}

/// Releases a claim whose client disconnected before the work began.
async fn give_back(claimed: Result<IdempotencyClaim<RawJson>, ClaimError>) {
    if let Ok(IdempotencyClaim::Won(won)) = claimed
        && let Err(error) = won.release().await
    {
        tracing::warn!(%error, "the claim of a disconnected client was not released; its lease expires");
    }
}

async fn held(served: &AppState, holder: &InProgress<RawJson>) -> Result<Problem, Problem> {
    let detail = format!(
        "claim {:?}: held by {:?}; retry later, or wait for the result with GET and wait_ms",
        holder.key(),
        holder.by()
    );
    let problem = Problem::conflict("claim-held", detail)
        .with("outcome", "held")
        .with("by", holder.by())
        .with("since", holder.since())
        .with("until", holder.until());
    until(served, problem, holder.until()).await
}

/// Adds the advice to retry when the lease expires.
pub(super) async fn until(
    served: &AppState,
    problem: Problem,
    until: Option<Timestamp>,
) -> Result<Problem, Problem> {
    let Some(until) = until else { return Ok(problem) };
    let left = until.since(served.store().now().await?);
    Ok(problem.retry_after(left.max(Duration::from_secs(1))))
}
