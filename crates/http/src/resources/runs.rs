//! Runs: start, signal, ask, wait; and what operators do to them. Nothing here drives a run: a worker with its workflow does.

mod operating;
mod refused;
mod starting;

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidelock::runs::{Happened, RunCursor, RunError, RunFilter, RunHandle, RunInfo, RunState, Standing};
use tidelock::{Json, Timestamp, Version};
use utoipa::{IntoParams, ToSchema};

use super::cursor::Cursor;
use super::span;
use super::waiting::unless_closing;
use crate::extract::{InPath, InQuery};
use crate::paging::Page;
use crate::problem::{Details, PROBLEM_JSON, Problem};
use crate::served::Served;

pub(crate) use operating::*;
use refused::refused;
pub(crate) use starting::*;

fn run(served: &Served, id: &str) -> RunHandle {
    served.tidelock().runs().run(id)
}

/// What state a run is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RunState)]
pub(crate) enum StateShown {
    Open,
    Completed,
    Failed,
    Cancelled,
    Terminated,
}

impl From<RunState> for StateShown {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Open => Self::Open,
            RunState::Completed => Self::Completed,
            RunState::Failed => Self::Failed,
            RunState::Cancelled => Self::Cancelled,
            RunState::Terminated => Self::Terminated,
        }
    }
}

impl From<StateShown> for RunState {
    fn from(state: StateShown) -> Self {
        match state {
            StateShown::Open => Self::Open,
            StateShown::Completed => Self::Completed,
            StateShown::Failed => Self::Failed,
            StateShown::Cancelled => Self::Cancelled,
            StateShown::Terminated => Self::Terminated,
        }
    }
}

/// What a run is, in short.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunShown {
    /// Its id.
    #[schema(example = "order-7")]
    id: String,
    /// Its workflow.
    #[schema(example = "checkout")]
    workflow: String,
    /// The version of the workflow that it follows.
    version: u32,
    /// Whether it is open, or how it ended.
    #[schema(inline)]
    state: StateShown,
    /// When it was started.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// When it is out of time.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline_at: Option<Timestamp>,
    /// The run that started it and waits for it.
    parent: Option<String>,
    /// What it is found by in listings.
    attributes: BTreeMap<String, String>,
    /// How often it has begun: 1, and one more each time that it continued as new.
    generation: u32,
    /// Where it stands: who drives it, what it waits for, why it is parked, how it ended. Not in listings.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<Standing>,
}

impl From<RunInfo> for RunShown {
    fn from(run: RunInfo) -> Self {
        Self {
            id: run.run.as_str().to_owned(),
            workflow: run.workflow.as_str().to_owned(),
            version: run.version.0,
            state: run.state.into(),
            started_at: run.started_at,
            ended_at: run.ended_at,
            deadline_at: run.deadline,
            parent: run.parent.map(|parent| parent.run.as_str().to_owned()),
            attributes: run.attributes,
            generation: run.generation,
            standing: None,
        }
    }
}

/// Which runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// In this state.
    #[param(inline)]
    state: Option<StateShown>,
    /// Of this workflow.
    #[param(min_length = 1, max_length = 64)]
    workflow: Option<String>,
    /// With this attribute, written `name=value`.
    #[param(max_length = 400, example = "shop=7")]
    attribute: Option<String>,
    /// Started at this moment or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Started before this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Timestamp>,
    /// Where to go on: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<RunCursor>>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl Listed {
    fn filter(self, limit: usize) -> Result<RunFilter, Problem> {
        let mut filter = RunFilter::all().limit(limit);
        if let Some(state) = self.state {
            filter = filter.state(state.into());
        }
        if let Some(workflow) = &self.workflow {
            filter = filter.workflow(workflow);
        }
        if let Some(attribute) = &self.attribute {
            let (name, value) = attribute.split_once('=').ok_or_else(no_attribute)?;
            filter = filter.attribute(name, value);
        }
        filter = self.since.into_iter().fold(filter, RunFilter::since);
        filter = self.before.into_iter().fold(filter, RunFilter::before);
        Ok(self.after.into_iter().fold(filter, |filter, Cursor(place)| filter.after(place)))
    }
}

fn no_attribute() -> Problem {
    Problem::bad_request("attribute-invalid", "an attribute is written name=value")
}

/// List runs, newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(Listed), responses((status = 200, body = Page<RunShown>)))]
pub(crate) async fn list(
    State(served): State<Served>,
    InQuery(asked): InQuery<Listed>,
) -> Result<Answer<Page<RunShown>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let filter = asked.filter(limit)?;
    let page = served.tidelock().runs().list(&filter).await.map_err(refused)?;
    Ok(Answer(Page::new(page.runs.into_iter().map(RunShown::from).collect(), page.next.map(Cursor))))
}

/// What a run is, and where it stands.
#[utoipa::path(get, path = "/v1/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 200)),
    responses(
        (status = 200, body = RunShown),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn show(
    State(served): State<Served>,
    InPath(id): InPath<String>,
) -> Result<Answer<RunShown>, Problem> {
    let run = run(&served, &id);
    let (info, standing) = (run.get().await.map_err(refused)?, run.standing().await.map_err(refused)?);
    Ok(Answer(RunShown { standing: Some(standing), ..info.into() }))
}

/// Which part of a history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Reading {
    /// Where to go on: `next` of the page before.
    #[param(value_type = Option<u64>, minimum = 1)]
    after: Option<Version>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// One thing that happened in a run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Happened)]
pub(crate) struct HappenedShown {
    /// Its place in the run's history.
    #[schema(value_type = u64, minimum = 1)]
    version: Version,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    recorded_at: Timestamp,
    /// What it was: `started`, `step`, `timer`, `waiting`, `signalled`, `completed`…
    #[schema(example = "step")]
    kind: String,
    /// What the run calls the step, the sleep, the wait or the child that it belongs to, if it does.
    name: Option<String>,
    /// All that was recorded.
    #[schema(value_type = Object)]
    data: Json,
}

impl From<Happened> for HappenedShown {
    fn from(entry: Happened) -> Self {
        let Happened { version, recorded_at, kind, name, data, .. } = entry;
        Self { version, recorded_at, kind, name, data }
    }
}

/// What happened in a run, in order: steps, waits, attempts, signals, its end.
#[utoipa::path(get, path = "/v1/runs/{id}/history", tag = "runs",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 200), Reading),
    responses(
        (status = 200, body = Page<HappenedShown>),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn history(
    State(served): State<Served>,
    InPath(id): InPath<String>,
    InQuery(asked): InQuery<Reading>,
) -> Result<Answer<Page<HappenedShown>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let page = run(&served, &id).timeline(asked.after, limit).await.map_err(refused)?;
    Ok(Answer(Page::new(page.entries.into_iter().map(HappenedShown::from).collect(), page.next)))
}

/// What a run says about itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Published {
    /// The newest that it has published; nothing, if it has not.
    #[schema(value_type = Option<Value>)]
    published: Option<Json>,
}

/// Ask a run: the newest that it has published.
#[utoipa::path(get, path = "/v1/runs/{id}/published", tag = "runs",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 200)),
    responses(
        (status = 200, body = Published),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn published(
    State(served): State<Served>,
    InPath(id): InPath<String>,
) -> Result<Answer<Published>, Problem> {
    let published = run(&served, &id).published().await.map_err(refused)?;
    Ok(Answer(Published { published }))
}

/// How long to wait for a result.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Waiting {
    /// Wait so long for it to end; not at all, if this is left out, and no longer than the server lets anybody wait.
    wait_ms: Option<u64>,
}

/// How a run ended, if it has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunResult)]
pub(crate) struct ResultShown {
    /// Whether it is open, or how it ended.
    #[schema(inline)]
    state: StateShown,
    /// What it came to, if it completed.
    #[schema(value_type = Option<Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    /// Why it failed, or was cancelled or terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl ResultShown {
    fn ended(state: StateShown, error: String) -> Self {
        Self { state, result: None, error: Some(error) }
    }
}

/// Wait for a run's end, and get its result.
#[utoipa::path(get, path = "/v1/runs/{id}/result", tag = "runs",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 200), Waiting),
    responses(
        (status = 200, description = "It has ended", body = ResultShown),
        (status = 202, description = "It is still open: ask again", body = ResultShown),
        (status = 404, description = "There is no such run", body = Details, content_type = PROBLEM_JSON),
        (status = 410, description = "There was, and it was removed", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn result(
    State(served): State<Served>,
    InPath(id): InPath<String>,
    InQuery(asked): InQuery<Waiting>,
) -> Result<Response, Problem> {
    let run = run(&served, &id);
    let wait = span::wait(&served, asked.wait_ms);
    let open = !run.get().await.map_err(refused)?.state.is_ended();
    if open && wait.is_zero() {
        return Ok(still_open());
    }
    // One that has ended is looked at once, however long that takes.
    let wait = if open { wait } else { served.limits().wait };
    let ended = match unless_closing(&served, run.result::<Json>().within(wait).into_future()).await? {
        Ok(result) => ResultShown { state: StateShown::Completed, result: Some(result), error: None },
        Err(RunError::Failed { failure, .. }) => ResultShown::ended(StateShown::Failed, failure.error),
        Err(RunError::Cancelled { reason, .. }) => ResultShown::ended(StateShown::Cancelled, reason),
        Err(RunError::Terminated { reason, .. }) => ResultShown::ended(StateShown::Terminated, reason),
        Err(RunError::StillOpen { .. }) => return Ok(still_open()),
        Err(error) => return Err(refused(error)),
    };
    Ok(Answer(ended).into_response())
}

fn still_open() -> Response {
    let open = ResultShown { state: StateShown::Open, result: None, error: None };
    (StatusCode::ACCEPTED, Answer(open)).into_response()
}
