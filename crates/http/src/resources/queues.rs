//! Queues: work items that anybody puts in, and that workers in any language lease, renew and
//! settle.

mod renewing;
mod settling;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::queues::{LeasedItems, Queue};
use tidelock::{
    Fence, ItemFilter, ItemKey, ItemRef, LaneName, Mark, Priority, QueueName, RawJson, Timestamp,
};
use utoipa::{IntoParams, ToSchema};

use super::cursor::Cursor;
use super::item::{ItemDto, ItemStateDto, Listing, when};
use super::span::Millis;
use super::waiting::unless_closing;
use super::{named, span};
use crate::app_state::AppState;
use crate::auth::Caller;
use crate::extract::{Body, InPath, InQuery};
use crate::idempotency::IdempotencyScope;
use crate::paging::Page;
use crate::problem::Problem;

pub(crate) use renewing::*;
pub(crate) use settling::*;

/// A queue that may be written to: not one of Tidelock's own.
fn queue(served: &AppState, name: &str) -> Result<Queue, Problem> {
    let queue = served.tidelock().queue(name);
    match queue.name() {
        Err(error) if name.starts_with('~') => {
            Err(Problem::forbidden("name-reserved", error.context()))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(queue),
    }
}

/// What is put in.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Putting {
    /// Its key: put in again under it, it is the same item.
    #[schema(value_type = String, min_length = 1, max_length = 256, example = "order-7")]
    key: ItemKey,
    /// Due at this moment.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// Due so long from now; at once, if neither is said.
    #[schema(value_type = Option<u64>)]
    in_ms: Option<Millis>,
    /// There is work up to here. A mark that is already done wakes nobody.
    #[schema(value_type = Option<u64>, maximum = 9223372036854775807_i64)]
    mark: Option<Mark>,
    /// If it is new, it is put in this lane.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    lane: Option<LaneName>,
    /// If it is new, it gets this priority.
    #[schema(minimum = -100, maximum = 100)]
    priority: Option<i16>,
    /// For whoever leases it: replaces what was there.
    #[schema(value_type = Option<Value>)]
    data: Option<RawJson>,
}

/// It is in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ItemPut)]
pub(crate) struct EnqueuedDto {
    /// Its key.
    #[schema(value_type = String)]
    key: ItemKey,
    /// When it was put in, by the store's clock.
    #[schema(value_type = String, format = DateTime)]
    put_at: Timestamp,
}

/// Put an item in. One that is there is woken; one that somebody is at is due again once they are
/// done.
#[utoipa::path(post, path = "/v1/queues/{queue}/items", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128),
    ),
    request_body = Putting,
    responses((status = 201, description = "It is in", body = EnqueuedDto)))]
pub(crate) async fn put(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    once: IdempotencyScope,
    Body(asked): Body<Putting>,
) -> Result<Response, Problem> {
    let mut put = queue(&served, &name)?.put(asked.key.as_str());
    if let Some(mark) = asked.mark {
        put = put.to_mark(mark);
    }
    if let Some(due) = when(asked.due_at, asked.in_ms, "due_at and in_ms")? {
        put = put.due(due);
    }
    if let Some(lane) = asked.lane {
        put = put.lane(lane);
    }
    if let Some(priority) = asked.priority {
        put = put.priority(Priority::new(priority)?);
    }
    if let Some(data) = &asked.data {
        put = put.data(data);
    }
    if let Some(id) = once.operation() {
        put = put.operation_id(id);
    }
    let put_at = put.await?;
    Ok((StatusCode::CREATED, Answer(EnqueuedDto { key: asked.key, put_at })).into_response())
}

/// Who leases, for how long, and how many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Leasing {
    /// Who works, for those who ask who holds what; the name of the token, if this is left out.
    #[schema(min_length = 1, max_length = 128)]
    worker: Option<String>,
    /// How long others are kept out of an item if nobody renews it.
    #[schema(minimum = 1, maximum = 604800000, example = 30000)]
    lease_ms: u64,
    /// How many at most; one, if this is left out.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Wait so long for something to be due; not at all, if this is left out, and no longer than
    /// the server lets anybody wait.
    #[schema(value_type = Option<u64>)]
    wait_ms: Option<Millis>,
    /// From this lane only.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    lane: Option<LaneName>,
}

/// Items that are yours for a while.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeasedItemsDto {
    /// In the order in which they were chosen; none, if nothing was due in time.
    items: Vec<LeaseDto>,
}

/// An item that is yours for a while.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
pub(crate) struct LeaseDto {
    /// Its key.
    #[schema(value_type = String)]
    key: ItemKey,
    /// What it is renewed and settled with.
    #[schema(value_type = u64, minimum = 1)]
    fence: Fence,
    /// After this, others may take it.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    /// Done up to here.
    #[schema(value_type = u64)]
    at: Mark,
    /// Work up to here.
    #[schema(value_type = u64)]
    mark: Mark,
    /// Leases since the last progress, this one included.
    attempts: u32,
    /// Retries since the last progress.
    failures: u32,
    /// Leases that ran out since the last progress.
    expiries: u32,
    /// Its lane.
    #[schema(value_type = String)]
    lane: LaneName,
    /// Its priority.
    #[schema(value_type = i16, minimum = -100, maximum = 100)]
    priority: Priority,
    /// What whoever put it in wrote beside it.
    #[schema(value_type = Option<Value>)]
    data: Option<RawJson>,
}

impl From<LeasedItems> for LeaseDto {
    fn from(LeasedItems { lease, data }: LeasedItems) -> Self {
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
        }
    }
}

/// Lease what is due, or wait for it. If you are gone before you are answered, nothing stays
/// leased.
#[utoipa::path(post, path = "/v1/queues/{queue}/lease", tag = "queues",
    params(
        ("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128),
    ),
    request_body = Leasing,
    responses((status = 200, body = LeasedItemsDto)))]
pub(crate) async fn lease(
    State(served): State<AppState>,
    InPath(name): InPath<String>,
    caller: Caller,
    Body(asked): Body<Leasing>,
) -> Result<Answer<LeasedItemsDto>, Problem> {
    let mut take = queue(&served, &name)?
        .take(named::who(asked.worker.as_deref().unwrap_or(caller.shown()))?.as_str())
        .lease(span::lease(asked.lease_ms)?)
        .limit(asked.limit.unwrap_or(1))
        .within(span::wait(&served, asked.wait_ms));
    if let Some(lane) = asked.lane {
        take = take.lane(lane);
    }
    let taken = unless_closing(&served, take.into_future()).await??;
    Ok(Answer(LeasedItemsDto { items: taken.into_iter().map(LeaseDto::from).collect() }))
}

/// Which items of a queue.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// In this state.
    #[param(inline)]
    state: Option<ItemStateDto>,
    /// Where to go on: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<ItemRef>>,
    /// How many at most: fewer may be in the state that is asked for.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List the items of a queue, by key.
#[utoipa::path(get, path = "/v1/queues/{queue}/items", tag = "queues",
    params(("queue" = String, Path, description = "The queue", min_length = 1, max_length = 128), Listed),
    responses((status = 200, body = Page<ItemDto>)))]
pub(crate) async fn items(
    State(served): State<AppState>,
    InPath(name): InPath<QueueName>,
    InQuery(asked): InQuery<Listed>,
) -> Result<Answer<Page<ItemDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let filter = ItemFilter::queue(name.as_str());
    let listing = Listing { filter, state: asked.state, holder: None, after: asked.after, limit };
    Ok(Answer(listing.page(&served).await?))
}
