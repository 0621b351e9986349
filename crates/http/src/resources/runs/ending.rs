//! Waiting for the end of a run.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Json;
use tidelock::runs::{RunError, Standing};
use utoipa::{IntoParams, ToSchema};

use super::super::span::{self, Millis};
use super::super::waiting::unless_closing;
use super::{StateShown, ThisRun, Which, refused};
use crate::extract::InQuery;
use crate::problem::{Details, PROBLEM_JSON, Problem};
use crate::served::Served;

/// How long to wait for a result.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Waiting {
    /// Wait so long for it to end; not at all, if this is left out, and no longer than the server
    /// lets anybody wait.
    #[param(value_type = Option<u64>)]
    wait_ms: Option<Millis>,
}

/// How a run ended, if it has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunResult)]
pub(crate) struct ResultShown {
    /// Whether it is open, or how it ended.
    state: StateShown,
    /// What it came to, if it completed.
    #[schema(value_type = Option<Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    /// Why it failed, or was cancelled or terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Where it stood when the wait was over, if it is open: what it waits for, or why it is
    /// parked.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<Box<Standing>>,
}

impl ResultShown {
    fn ended(state: StateShown, error: String) -> Self {
        Self { state, result: None, error: Some(error), standing: None }
    }
}

/// Wait for a run's end, and get its result.
#[utoipa::path(get, path = "/v1/runs/{id}/result", tag = "runs",
    params(Which, Waiting),
    responses(
        (status = 200, description = "It has ended", body = ResultShown),
        (status = 202, description = "It is still open: ask again", body = ResultShown),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn result(
    State(served): State<Served>,
    ThisRun(run): ThisRun,
    InQuery(asked): InQuery<Waiting>,
) -> Result<Response, Problem> {
    let wait = span::wait(&served, asked.wait_ms);
    let open = !run.get().await.map_err(refused)?.state.is_ended();
    if open && wait.is_zero() {
        return Ok(still_open(None));
    }
    // One that has ended is looked at once, however long that takes.
    let wait = if open { wait } else { served.limits().wait };
    let ended = match unless_closing(
        &served,
        run.result::<Json>().even_if_parked().within(wait).into_future(),
    )
    .await?
    {
        Ok(result) => {
            let (state, result) = (StateShown::Completed, Some(result));
            ResultShown { state, result, error: None, standing: None }
        }
        Err(RunError::Failed { failure, .. }) => {
            ResultShown::ended(StateShown::Failed, failure.error)
        }
        Err(RunError::Cancelled { reason, .. }) => {
            ResultShown::ended(StateShown::Cancelled, reason)
        }
        Err(RunError::Terminated { reason, .. }) => {
            ResultShown::ended(StateShown::Terminated, reason)
        }
        Err(RunError::StillOpen { standing, .. }) => return Ok(still_open(standing)),
        Err(error) => return Err(refused(error)),
    };
    Ok(Answer(ended).into_response())
}

fn still_open(standing: Option<Box<Standing>>) -> Response {
    let open = ResultShown { state: StateShown::Open, result: None, error: None, standing };
    (StatusCode::ACCEPTED, Answer(open)).into_response()
}
