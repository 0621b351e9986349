//! The history of a run, page by page.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::runs::HistoryEntry;
use tidelock::store::{RawJson, Version};
use utoipa::{IntoParams, ToSchema};

use super::{RunPath, TargetRun};
use crate::app_state::AppState;
use crate::extract::InQuery;
use crate::paging::Page;

/// Which part of a history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<u64>, minimum = 1)]
    after: Option<Version>,
    /// The maximum number of entries.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// An entry of a run's history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Happened)]
pub(crate) struct HistoryEntryDto {
    /// Its version in the run's history.
    #[schema(value_type = u64, minimum = 1)]
    version: Version,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    recorded_at: Timestamp,
    /// Its kind: `started`, `step`, `timer`, `waiting`, `signalled`, `completed`…
    #[schema(example = "step")]
    kind: String,
    /// The name of the step, sleep, wait or child that it belongs to, if any.
    name: Option<String>,
    /// The recorded data.
    #[schema(value_type = Object)]
    data: RawJson,
}

impl From<HistoryEntry> for HistoryEntryDto {
    fn from(entry: HistoryEntry) -> Self {
        let HistoryEntry { version, recorded_at, kind, name, data, .. } = entry;
        Self { version, recorded_at, kind, name, data }
    }
}

/// Read a run's history, in order: steps, waits, attempts, signals, its end.
#[utoipa::path(get, path = "/v1/runs/{id}/history", tag = "runs",
    params(RunPath, HistoryQuery),
    responses((status = 200, body = Page<HistoryEntryDto>)))]
pub(crate) async fn history(
    State(served): State<AppState>,
    TargetRun(run): TargetRun,
    InQuery(asked): InQuery<HistoryQuery>,
) -> Result<Answer<Page<HistoryEntryDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let page = run.timeline(asked.after, limit).await?;
    Ok(Answer(Page::new(page.entries.into_iter().map(HistoryEntryDto::from).collect(), page.next)))
}
