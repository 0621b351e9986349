//! Runs: start, signal, query, wait; and operators' actions. Nothing here drives a run: a worker
//! with its workflow does.

mod bulk;
mod history;
mod operations;
mod result;
mod start;

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::{FromRequestParts, State};
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::runs::{RunCursor, RunFilter, RunHandle, RunInfo, RunState, RunStatus};
use tidelock::store::RawJson;
use utoipa::{IntoParams, ToSchema};

use super::cursor::Cursor;
use super::mirror::mirror;
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::idempotency::IdempotencyScope;
use crate::paging::Page;

pub(crate) use bulk::*;
pub(crate) use history::*;
pub(crate) use operations::*;
pub(crate) use result::*;
pub(crate) use start::*;

/// The run of the path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RunPath {
    /// Its id.
    #[param(min_length = 1, max_length = 200)]
    id: String,
}

/// The run of a request. Operations on it under an idempotency key happen once.
#[derive(Debug)]
pub(crate) struct TargetRun(RunHandle);

impl FromRequestParts<AppState> for TargetRun {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, served: &AppState) -> Result<Self, Problem> {
        let InPath(which): InPath<RunPath> = InPath::from_request_parts(parts, served).await?;
        Ok(Self(IdempotencyScope::of(parts).run(served.tidelock().runs().run(&which.id))))
    }
}

mirror! {
    /// The state of a run.
    RunStateDto as RunState of RunState { Open, Completed, Failed, Cancelled, Terminated }
}

/// A summary of a run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunDto {
    /// Its id.
    #[schema(example = "order-7")]
    id: String,
    /// Its workflow.
    #[schema(example = "checkout")]
    workflow: String,
    /// The version of the workflow that it follows.
    version: u32,
    /// Whether it is open, or how it ended.
    state: RunStateDto,
    /// When it was started.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// When it times out.
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline_at: Option<Timestamp>,
    /// The parent run, which started it and waits for it.
    parent: Option<String>,
    /// Attributes to filter lists by.
    attributes: BTreeMap<String, String>,
    /// The number of its generations: 1, plus one for each continue-as-new.
    generation: u32,
    /// Its status: which worker drives it, what it waits for, why it is parked, how it ended.
    /// Absent in lists.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RunStatus>,
}

impl From<RunInfo> for RunDto {
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
            status: None,
        }
    }
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// In this state.
    #[param(inline)]
    state: Option<RunStateDto>,
    /// Of this workflow.
    #[param(min_length = 1, max_length = 64)]
    workflow: Option<String>,
    /// With this attribute, written `name=value`.
    #[param(example = "shop=7")]
    attribute: Option<String>,
    /// Started at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Started before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Timestamp>,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<RunCursor>>,
    /// The maximum number of runs.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl ListQuery {
    fn filter(&self) -> Result<RunFilter, Problem> {
        let mut filter = RunFilter::all();
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
        Ok(self.before.into_iter().fold(filter, RunFilter::before))
    }
}

fn no_attribute() -> Problem {
    Problem::bad_request("attribute-invalid", "an attribute is written name=value")
}

/// List runs, newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(ListQuery), responses((status = 200, body = Page<RunDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<RunDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let runs = served.tidelock().runs().list(&asked.filter()?);
    let page = runs.after(asked.after.map(|Cursor(place)| place)).limit(limit).await?;
    Ok(Answer(Page::new(page.items.into_iter().map(RunDto::from).collect(), page.next.map(Cursor))))
}

/// Read a run and its status.
#[utoipa::path(get, path = "/v1/runs/{id}", tag = "runs",
    params(RunPath),
    responses(
        (status = 200, body = RunDto),
        (status = 404, description = "There is no such run"),
        (status = 410, description = "The run was removed"),
    ))]
pub(crate) async fn show(TargetRun(run): TargetRun) -> Result<Answer<RunDto>, Problem> {
    let (info, status) = (run.get().await?, run.status().await?);
    Ok(Answer(RunDto { status: Some(status), ..info.into() }))
}

/// A run's published value.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PublishedDto {
    /// The newest published value, if any.
    #[schema(value_type = Option<Value>)]
    published: Option<RawJson>,
}

/// Query a run: read its newest published value.
#[utoipa::path(get, path = "/v1/runs/{id}/published", tag = "runs",
    params(RunPath),
    responses((status = 200, body = PublishedDto)))]
pub(crate) async fn published(TargetRun(run): TargetRun) -> Result<Answer<PublishedDto>, Problem> {
    let published = run.published().await?;
    Ok(Answer(PublishedDto { published }))
}
