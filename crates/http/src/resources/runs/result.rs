//! Waits for the end of a run.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::runs::{RunError, RunStatus};
use tidelock::store::RawJson;
use utoipa::{IntoParams, ToSchema};

use super::super::cancellation::unless_closing;
use super::super::durations::{self, Millis};
use super::{RunPath, RunStateDto, TargetRun};
use crate::app_state::AppState;
use crate::extract::InQuery;

/// How long to wait for a result.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// How long to wait; 0 by default, and no longer than the server's limit.
    #[param(value_type = Option<u64>)]
    wait_ms: Option<Millis>,
}

/// The result of a run, if it has ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunResult)]
pub(crate) struct RunResultDto {
    /// Whether it is open, or how it ended.
    state: RunStateDto,
    /// The result, if it completed.
    #[schema(value_type = Option<Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RawJson>,
    /// Why it failed, or was cancelled or terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Its status when the wait was over, if it is open: what it waits for, or why it is parked.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Box<RunStatus>>,
}

impl RunResultDto {
    fn ended(state: RunStateDto, error: String) -> Self {
        Self { state, result: None, error: Some(error), status: None }
    }
}

/// Wait for a run's end, and read its result.
#[utoipa::path(get, path = "/v1/runs/{id}/result", tag = "runs",
    params(RunPath, WaitQuery),
    responses(
        (status = 200, description = "The run has ended", body = RunResultDto),
        (status = 202, description = "The run is still open: ask again", body = RunResultDto),
    ))]
pub(crate) async fn result(
    State(served): State<AppState>,
    TargetRun(run): TargetRun,
    InQuery(asked): InQuery<WaitQuery>,
) -> Result<Response, Problem> {
    let wait = durations::wait(&served, asked.wait_ms);
    let open = !run.get().await?.state.is_ended();
    if open && wait.is_zero() {
        return Ok(still_open(None));
    }
    // A run that has ended is read once, however long that takes.
    let wait = if open { wait } else { served.limits().wait };
    let ended =
        match unless_closing(&served, run.result().even_if_parked().within(wait).into_future())
            .await?
        {
            Ok(result) => {
                let (state, result) = (RunStateDto::Completed, Some(result));
                RunResultDto { state, result, error: None, status: None }
            }
            Err(RunError::Failed { failure, .. }) => {
                RunResultDto::ended(RunStateDto::Failed, failure.error)
            }
            Err(RunError::Cancelled { reason, .. }) => {
                RunResultDto::ended(RunStateDto::Cancelled, reason)
            }
            Err(RunError::Terminated { reason, .. }) => {
                RunResultDto::ended(RunStateDto::Terminated, reason)
            }
            Err(RunError::StillOpen { status, .. }) => return Ok(still_open(status)),
            Err(error) => return Err(error.into()),
        };
    Ok(Answer(ended).into_response())
}

fn still_open(status: Option<Box<RunStatus>>) -> Response {
    let open = RunResultDto { state: RunStateDto::Open, result: None, error: None, status };
    (StatusCode::ACCEPTED, Answer(open)).into_response()
}
