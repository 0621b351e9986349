//! Held claims: renew, complete, fail, release. All of them take the fence.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::claims::AttachedKey;
use tidelock::problem::Problem;
use tidelock::store::{Fence, RawJson};
use utoipa::ToSchema;

use super::super::durations;
use super::key_of;
use crate::app_state::AppState;
use crate::extract::{Body, InPath};

/// A request to renew a claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewRequest {
    /// The fence it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64, example = 3)]
    pub(in super::super) fence: Fence,
    /// How long the lease lasts from now on.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    pub(in super::super) lease_ms: u64,
}

/// A renewed claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RenewedDto {
    /// The fence it was won with.
    #[schema(value_type = u64, minimum = 1)]
    pub(in super::super) fence: Fence,
    /// When the lease expires.
    #[schema(value_type = String, format = DateTime)]
    pub(in super::super) until: Timestamp,
}

/// A request to complete a claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteRequest {
    /// The fence it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64, example = 3)]
    fence: Fence,
    /// The result for all callers.
    #[schema(value_type = Value)]
    result: RawJson,
}

/// A request to record a failure.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailRequest {
    /// The fence it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64, example = 3)]
    fence: Fence,
    /// The error for all callers.
    error: String,
}

/// A request to release a claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseRequest {
    /// The fence it was won with.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_i64, example = 3)]
    fence: Fence,
}

fn work(served: &AppState, key: &str, fence: Fence) -> AttachedKey {
    key_of(&served.tidelock().claims(), key).attach(fence)
}

/// Renew the lease of a claim.
#[utoipa::path(post, path = "/v1/claims/{key}/renew", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = RenewRequest,
    responses((status = 200, body = RenewedDto)))]
pub(crate) async fn renew(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<RenewRequest>,
) -> Result<Answer<RenewedDto>, Problem> {
    let lease = durations::lease(asked.lease_ms)?;
    let until = work(&served, &key, asked.fence).renew(lease).await?;
    Ok(Answer(RenewedDto { fence: asked.fence, until }))
}

/// Complete a claim: from now on all callers get the result. Repeating it with the same result
/// succeeds.
#[utoipa::path(post, path = "/v1/claims/{key}/complete", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = CompleteRequest,
    responses((status = 204, description = "Completed")))]
pub(crate) async fn complete(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<CompleteRequest>,
) -> Result<StatusCode, Problem> {
    work(&served, &key, asked.fence).complete(&asked.result).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Record a failure: from now on all callers get the error. To let another claimant try, release
/// the claim instead.
#[utoipa::path(post, path = "/v1/claims/{key}/fail", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = FailRequest,
    responses((status = 204, description = "Recorded")))]
pub(crate) async fn fail(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<FailRequest>,
) -> Result<StatusCode, Problem> {
    work(&served, &key, asked.fence).fail(&asked.error).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Release a claim: the next claimant does the work.
#[utoipa::path(post, path = "/v1/claims/{key}/release", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1)),
    request_body = ReleaseRequest,
    responses((status = 204, description = "Released")))]
pub(crate) async fn release(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    Body(asked): Body<ReleaseRequest>,
) -> Result<StatusCode, Problem> {
    work(&served, &key, asked.fence).release().await?;
    Ok(StatusCode::NO_CONTENT)
}
