//! Abandoned claims, which operators free. By the whole name, because the fence is lost with the
//! claimant.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::claims::Released;
use tidelock::problem::Problem;
use tidelock::store::WorkerName;
use utoipa::ToSchema;

use super::until;
use crate::app_state::AppState;
use crate::extract::Body;
use crate::idempotency::OnceClaims;

/// A request to free an abandoned claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseAbandonedRequest {
    /// Its whole name, `key` in lists.
    #[schema(min_length = 1, example = "idempotency/pay:42")]
    claim: String,
}

/// A freed claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReleasedClaimDto {
    /// Its whole name.
    #[schema(example = "idempotency/pay:42")]
    claim: String,
    /// Its last claimant.
    #[schema(value_type = String)]
    by: WorkerName,
}

/// Free an abandoned claim of any kind: one whose lease has expired without a result. The next
/// claimant takes such a claim over anyway; this is for claims that are never requested again.
#[utoipa::path(post, path = "/v1/abandoned-claims/release", tag = "claims", request_body = ReleaseAbandonedRequest,
    responses(
        (status = 200, description = "The claim is free", body = ReleasedClaimDto),
        (status = 404, description = "There is no such claim"),
        (status = 409, description = "The claim is held, or the work was done"),
    ))]
pub(crate) async fn release_abandoned(
    State(served): State<AppState>,
    OnceClaims(claims): OnceClaims,
    Body(ReleaseAbandonedRequest { claim }): Body<ReleaseAbandonedRequest>,
) -> Result<Answer<ReleasedClaimDto>, Problem> {
    match claims.release_stale(&claim).await? {
        Released::Free { by } => Ok(Answer(ReleasedClaimDto { claim, by })),
        Released::Held { by, until: end } => {
            let detail = format!(
                "claim {claim:?}: held by {by:?}; it can be freed once its lease has expired"
            );
            let problem = Problem::conflict("claim-held", detail).with("by", by).with("until", end);
            Err(until(&served, problem, end).await?)
        }
        Released::Over => {
            let detail = format!(
                "claim {claim:?}: the work was done and its result is kept; there is nothing to free"
            );
            Err(Problem::conflict("claim-over", detail))
        }
        Released::Absent => {
            let detail =
                format!("claim {claim:?}: it is not held; GET /v1/claims lists those that are");
            Err(Problem::not_found("no-claim", detail))
        }
    }
}
