//! Queues: work items that clients enqueue, and that workers in any language lease, renew and
//! settle.

mod renewal;
mod settlement;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::queues::{EnqueueItem, LeasedItem, Queue};
use tidelock::store::{
    Fence, ItemFilter, ItemKey, ItemRef, LaneName, Mark, Priority, QueueName, RawJson,
};
use utoipa::{IntoParams, ToSchema};

use super::cancellation::unless_closing;
use super::cursor::Cursor;
use super::durations::Millis;
use super::item::{ItemDto, ItemListing, ItemStateDto, when};
use super::{durations, named};
use crate::app_state::AppState;
use crate::auth::Caller;
use crate::extract::{Body, InPath, InQuery};
use crate::idempotency::IdempotencyScope;
use crate::paging::Page;

pub(crate) use renewal::*;
pub(crate) use settlement::*;

/// A queue that can be written to: not a reserved one.
pub(super) fn queue(served: &AppState, name: &str) -> Result<Queue, Problem> {
    let queue = served.tidelock().queue(name);
    match queue.name() {
        Err(error) if name.starts_with('~') => {
            Err(Problem::forbidden("name-reserved", error.context()))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(queue),
    }
}

/// A request to enqueue an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnqueueRequest {
    /// Its key: enqueued again under it, it is the same item.
    #[schema(value_type = String, min_length = 1, max_length = 256, example = "order-7")]
    key: ItemKey,
    /// Due at this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// Due this long from now; at once by default.
    #[schema(value_type = Option<u64>)]
    in_ms: Option<Millis>,
    /// Work exists up to this mark. A mark that is already done wakes nothing.
    #[schema(value_type = Option<u64>, maximum = 9223372036854775807_i64)]
    mark: Option<Mark>,
    /// The lane of a new item.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    lane: Option<LaneName>,
    /// The priority of a new item.
    #[schema(minimum = -100, maximum = 100)]
    priority: Option<i16>,
    /// Data for the worker: replaces existing data.
    #[schema(value_type = Option<Value>)]
    data: Option<RawJson>,
}

impl EnqueueRequest {
    pub(super) fn item(&self, queue: &Queue) -> Result<EnqueueItem, Problem> {
        let mut item = queue.enqueue(self.key.as_str());
        if let Some(mark) = self.mark {
            item = item.to_mark(mark);
        }
        if let Some(due) = when(self.due_at, self.in_ms, "due_at and in_ms")? {
            item = item.due(due);
        }
        if let Some(lane) = &self.lane {
            item = item.lane(lane.clone());
        }
        if let Some(priority) = self.priority {
            item = item.priority(Priority::new(priority)?);
        }
        Ok(match &self.data {
            Some(data) => item.data(data),
            None => item,
        })
    }
}

/// An enqueued item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ItemPut)]
pub(crate) struct EnqueuedDto {
    /// Its key.
    #[schema(value_type = String)]
    key: ItemKey,
    /// When it was enqueued, by the store's clock.
    #[schema(value_type = String, format = DateTime)]
    enqueued_at: Timestamp,
}

/// Enqueue an item. An existing item is woken; a leased one is due again once it is settled.
#[utoipa::path(post, path = "/v1/queues/{queue}/items", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128),
    ),
    request_body = EnqueueRequest,
    responses((status = 201, description = "Enqueued", body = EnqueuedDto)))]
pub(crate) async fn enqueue(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    once: IdempotencyScope,
    Body(asked): Body<EnqueueRequest>,
) -> Result<Response, Problem> {
    let mut item = asked.item(&queue(&served, &name)?)?;
    if let Some(id) = once.operation() {
        item = item.operation_id(id);
    }
    let enqueued_at = item.await?;
    Ok((StatusCode::CREATED, Answer(EnqueuedDto { key: asked.key, enqueued_at })).into_response())
}

/// A request to lease items.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseRequest {
    /// The worker's name, shown to others; the name of the token by default.
    #[schema(min_length = 1, max_length = 128)]
    worker: Option<String>,
    /// How long an item is leased if the lease is not renewed.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
    /// The maximum number of items; 1 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How long to wait until an item is due; 0 by default, and no longer than the server's limit.
    #[schema(value_type = Option<u64>)]
    wait_ms: Option<Millis>,
    /// Only from this lane.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    lane: Option<LaneName>,
}

/// Leased items.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeasedItemsDto {
    /// In the order in which they were selected; empty if nothing was due in time.
    items: Vec<LeaseDto>,
}

/// A leased item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
pub(crate) struct LeaseDto {
    /// Its key.
    #[schema(value_type = String)]
    key: ItemKey,
    /// The fence to renew and settle it with.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// When the lease expires.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    /// Done up to this mark.
    #[schema(value_type = u64)]
    at: Mark,
    /// Work exists up to this mark.
    #[schema(value_type = u64)]
    mark: Mark,
    /// Leases since the last progress, this one included.
    attempts: u32,
    /// Retries since the last progress.
    failures: u32,
    /// Leases that expired since the last progress.
    expiries: u32,
    /// Its lane.
    #[schema(value_type = String)]
    lane: LaneName,
    /// Its priority.
    #[schema(value_type = i16, minimum = -100, maximum = 100)]
    priority: Priority,
    /// The data it was enqueued with.
    #[schema(value_type = Option<Value>)]
    data: Option<RawJson>,
    /// The `traceparent` of the request that enqueued it, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

impl From<LeasedItem> for LeaseDto {
    fn from(LeasedItem { lease, data, trace, .. }: LeasedItem) -> Self {
        Self {
            key: lease.item.key,
            fence: lease.fence,
            until: lease.deadline,
            at: lease.at,
            mark: lease.mark,
            attempts: lease.attempts,
            failures: lease.failures,
            expiries: lease.expiries,
            lane: lease.lane,
            priority: lease.priority,
            data,
            traceparent: trace.map(|trace| trace.to_string()),
        }
    }
}

/// Lease due items, or wait for them. If you disconnect before the response, nothing stays leased.
#[utoipa::path(post, path = "/v1/queues/{queue}/lease", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128),
    ),
    request_body = LeaseRequest,
    responses((status = 200, body = LeasedItemsDto)))]
pub(crate) async fn lease(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    caller: Caller,
    Body(asked): Body<LeaseRequest>,
) -> Result<Answer<LeasedItemsDto>, Problem> {
    let mut request = queue(&served, &name)?
        .lease(named::who(asked.worker.as_deref().unwrap_or(caller.shown()))?)
        .duration(durations::lease(asked.lease_ms)?)
        .limit(asked.limit.unwrap_or(1))
        .within(durations::wait(&served, asked.wait_ms));
    if let Some(lane) = asked.lane {
        request = request.lane(lane);
    }
    let taken = unless_closing(&served, request.into_future()).await??;
    Ok(Answer(LeasedItemsDto { items: taken.into_iter().map(LeaseDto::from).collect() }))
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// In this state.
    #[param(inline)]
    state: Option<ItemStateDto>,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<ItemRef>>,
    /// The maximum number of items: fewer may be in the requested state.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List the items of a queue, by key.
#[utoipa::path(get, path = "/v1/queues/{queue}/items", tag = "queues",
    params(("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128), ListQuery),
    responses((status = 200, body = Page<ItemDto>)))]
pub(crate) async fn items(
    State(served): State<AppState>,
    InPath(name): InPath<QueueName>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<ItemDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let filter = ItemFilter::queue(name.as_str());
    let listing =
        ItemListing { filter, state: asked.state, holder: None, after: asked.after, limit };
    Ok(Answer(listing.page(&served).await?))
}
