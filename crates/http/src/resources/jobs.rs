//! Jobs: the typed work of queues as operators see it, and their actions on it.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::jobs::{JobFilter, JobInfo, JobState};
use tidelock::problem::Problem;
use tidelock::store::{ItemFilter, ItemRef, LaneName, NamePattern, Priority, QueueName, RawJson};
use tidelock::{Missing, Timestamp};
use utoipa::{IntoParams, ToSchema};

use super::bulk_action::{BulkActionDto, no_such};
use super::cursor::Cursor;
use super::item::{LeaseHolderDto, pattern};
use super::mirror::mirror;
use crate::app_state::AppState;
use crate::extract::{Body, InPath, InQuery};
use crate::paging::Page;

mirror! {
    /// The state of a job.
    JobStateDto as JobState of JobState {
        Scheduled, Queued, Running, Retrying, Blocked, Done, Cancelled, Discarded
    }
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobDto {
    /// The queue it is in.
    #[schema(example = "mail")]
    queue: String,
    /// Its key in the queue.
    #[schema(example = "order-7")]
    key: String,
    /// Its state.
    state: JobStateDto,
    /// Its lane of the queue, until it has ended.
    #[schema(value_type = Option<String>)]
    lane: Option<LaneName>,
    /// Its priority, until it has ended.
    #[schema(value_type = Option<i16>, minimum = -100, maximum = 100)]
    priority: Option<Priority>,
    /// When it is due.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// Not attempted before this time: a backoff, or a deferral.
    #[schema(value_type = Option<String>, format = DateTime)]
    hold_until: Option<Timestamp>,
    /// Leases so far.
    attempts: u32,
    /// Failures so far.
    failures: u32,
    /// Leases that expired so far: processes that died or hung.
    crashes: u32,
    /// The last error.
    error: Option<String>,
    /// The lease's holder.
    holder: Option<LeaseHolderDto>,
    /// The last progress that its handler reported.
    #[schema(value_type = Option<Value>)]
    progress: Option<RawJson>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// The result of a finished job, while it is kept.
    #[schema(value_type = Option<Value>)]
    result: Option<RawJson>,
    /// Why an operator ended it.
    reason: Option<String>,
}

impl From<JobInfo> for JobDto {
    fn from(job: JobInfo) -> Self {
        Self {
            queue: job.queue,
            key: job.key,
            state: job.state.into(),
            lane: job.lane,
            priority: job.priority,
            due_at: job.due,
            hold_until: job.hold,
            attempts: job.attempts,
            failures: job.failures,
            crashes: job.crashes,
            error: job.error,
            holder: job.holder.map(LeaseHolderDto::from),
            progress: job.progress,
            ended_at: job.ended_at,
            result: job.result,
            reason: job.reason,
        }
    }
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Of this queue; of all queues by default.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128)]
    queue: Option<QueueName>,
    /// With keys that match this pattern: `*` matches any characters, `?` one.
    #[param(max_length = 256)]
    key: Option<String>,
    /// In this state. Unfinished jobs by default: ended ones are selected by their state.
    #[param(inline)]
    state: Option<JobStateDto>,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<ItemRef>>,
    /// The maximum number of jobs: fewer may be in the requested state.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List jobs, by queue and key.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(ListQuery),
    responses((status = 200, body = Page<JobDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<JobDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let mut filter = match &asked.queue {
        Some(queue) => JobFilter::queue(queue.as_str()),
        None => JobFilter::all(),
    };
    filter = filter.keys(asked.key.map_or(NamePattern::Any, NamePattern::like));
    if let Some(state) = asked.state {
        filter = filter.state(state.into());
    }
    let list = served.tidelock().jobs().list(&filter).limit(limit);
    let page = list.after(asked.after.map(|Cursor(after)| after)).await?;
    let items = page.items.into_iter().map(JobDto::from).collect();
    Ok(Answer(Page::new(items, page.next.map(Cursor))))
}

/// Show a job. An ended one is shown for as long as something of it is kept.
#[utoipa::path(get, path = "/v1/jobs/{queue}/{key}", tag = "jobs",
    params(
        ("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128),
        ("key" = String, Path, description = "The job's key", min_length = 1, max_length = 256),
    ),
    responses((status = 200, body = JobDto), (status = 404, description = "There is no such job")))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath((queue, key)): InPath<(String, String)>,
) -> Result<Answer<JobDto>, Problem> {
    let found = served.tidelock().jobs().get(&queue, &key).await?;
    let missing = || {
        let detail = format!(
            "there is no job {key:?} in queue {queue:?}, and nothing of one is kept: GET /v1/jobs lists the unfinished ones"
        );
        Problem::not_found("no-job", detail)
    };
    Ok(Answer(found.ok_or_else(missing)?.into()))
}

/// Which jobs, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndJobsRequest {
    /// Of this queue.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "mail")]
    queue: QueueName,
    /// With this key.
    #[schema(max_length = 256)]
    key: Option<String>,
    /// With keys that match this pattern, where `*` matches any characters and `?` one; all jobs by
    /// default.
    #[schema(max_length = 256)]
    pattern: Option<String>,
    /// Why; kept with the jobs.
    #[schema(min_length = 1)]
    reason: String,
}

/// Which blocked jobs to retry.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryJobsRequest {
    /// Of this queue.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "mail")]
    queue: QueueName,
    /// With this key.
    #[schema(max_length = 256)]
    key: Option<String>,
    /// With keys that match this pattern, where `*` matches any characters and `?` one; all jobs by
    /// default.
    #[schema(max_length = 256)]
    pattern: Option<String>,
}

/// The number of jobs that were ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedJobs {
    /// How many.
    changed: u64,
}

/// The selected jobs, and their items.
struct Meant {
    filter: JobFilter,
    items: Items,
}

struct Items(ItemFilter);

impl Items {
    /// If nothing was selected because a given name does not exist, that is a problem.
    async fn check(&self, served: &AppState, selected: u64) -> Result<(), Problem> {
        if selected == 0
            && let Some(missing) = Missing::among_items(served.store(), &self.0).await?
        {
            return Err(no_such(&missing));
        }
        Ok(())
    }
}

fn meant(queue: &QueueName, key: Option<String>, like: Option<String>) -> Result<Meant, Problem> {
    let keys = pattern(key, like, "key")?;
    let items = ItemFilter::queue(queue.as_str()).key(keys.clone());
    Ok(Meant { filter: JobFilter::queue(queue.as_str()).keys(keys), items: Items(items) })
}

/// Retry blocked jobs at once, with all their attempts before them.
#[utoipa::path(post, path = "/v1/jobs/retry", tag = "jobs", request_body = RetryJobsRequest,
    responses((status = 200, body = BulkActionDto), (status = 404, description = "There is no such queue or job")))]
pub(crate) async fn retry(
    State(served): State<AppState>,
    Body(asked): Body<RetryJobsRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let Meant { filter, items } = meant(&asked.queue, asked.key, asked.pattern)?;
    let retried = served.tidelock().jobs().retry(&filter).await?;
    items.check(&served, retried.matched).await?;
    Ok(Answer(retried.into()))
}

/// End blocked jobs without having done them.
#[utoipa::path(post, path = "/v1/jobs/discard", tag = "jobs", request_body = EndJobsRequest,
    responses((status = 200, body = EndedJobs), (status = 404, description = "There is no such queue or job")))]
pub(crate) async fn discard(
    State(served): State<AppState>,
    Body(asked): Body<EndJobsRequest>,
) -> Result<Answer<EndedJobs>, Problem> {
    let Meant { filter, items } = meant(&asked.queue, asked.key, asked.pattern)?;
    let changed = served.tidelock().jobs().discard(&filter, &asked.reason).await?;
    items.check(&served, changed).await?;
    Ok(Answer(EndedJobs { changed }))
}

/// Cancel unfinished jobs, running ones too: what their handlers have staged does not land.
#[utoipa::path(post, path = "/v1/jobs/cancel", tag = "jobs", request_body = EndJobsRequest,
    responses((status = 200, body = EndedJobs), (status = 404, description = "There is no such queue or job")))]
pub(crate) async fn cancel(
    State(served): State<AppState>,
    Body(asked): Body<EndJobsRequest>,
) -> Result<Answer<EndedJobs>, Problem> {
    let Meant { filter, items } = meant(&asked.queue, asked.key, asked.pattern)?;
    let changed = served.tidelock().jobs().cancel(&filter, &asked.reason).await?;
    items.check(&served, changed).await?;
    Ok(Answer(EndedJobs { changed }))
}
