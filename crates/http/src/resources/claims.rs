//! Claims: the right to do what a request asks for, once. Won here, gone on with by key and fence,
//! by whoever has them.

mod abandoned;
mod held;
mod listing;
mod looking;
mod refused;

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::claims::{
    ClaimError, Claims, Fingerprint, Handoff, Idempotency, IdempotencyClaim, InProgress,
};
use tidelock::{Fence, RawJson, Timestamp};
use utoipa::ToSchema;

use super::span::Millis;
use super::waiting::unless_gone;
use super::{named, span};
use crate::app_state::AppState;
use crate::auth::Caller;
use crate::extract::{Body, InPath};
use crate::idempotency::{IdempotencyScope, OnceClaims};
use crate::problem::{Details, PROBLEM_JSON, Problem};

pub(crate) use abandoned::*;
pub(crate) use held::*;
pub(crate) use listing::*;
pub(crate) use looking::*;
pub(super) use refused::refused;

/// The same claims, under the name that was given, or that of whoever asks.
pub(super) fn asked_by(
    claims: Claims,
    caller: &Caller,
    by: Option<&str>,
) -> Result<Claims, Problem> {
    let by = named::who(by.unwrap_or(caller.shown()))?;
    Ok(claims.by(by.as_str())?)
}

fn key_of(claims: &Claims, key: &str) -> Idempotency {
    claims.idempotency(key)
}

/// What is claimed, and for how long.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claiming {
    /// What tells this request from others: under one key, only the same is the same. Only a digest
    /// of it is kept.
    #[schema(value_type = Option<Value>)]
    fingerprint: Option<RawJson>,
    /// How long others are kept out if nobody renews it.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
    /// How long the result is kept once it is there; 30 days, if this is left out.
    #[schema(value_type = Option<u64>, minimum = 1, example = 86400000)]
    ttl_ms: Option<Millis>,
    /// Who claims it, for those who come too late; the name of the token, if this is left out.
    #[schema(max_length = 128)]
    by: Option<String>,
}

/// What came of claiming a key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Claimed {
    /// `won`: do it, then complete it. `done`: it was done, and this came of it. `failed`: it was
    /// done, and failed.
    outcome: Came,
    /// What the work is to be completed with; only if it was won.
    #[schema(value_type = Option<u64>, minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<Fence>,
    /// Until when others are kept out; only if it was won.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// What came of it; only if it was done.
    #[schema(value_type = Option<Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RawJson>,
    /// Why it failed; only if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What came of claiming a key.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ClaimOutcome)]
pub(crate) enum Came {
    Won,
    Done,
    Failed,
}

impl Claimed {
    fn came(outcome: Came) -> Self {
        Self { outcome, fence: None, until: None, result: None, error: None }
    }

    fn won(passed: &Handoff) -> Response {
        let (fence, until) = (Some(passed.fence), Some(passed.until));
        (StatusCode::CREATED, Answer(Self { fence, until, ..Self::came(Came::Won) }))
            .into_response()
    }

    fn done(result: RawJson) -> Response {
        Answer(Self { result: Some(result), ..Self::came(Came::Done) }).into_response()
    }

    fn failed(error: String) -> Response {
        Answer(Self { error: Some(error), ..Self::came(Came::Failed) }).into_response()
    }
}

/// Claim a key: whoever is first does the work, everybody else gets its result.
///
/// Nothing is renewed by the server: renew it while you work, and complete it with the fence. If
/// you are gone before you are answered, the key is given back.
#[utoipa::path(post, path = "/v1/claims/{key}", tag = "claims",
    params(
        ("key" = String, Path, description = "The key", min_length = 1),
    ),
    request_body = Claiming,
    responses(
        (status = 201, description = "It is yours: do the work, then complete it", body = Claimed),
        (status = 200, description = "It was done", body = Claimed),
        (status = 409, description = "Somebody is at it: come back, or wait for the result", body = Details, content_type = PROBLEM_JSON),
        (status = 422, description = "The key was used for another request", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn claim(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    caller: Caller,
    once: IdempotencyScope,
    OnceClaims(claims): OnceClaims,
    Body(asked): Body<Claiming>,
) -> Result<Response, Problem> {
    let claims = asked_by(claims, &caller, asked.by.as_deref())?;
    let mut claim = key_of(&claims, &key).lease(span::lease(asked.lease_ms)?);
    if let Some(request) = &asked.fingerprint {
        claim = claim.fingerprinted(Fingerprint::of(request)?);
    }
    if let Some(ttl) = asked.ttl_ms {
        claim = claim.ttl(span::some(ttl, "ttl_ms")?);
    }
    let claimed = match once.is_keyed() {
        // It comes to its end whether the client stays or not, and somebody who asks again may have
        // it already.
        true => claim.claim::<RawJson>().await,
        false => unless_gone(async move { claim.claim::<RawJson>().await }, give_back).await?,
    };
    match claimed {
        Ok(IdempotencyClaim::Won(won)) => Ok(Claimed::won(&won.detach())),
        Ok(IdempotencyClaim::Done(result)) => Ok(Claimed::done(result)),
        Ok(IdempotencyClaim::Held(holder)) => Err(held(&served, &holder).await?),
        Ok(IdempotencyClaim::Mismatch(first)) => {
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", first.to_string())
                .with("outcome", "mismatch")
                .with("by", &first.by))
        }
        Err(ClaimError::Failed { error, .. }) => Ok(Claimed::failed(error)),
        Err(error) => Err(refused(error)),
    }
}

/// The client has gone before the work began.
async fn give_back(claimed: Result<IdempotencyClaim<RawJson>, ClaimError>) {
    if let Ok(IdempotencyClaim::Won(won)) = claimed
        && let Err(error) = won.release().await
    {
        tracing::warn!(%error, "a claim that nobody has was not given back; its lease runs out");
    }
}

async fn held(served: &AppState, holder: &InProgress<RawJson>) -> Result<Problem, Problem> {
    let detail = format!(
        "claim {:?}: {:?} is at it; come back, or wait for the result with GET and wait_ms",
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

/// The same problem, with the advice to come back then.
pub(super) async fn until(
    served: &AppState,
    problem: Problem,
    until: Option<Timestamp>,
) -> Result<Problem, Problem> {
    let Some(until) = until else { return Ok(problem) };
    let left = until.since(served.store().now().await?);
    Ok(problem.retry_after(left.max(Duration::from_secs(1))))
}
