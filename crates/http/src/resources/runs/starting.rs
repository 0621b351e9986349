//! Starting runs, and sending them signals.

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use tidelock::RawJson;
use utoipa::ToSchema;

use super::super::span::{self, Millis};
use super::{RunDto, ThisRun, Which, refused};
use crate::app_state::AppState;
use crate::extract::{Body, InPath};
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// Which run is started.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Starting {
    /// Of which workflow.
    #[schema(min_length = 1, max_length = 64, example = "checkout")]
    workflow: String,
    /// What its function is given.
    #[schema(value_type = Value)]
    input: RawJson,
    /// On which version of the workflow; the newest that any process has registered, if this is
    /// left out.
    version: Option<u32>,
    /// What it is found by in listings.
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    /// It fails as timed out unless it has ended by so long from now.
    #[schema(value_type = Option<u64>, minimum = 1)]
    deadline_ms: Option<Millis>,
    /// Kept for so long after it has ended, whatever its workflow says.
    #[schema(value_type = Option<u64>, minimum = 1)]
    retention_ms: Option<Millis>,
}

/// Start a run under an id of your choice. Sent again, it is the same run.
#[utoipa::path(post, path = "/v1/runs/{id}", tag = "runs",
    params(Which),
    request_body = Starting,
    responses(
        (status = 201, description = "It is started", body = RunDto),
        (status = 200, description = "It was started before", body = RunDto),
        (status = 409, description = "There is another run under this id, or nobody has registered the workflow", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn start(
    State(served): State<AppState>,
    InPath(Which { id }): InPath<Which>,
    Body(asked): Body<Starting>,
) -> Result<Response, Problem> {
    let mut start = served.tidelock().runs().start(&asked.workflow, &id, &asked.input);
    if let Some(version) = asked.version {
        start = start.version(version);
    }
    for (name, value) in asked.attributes {
        start = start.attribute(name, value);
    }
    if let Some(millis) = asked.deadline_ms {
        start = start.deadline(span::some(millis, "deadline_ms")?);
    }
    if let Some(millis) = asked.retention_ms {
        start = start.retention(span::some(millis, "retention_ms")?);
    }
    let begun = start.outcome().await.map_err(refused)?;
    let status = if begun.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let info = begun.run.get().await.map_err(refused)?;
    Ok((status, Answer(RunDto::from(info))).into_response())
}

/// A signal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signalling {
    /// Its name, by which the run waits for it.
    #[schema(min_length = 1, max_length = 100, example = "approve")]
    name: String,
    /// What it says.
    #[schema(value_type = Option<Value>)]
    payload: Option<RawJson>,
    /// Sent again under it, it is received once; if it is left out, that is so under an
    /// `Idempotency-Key`.
    #[schema(min_length = 1)]
    id: Option<String>,
    /// Send it though there is no such run: it is there when the run is started.
    #[serde(default)]
    early: bool,
}

/// Send a run a signal. It is stored when this is answered, whether anybody waits for it or not.
#[utoipa::path(post, path = "/v1/runs/{id}/signals", tag = "runs",
    params(Which),
    request_body = Signalling,
    responses(
        (status = 204, description = "It is stored"),
        (status = 404, description = "There is no such run, and the signal is not said to be early", body = Details, content_type = PROBLEM_JSON),
        (status = 409, description = "The run has ended, or a signal with this id says something else", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was such a run, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn signal(
    ThisRun(run): ThisRun,
    Body(asked): Body<Signalling>,
) -> Result<StatusCode, Problem> {
    let signal = run.signal(&asked.name, &asked.payload);
    let signal = if asked.early { signal } else { signal.to_started() };
    match asked.id {
        Some(id) => signal.id(id).await,
        None => signal.await,
    }
    .map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}
