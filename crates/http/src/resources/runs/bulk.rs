//! Bulk operations on runs: cancel, terminate or retry those that a filter selects.

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::runs::{RunAction, RunBatch, RunCursor, RunFilter};
use utoipa::ToSchema;

use super::super::bulk_action::no_such;
use super::super::cursor::Cursor;
use crate::app_state::AppState;
use crate::extract::Body;
use crate::idempotency::IdempotencyScope;

/// The runs of a batch, unless another number is asked for.
const BATCH: usize = 100;

/// What is done.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RunAction)]
pub(crate) enum RunActionDto {
    /// Open runs are asked to cancel and to clean up.
    Cancel,
    /// Open runs end at once, without clean-up.
    Terminate,
    /// Failed runs continue from the step that failed.
    Retry,
}

impl From<RunActionDto> for RunAction {
    fn from(action: RunActionDto) -> Self {
        match action {
            RunActionDto::Cancel => Self::Cancel,
            RunActionDto::Terminate => Self::Terminate,
            RunActionDto::Retry => Self::Retry,
        }
    }
}

/// Which runs are operated on, how, and why. At least one criterion is needed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkRunsRequest {
    /// What is done.
    action: RunActionDto,
    /// Of this workflow.
    #[schema(min_length = 1, max_length = 64, example = "checkout")]
    workflow: Option<String>,
    /// With all of these attributes.
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    /// Started at this time or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Started before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    before: Option<Timestamp>,
    /// Only parked runs.
    #[serde(default)]
    parked: bool,
    /// The reason, shown to later readers.
    #[serde(default)]
    #[schema(example = "the shop is closed")]
    reason: String,
    /// Only count the runs of the batch.
    #[serde(default)]
    dry_run: bool,
    /// Where the batch begins: `next` of the one before.
    #[schema(value_type = Option<String>)]
    after: Option<Cursor<RunCursor>>,
    /// The maximum number of runs that are looked at, 100 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl BulkRunsRequest {
    fn filter(&self) -> Result<RunFilter, Problem> {
        let is_all = self.workflow.is_none() && self.since.is_none() && self.before.is_none();
        if is_all && self.attributes.is_empty() && !self.parked {
            let detail = "select runs with workflow, attributes, since, before or parked";
            return Err(Problem::bad_request("runs-missing", detail));
        }
        let filter = RunFilter::all();
        let filter = self.workflow.iter().fold(filter, RunFilter::workflow);
        let filter = self.since.into_iter().fold(filter, RunFilter::since);
        let filter = self.before.into_iter().fold(filter, RunFilter::before);
        let attributes = self.attributes.iter();
        Ok(attributes.fold(filter, |filter, (name, value)| filter.attribute(name, value)))
    }
}

/// A run that could not be changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RefusedRun)]
pub(crate) struct RefusedRunDto {
    /// Its id.
    id: String,
    /// Why.
    error: String,
}

/// The result of one batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunBatch)]
pub(crate) struct RunBatchDto {
    /// How many runs matched.
    matched: u64,
    /// How many were changed.
    changed: u64,
    /// Whether this was a dry run.
    dry_run: bool,
    /// Runs that could not be changed.
    refused: Vec<RefusedRunDto>,
    /// Where the next batch begins; absent after the last one.
    #[schema(value_type = Option<String>)]
    next: Option<String>,
}

impl RunBatchDto {
    fn new(batch: RunBatch, dry_run: bool) -> Self {
        let refused = batch.refused.into_iter().map(|refused| RefusedRunDto {
            id: refused.run.as_str().to_owned(),
            error: refused.error,
        });
        Self {
            matched: batch.matched,
            changed: batch.changed,
            dry_run,
            refused: refused.collect(),
            next: batch.next.map(|next| Cursor(next).to_string()),
        }
    }
}

/// Cancel, terminate or retry a batch of the runs that match, newest first. Send the same again
/// with `after`, until no `next` is answered.
#[utoipa::path(post, path = "/v1/bulk/runs", tag = "runs", request_body = BulkRunsRequest,
    responses(
        (status = 200, body = RunBatchDto),
        (status = 404, description = "There is no such workflow"),
    ))]
pub(crate) async fn bulk(
    State(served): State<AppState>,
    once: IdempotencyScope,
    Body(asked): Body<BulkRunsRequest>,
) -> Result<Answer<RunBatchDto>, Problem> {
    let limit = served.limits().page(asked.limit.or(Some(BATCH)))?;
    let (runs, filter) = (served.tidelock().runs(), asked.filter()?);
    let is_first = asked.after.is_none();
    let bulk = runs.bulk(&filter).parked(asked.parked).limit(limit);
    let bulk = bulk.after(asked.after.map(|Cursor(place)| place));
    let bulk = once.operation().into_iter().fold(bulk, tidelock::runs::BulkRuns::operation_id);
    let action = asked.action.into();
    let batch = match asked.dry_run {
        true => bulk.count(action).await?,
        false => bulk.carry_out(action, &asked.reason).await?,
    };
    if let Some(workflow) = asked.workflow.filter(|_| is_first && batch.matched == 0)
        && runs.list(&RunFilter::all().workflow(&workflow)).limit(1).await?.items.is_empty()
        && let Some(missing) = runs.missing_workflow(&workflow).await?
    {
        return Err(no_such(&missing));
    }
    Ok(Answer(RunBatchDto::new(batch, asked.dry_run)))
}
