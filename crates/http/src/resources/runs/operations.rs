//! Operators' actions on runs: cancel, terminate, retry, resume, and resolve a step with an unknown
//! outcome.

use axum::Json as Answer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::runs::{RunStatus, Verdict};
use tidelock::store::RawJson;
use utoipa::ToSchema;

use super::{RunPath, TargetRun};
use crate::extract::{Body, MaybeBody};

/// A reason.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonDto {
    /// The reason, shown to later readers.
    #[serde(default)]
    #[schema(example = "ordered twice")]
    reason: String,
}

/// Request the cancellation of a run: its sleeps and waits end, and its clean-up runs. The run may
/// still complete first.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = "runs",
    params(RunPath),
    request_body = Option<ReasonDto>,
    responses(
        (status = 202, description = "Cancellation is requested"),
        (status = 409, description = "The run has ended"),
    ))]
pub(crate) async fn cancel(
    TargetRun(run): TargetRun,
    MaybeBody(why): MaybeBody<ReasonDto>,
) -> Result<StatusCode, Problem> {
    run.cancel(&why.reason).await?;
    Ok(StatusCode::ACCEPTED)
}

/// How a run is terminated.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TerminateRequest {
    /// The reason, shown to later readers.
    #[serde(default)]
    #[schema(example = "ordered twice")]
    reason: String,
    /// Whether its children are terminated, too, and theirs.
    #[serde(default)]
    children: bool,
}

/// Terminate a run at once, without clean-up; with `children`, its descendants as well. After an
/// interruption send the same again, and it continues with the children.
#[utoipa::path(post, path = "/v1/runs/{id}/terminate", tag = "runs",
    params(RunPath),
    request_body = Option<TerminateRequest>,
    responses(
        (status = 204, description = "Terminated"),
        (status = 409, description = "The run had already ended"),
    ))]
pub(crate) async fn terminate(
    TargetRun(run): TargetRun,
    MaybeBody(asked): MaybeBody<TerminateRequest>,
) -> Result<StatusCode, Problem> {
    match asked.children {
        true => drop(run.terminate_with_children(&asked.reason).await?),
        false => run.terminate(&asked.reason).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Retry a failed run from the step that failed.
#[utoipa::path(post, path = "/v1/runs/{id}/retry", tag = "runs",
    params(RunPath),
    request_body = Option<ReasonDto>,
    responses(
        (status = 204, description = "The run continues"),
        (status = 409, description = "The run has not failed, or cannot continue"),
    ))]
pub(crate) async fn retry(
    TargetRun(run): TargetRun,
    MaybeBody(why): MaybeBody<ReasonDto>,
) -> Result<StatusCode, Problem> {
    run.retry(&why.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The status of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunStatusDto {
    /// Which worker drives it, what it waits for, why it is parked, how it ended.
    #[schema(value_type = Object)]
    status: RunStatus,
}

/// Resume a parked run at once. A run that is driven, sleeps, waits, or has ended is left
/// unchanged.
#[utoipa::path(post, path = "/v1/runs/{id}/resume", tag = "runs",
    params(RunPath),
    responses((status = 200, body = RunStatusDto)))]
pub(crate) async fn resume(TargetRun(run): TargetRun) -> Result<Answer<RunStatusDto>, Problem> {
    Ok(Answer(RunStatusDto { status: run.resume().await? }))
}

/// The verdict on a step.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepVerdict)]
pub(crate) enum VerdictDto {
    /// It was not carried out: run it.
    Rerun,
    /// It was carried out, with this result.
    Done,
    /// It counts as failed.
    Fail,
}

/// A verdict on a step with an unknown outcome.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveRequest {
    /// The step.
    #[schema(min_length = 1, max_length = 100, example = "charge")]
    step: String,
    /// The verdict.
    verdict: VerdictDto,
    /// The result, if the step was carried out.
    #[schema(value_type = Option<Value>)]
    result: Option<RawJson>,
    /// The error, if it counts as failed.
    error: Option<String>,
}

impl ResolveRequest {
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

/// Resolve a step that must not be carried out twice and has an unknown outcome.
#[utoipa::path(post, path = "/v1/runs/{id}/resolve", tag = "runs",
    params(RunPath),
    request_body = ResolveRequest,
    responses(
        (status = 204, description = "Resolved"),
        (status = 409, description = "The step does not wait for a verdict, or the run has ended"),
    ))]
pub(crate) async fn resolve(
    TargetRun(run): TargetRun,
    Body(asked): Body<ResolveRequest>,
) -> Result<StatusCode, Problem> {
    let step = asked.step.clone();
    run.resolve(&step, asked.verdict()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
