//! Claims whose claimants are gone, and which operators free. Not by key and fence, which nobody
//! has any more, but by the whole name.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::WorkerName;
use tidelock::claims::Released;
use utoipa::ToSchema;

use super::until;
use crate::app_state::AppState;
use crate::extract::Body;
use crate::idempotency::OnceClaims;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// Which claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Abandoned {
    /// Its whole name, as lists have it under `key`.
    #[schema(min_length = 1, example = "idempotency/pay:42")]
    claim: String,
}

/// A claim that is free.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Freed {
    /// Its whole name.
    #[schema(example = "idempotency/pay:42")]
    claim: String,
    /// Who was at it last.
    #[schema(value_type = String)]
    by: WorkerName,
}

/// Free a claim of any kind whose claimant is gone: its lease has run out, and nothing came of it.
/// Whoever asks again takes such a claim over; this is for those of which nobody will.
#[utoipa::path(post, path = "/v1/abandoned-claims/release", tag = "claims", request_body = Abandoned,
    responses(
        (status = 200, description = "It is free", body = Freed),
        (status = 404, description = "There is no such claim", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "Somebody is at it, or it was done", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn release_abandoned(
    State(served): State<AppState>,
    OnceClaims(claims): OnceClaims,
    Body(Abandoned { claim }): Body<Abandoned>,
) -> Result<Answer<Freed>, Problem> {
    match claims.release_stale(&claim).await? {
        Released::Free { by } => Ok(Answer(Freed { claim, by })),
        Released::Held { by, until: end } => {
            let detail = format!(
                "claim {claim:?}: {by:?} is at it; it can be freed once its lease has run out"
            );
            let problem = Problem::conflict("claim-held", detail).with("by", by).with("until", end);
            Err(until(&served, problem, end).await?)
        }
        Released::Over => {
            let detail = format!(
                "claim {claim:?}: it was done, and what came of it is kept; there is nothing to free"
            );
            Err(Problem::conflict("claim-over", detail))
        }
        Released::Absent => {
            let detail =
                format!("claim {claim:?}: nobody is at it; GET /v1/claims tells which there are");
            Err(Problem::not_found("no-claim", detail))
        }
    }
}
