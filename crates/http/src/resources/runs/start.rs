//! Starts runs, and sends them signals.

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use tidelock::problem::Problem;
use tidelock::runs::StartRun;
use tidelock::store::RawJson;
use utoipa::ToSchema;

use super::super::durations::{self, Millis};
use super::{RunDto, RunPath, TargetRun};
use crate::app_state::AppState;
use crate::extract::{Body, InPath};

/// A request to start a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRequest {
    /// The workflow.
    #[schema(min_length = 1, max_length = 64, example = "checkout")]
    pub(in super::super) workflow: String,
    /// The input of the workflow's function.
    #[schema(value_type = Value)]
    pub(in super::super) input: RawJson,
    /// The version of the workflow; by default the newest that any process has registered.
    version: Option<u32>,
    /// Attributes to filter lists by.
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    /// The run fails as timed out unless it ends within this time.
    #[schema(value_type = Option<u64>, minimum = 1)]
    deadline_ms: Option<Millis>,
    /// How long the run is kept after it has ended; overrides the workflow's retention.
    #[schema(value_type = Option<u64>, minimum = 1)]
    retention_ms: Option<Millis>,
}

impl StartRequest {
    /// Adds everything besides workflow and input.
    pub(in super::super) fn options<O>(
        &self,
        mut start: StartRun<O>,
    ) -> Result<StartRun<O>, Problem> {
        if let Some(version) = self.version {
            start = start.version(version);
        }
        for (name, value) in &self.attributes {
            start = start.attribute(name, value);
        }
        if let Some(millis) = self.deadline_ms {
            start = start.deadline(durations::some(millis, "deadline_ms")?);
        }
        if let Some(millis) = self.retention_ms {
            start = start.retention(durations::some(millis, "retention_ms")?);
        }
        Ok(start)
    }
}

/// Start a run under an id of your choice. Repeating it returns the same run.
#[utoipa::path(post, path = "/v1/runs/{id}", tag = "runs",
    params(RunPath),
    request_body = StartRequest,
    responses(
        (status = 201, description = "Started", body = RunDto),
        (status = 200, description = "The run had already been started", body = RunDto),
        (status = 409, description = "Another run has this id, or the workflow is not registered"),
    ))]
pub(crate) async fn start(
    State(served): State<AppState>,
    InPath(RunPath { id }): InPath<RunPath>,
    Body(asked): Body<StartRequest>,
) -> Result<Response, Problem> {
    let start = served.tidelock().start(&asked.workflow, &id, &asked.input);
    let begun = asked.options(start)?.outcome().await?;
    let status = if begun.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let info = begun.run.get().await?;
    Ok((status, Answer(RunDto::from(info))).into_response())
}

/// A signal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalRequest {
    /// The name that the run waits for.
    #[schema(min_length = 1, max_length = 100, example = "approve")]
    pub(in super::super) name: String,
    /// The payload.
    #[schema(value_type = Option<Value>)]
    pub(in super::super) payload: Option<RawJson>,
    /// Sent again under this id, the signal is received once; by default the `Idempotency-Key` has
    /// this effect.
    #[schema(min_length = 1)]
    pub(in super::super) id: Option<String>,
    /// Send it even if there is no such run: the run receives it when it is started.
    #[serde(default)]
    pub(in super::super) early: bool,
}

/// Send a signal to a run. It is stored before the response, whether the run waits for it or not.
#[utoipa::path(post, path = "/v1/runs/{id}/signals", tag = "runs",
    params(RunPath),
    request_body = SignalRequest,
    responses(
        (status = 204, description = "Stored"),
        (status = 404, description = "There is no such run, and the signal is not marked as early"),
        (status = 409, description = "The run has ended, or a signal with this id has other content"),
    ))]
pub(crate) async fn signal(
    TargetRun(run): TargetRun,
    Body(asked): Body<SignalRequest>,
) -> Result<StatusCode, Problem> {
    let signal = run.signal(&asked.name, &asked.payload);
    let signal = if asked.early { signal } else { signal.to_started() };
    match asked.id {
        Some(id) => signal.id(id).await,
        None => signal.await,
    }?;
    Ok(StatusCode::NO_CONTENT)
}
