//! Reads the state of an idempotency key without claiming it, and waits for its result.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::claims::{ClaimError, InProgress, Peek};
use tidelock::problem::Problem;
use tidelock::store::{Fence, RawJson, WorkerName};
use utoipa::{IntoParams, ToSchema};

use super::super::cancellation::unless_closing;
use super::super::durations::{self, Millis};
use super::{ClaimStateDto, key_of};
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};

/// How long to wait for a result.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// How long to wait while the key is claimed; 0 by default, and no longer than the server's
    /// limit.
    #[param(value_type = Option<u64>)]
    wait_ms: Option<Millis>,
}

/// The state of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyStateDto {
    /// Its state.
    state: ClaimStateDto,
    /// Its claimant.
    #[schema(value_type = Option<String>)]
    by: Option<WorkerName>,
    /// The claim's fence.
    #[schema(value_type = Option<u64>, minimum = 1)]
    fence: Option<Fence>,
    /// When it was claimed.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// When the lease expires, unless it is renewed.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// The result, once there is one.
    #[schema(value_type = Option<Value>)]
    result: Option<RawJson>,
    /// Why it failed.
    error: Option<String>,
}

impl KeyStateDto {
    fn in_state(state: ClaimStateDto) -> Self {
        Self { state, by: None, fence: None, since: None, until: None, result: None, error: None }
    }

    fn pending(holder: &InProgress<RawJson>, fence: Fence) -> Self {
        let (by, since, until) = (Some(holder.by().clone()), holder.since(), holder.until());
        Self { by, fence: Some(fence), since, until, ..Self::in_state(ClaimStateDto::Pending) }
    }

    fn done(result: RawJson) -> Self {
        Self { result: Some(result), ..Self::in_state(ClaimStateDto::Done) }
    }

    fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::in_state(ClaimStateDto::Failed) }
    }
}

/// Read a key without claiming it, and wait for its result if it is claimed.
#[utoipa::path(get, path = "/v1/claims/{key}", tag = "claims",
    params(("key" = String, Path, description = "The key", min_length = 1), WaitQuery),
    responses(
        (status = 200, description = "The key is claimed, or has a result", body = KeyStateDto),
        (status = 404, description = "The key is free: claim it"),
    ))]
pub(crate) async fn peek(
    State(served): State<AppState>,
    InPath(key): InPath<String>,
    InQuery(asked): InQuery<WaitQuery>,
) -> Result<Answer<KeyStateDto>, Problem> {
    let claim = key_of(&served.tidelock().claims(), &key);
    let wait = durations::wait(&served, asked.wait_ms);
    let (holder, fence) = match claim.peek::<RawJson>().await? {
        Peek::Held(holder, fence) => (holder, fence),
        Peek::Done(result) => return Ok(Answer(KeyStateDto::done(result))),
        Peek::Failed(error) => return Ok(Answer(KeyStateDto::failed(error))),
        Peek::Free => return Err(free(&key)),
    };
    if wait.is_zero() {
        return Ok(Answer(KeyStateDto::pending(&holder, fence)));
    }
    match unless_closing(&served, holder.wait(wait)).await? {
        Ok(result) => Ok(Answer(KeyStateDto::done(result))),
        Err(ClaimError::Failed { error, .. }) => Ok(Answer(KeyStateDto::failed(error))),
        Err(ClaimError::StillHeld { .. }) => Ok(Answer(KeyStateDto::pending(&holder, fence))),
        Err(ClaimError::Free { .. }) => Err(free(&key)),
        Err(error) => Err(error.into()),
    }
}

fn free(key: &str) -> Problem {
    let detail = format!("{key:?} is not claimed: claim it with POST");
    Problem::not_found("claim-free", detail)
}
