//! Schedules: runs started, and jobs enqueued, by cron patterns.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::runs::{CatchUp, Overlap, Schedule, ScheduleError, ScheduleInfo};
use tidelock::store::RawJson;
use utoipa::ToSchema;

use super::durations::Millis;
use super::mirror::mirror;
use crate::app_state::AppState;
use crate::extract::{Body, InPath};

mirror! {
    /// What to do about an occurrence while the run or the job of an earlier one is unfinished.
    OverlapDto as Overlap of Overlap { Allow, Skip }
}

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleDto {
    /// Its name.
    #[schema(example = "nightly")]
    name: String,
    /// The cron pattern.
    #[schema(example = "30 2 * * *")]
    pattern: String,
    /// The time zone.
    #[schema(example = "Europe/Berlin")]
    zone: String,
    /// The workflow whose runs it starts, if it starts runs.
    workflow: Option<String>,
    /// The queue of the jobs that it enqueues, if it enqueues jobs.
    queue: Option<String>,
    /// What to do about overlapping occurrences.
    overlap: OverlapDto,
    /// Whether it is paused.
    paused: bool,
    /// The next occurrence; absent while it is paused.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_at: Option<Timestamp>,
    /// The run that it started last.
    last_run: Option<String>,
    /// The key of the job that it enqueued last.
    last_job: Option<String>,
}

impl From<ScheduleInfo> for ScheduleDto {
    fn from(info: ScheduleInfo) -> Self {
        Self {
            name: info.name.to_string(),
            pattern: info.pattern,
            zone: info.zone,
            workflow: info.workflow.map(|name| name.to_string()),
            queue: info.queue,
            overlap: info.overlap.into(),
            paused: info.paused,
            next_at: info.next,
            last_run: info.last_run.map(|run| run.to_string()),
            last_job: info.last_job,
        }
    }
}

/// The schedules.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleList {
    /// All of them, by name.
    items: Vec<ScheduleDto>,
}

/// A schedule to store: with a workflow or a queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleRequest {
    /// The cron pattern: minute, hour, day, month, day of the week; or six fields, with seconds
    /// first.
    #[schema(min_length = 1, example = "30 2 * * *")]
    pattern: String,
    /// The time zone, by its IANA name; UTC by default.
    #[schema(min_length = 1, example = "Europe/Berlin")]
    zone: Option<String>,
    /// Starts runs of this workflow.
    #[schema(min_length = 1, max_length = 64)]
    workflow: Option<String>,
    /// Enqueues jobs in this queue.
    #[schema(min_length = 1, max_length = 128)]
    queue: Option<String>,
    /// The input of the runs, or the payload of the jobs.
    #[schema(value_type = Option<Value>)]
    input: Option<RawJson>,
    /// What to do about overlapping occurrences; each starts by default.
    overlap: Option<OverlapDto>,
    /// Leaves out missed occurrences that are older than this; by default, the newest of those that
    /// were missed starts.
    #[schema(value_type = Option<u64>)]
    tolerance_ms: Option<Millis>,
}

impl ScheduleRequest {
    fn schedule(self) -> Result<Schedule, Problem> {
        let schedule = Schedule::cron(self.pattern);
        let schedule = match self.zone {
            Some(zone) => schedule.zone(zone),
            None => schedule,
        };
        let input = self.input.map_or_else(|| RawJson::new(&()), Ok)?;
        let schedule = match (self.workflow, self.queue) {
            (Some(workflow), None) => schedule.starts(workflow, &input),
            (None, Some(queue)) => schedule.enqueues_in(queue, &input),
            _ => {
                let detail = "give one of workflow and queue";
                return Err(Problem::bad_request("schedule-invalid", detail));
            }
        };
        let tolerance: Option<Duration> = self.tolerance_ms.map(Millis::span);
        let schedule = match tolerance {
            Some(tolerance) => schedule.catch_up(CatchUp::Skip { tolerance }),
            None => schedule,
        };
        Ok(schedule.overlap(self.overlap.map_or_else(Overlap::default, Into::into)))
    }
}

/// Whether there was such a schedule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleDeleted {
    /// Whether it existed.
    existed: bool,
}

fn problem(error: ScheduleError) -> Problem {
    match error {
        ScheduleError::NoSchedule { .. } => Problem::not_found("no-schedule", error.to_string()),
        error => tidelock::Error::from(error).into(),
    }
}

/// List the schedules.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules",
    responses((status = 200, body = ScheduleList)))]
pub(crate) async fn list(State(served): State<AppState>) -> Result<Answer<ScheduleList>, Problem> {
    let listed = served.tidelock().schedules().list().await.map_err(problem)?;
    Ok(Answer(ScheduleList { items: listed.into_iter().map(ScheduleDto::from).collect() }))
}

/// Show a schedule.
#[utoipa::path(get, path = "/v1/schedules/{schedule}", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule", min_length = 1, max_length = 100)),
    responses((status = 200, body = ScheduleDto), (status = 404, description = "There is no such schedule")))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
) -> Result<Answer<ScheduleDto>, Problem> {
    let found = served.tidelock().schedules().get(&name).await.map_err(problem)?;
    let missing = || problem(ScheduleError::NoSchedule { schedule: name.clone() });
    Ok(Answer(found.ok_or_else(missing)?.into()))
}

/// Create or change a schedule. An identical one changes nothing.
#[utoipa::path(put, path = "/v1/schedules/{schedule}", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule", min_length = 1, max_length = 100)),
    request_body = ScheduleRequest,
    responses((status = 200, body = ScheduleDto)))]
pub(crate) async fn put(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    Body(asked): Body<ScheduleRequest>,
) -> Result<Answer<ScheduleDto>, Problem> {
    let schedule = asked.schedule()?;
    Ok(Answer(served.tidelock().schedules().put(&name, schedule).await.map_err(problem)?.into()))
}

/// Delete a schedule. What it has started is left alone.
#[utoipa::path(delete, path = "/v1/schedules/{schedule}", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule", min_length = 1, max_length = 100)),
    responses((status = 200, body = ScheduleDeleted)))]
pub(crate) async fn delete(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
) -> Result<Answer<ScheduleDeleted>, Problem> {
    let existed = served.tidelock().schedules().delete(&name).await.map_err(problem)?;
    Ok(Answer(ScheduleDeleted { existed }))
}

/// Pause a schedule: its occurrences start nothing until it is resumed.
#[utoipa::path(post, path = "/v1/schedules/{schedule}/pause", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule", min_length = 1, max_length = 100)),
    responses((status = 200, body = ScheduleDto), (status = 404, description = "There is no such schedule")))]
pub(crate) async fn pause(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
) -> Result<Answer<ScheduleDto>, Problem> {
    Ok(Answer(served.tidelock().schedules().pause(&name).await.map_err(problem)?.into()))
}

/// Resume a schedule at its next occurrence.
#[utoipa::path(post, path = "/v1/schedules/{schedule}/resume", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule", min_length = 1, max_length = 100)),
    responses((status = 200, body = ScheduleDto), (status = 404, description = "There is no such schedule")))]
pub(crate) async fn resume(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
) -> Result<Answer<ScheduleDto>, Problem> {
    Ok(Answer(served.tidelock().schedules().resume(&name).await.map_err(problem)?.into()))
}

/// Start a run or enqueue a job at once, even if the schedule is paused.
#[utoipa::path(post, path = "/v1/schedules/{schedule}/trigger", tag = "schedules",
    params(("schedule" = String, Path, description = "The schedule", min_length = 1, max_length = 100)),
    responses((status = 200, body = ScheduleDto), (status = 404, description = "There is no such schedule")))]
pub(crate) async fn trigger(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
) -> Result<Answer<ScheduleDto>, Problem> {
    Ok(Answer(served.tidelock().schedules().trigger(&name).await.map_err(problem)?.into()))
}
