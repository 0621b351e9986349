//! What operators do to runs: cancel, terminate, retry, resume, and say what became of an ambiguous
//! step.

use axum::Json as Answer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::RawJson;
use tidelock::runs::{RunStatus, Verdict};
use utoipa::ToSchema;

use super::{ThisRun, Which, refused};
use crate::extract::{Body, MaybeBody};
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// Why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonDto {
    /// For whoever asks later.
    #[serde(default)]
    reason: String,
}

/// Ask a run to cancel: its sleeps and waits end, and its clean-up runs. It may also complete, if
/// it was quicker.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = "runs",
    params(Which),
    request_body = Option<ReasonDto>,
    responses(
        (status = 202, description = "It is asked to"),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "It has ended", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn cancel(
    ThisRun(run): ThisRun,
    MaybeBody(why): MaybeBody<ReasonDto>,
) -> Result<StatusCode, Problem> {
    run.cancel(&why.reason).await.map_err(refused)?;
    Ok(StatusCode::ACCEPTED)
}

/// End a run from outside, at once and without clean-up.
#[utoipa::path(post, path = "/v1/runs/{id}/terminate", tag = "runs",
    params(Which),
    request_body = Option<ReasonDto>,
    responses(
        (status = 204, description = "It has ended"),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "It has ended before", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn terminate(
    ThisRun(run): ThisRun,
    MaybeBody(why): MaybeBody<ReasonDto>,
) -> Result<StatusCode, Problem> {
    run.terminate(&why.reason).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Let a failed run go on from the step that failed.
#[utoipa::path(post, path = "/v1/runs/{id}/retry", tag = "runs",
    params(Which),
    request_body = Option<ReasonDto>,
    responses(
        (status = 204, description = "It goes on"),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "It has not failed, or cannot go on", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn retry(
    ThisRun(run): ThisRun,
    MaybeBody(why): MaybeBody<ReasonDto>,
) -> Result<StatusCode, Problem> {
    run.retry(&why.reason).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Where a run stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunStatusDto {
    /// Who drives it, what it waits for, why it is parked, how it ended.
    #[schema(value_type = Object)]
    standing: RunStatus,
}

/// Let a parked run go on at once. One that somebody drives, that sleeps or waits, or that has
/// ended is left as it is.
#[utoipa::path(post, path = "/v1/runs/{id}/resume", tag = "runs",
    params(Which),
    responses(
        (status = 200, body = RunStatusDto),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn resume(ThisRun(run): ThisRun) -> Result<Answer<RunStatusDto>, Problem> {
    Ok(Answer(RunStatusDto { standing: run.resume().await.map_err(refused)? }))
}

/// What became of a step.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepVerdict)]
pub(crate) enum VerdictDto {
    /// It was not done: do it.
    Rerun,
    /// It was done, with this result.
    Done,
    /// It counts as failed.
    Fail,
}

/// What became of a step of which nobody knows whether it was done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resolving {
    /// Which step.
    #[schema(min_length = 1, max_length = 100)]
    step: String,
    /// What became of it.
    verdict: VerdictDto,
    /// With which result, if it was done.
    #[schema(value_type = Option<Value>)]
    result: Option<RawJson>,
    /// Why it counts as failed.
    error: Option<String>,
}

impl Resolving {
    fn verdict(self) -> Result<Verdict, Problem> {
        match (self.verdict, self.result, self.error) {
            (VerdictDto::Rerun, None, None) => Ok(Verdict::Rerun),
            (VerdictDto::Done, result, None) => {
                Ok(Verdict::Done(result.map_or_else(|| RawJson::new(&()), Ok)?))
            }
            (VerdictDto::Fail, None, Some(error)) => Ok(Verdict::Fail(error)),
            _ => {
                let detail = "a result goes with the verdict done, an error with the verdict fail, and neither with rerun";
                Err(Problem::bad_request("verdict-invalid", detail))
            }
        }
    }
}

/// Say what became of a step that must not be done twice, and of which nobody knows whether it was
/// done.
#[utoipa::path(post, path = "/v1/runs/{id}/resolve", tag = "runs",
    params(Which),
    request_body = Resolving,
    responses(
        (status = 204, description = "It is said"),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "The step does not wait for a verdict, or the run has ended", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn resolve(
    ThisRun(run): ThisRun,
    Body(asked): Body<Resolving>,
) -> Result<StatusCode, Problem> {
    let step = asked.step.clone();
    run.resolve(&step, asked.verdict()?).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}
