//! A work item, as JSON: of any queue, including those of reactions and runs.

use serde::Serialize;
use tidelock::problem::Problem;
use tidelock::queues::ItemState;
use tidelock::reactions::reaction_of;
use tidelock::runs::run_of;
use tidelock::store::{
    Fence, Item, ItemFilter, ItemKey, ItemQuery, ItemRef, LaneName, LeaseHolder, Mark, NamePattern,
    Priority, QueueName, StoreExt, WorkerName, limits,
};
use tidelock::{Timestamp, When};
use utoipa::ToSchema;

use super::cursor::Cursor;
use super::durations::Millis;
use super::mirror::mirror;
use crate::app_state::AppState;
use crate::paging::Page;

/// How many pages of items are read to find those in a state, before the client is told to read on.
const PAGES: usize = 10;

/// A work item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Item)]
pub(crate) struct ItemDto {
    /// The queue it is in.
    #[schema(value_type = String, example = "mail")]
    queue: QueueName,
    /// Its key in the queue.
    #[schema(value_type = String, example = "order-7")]
    key: ItemKey,
    /// The reaction, if the item is a target of one; its key is the target.
    reaction: Option<String>,
    /// The run that the item drives, if it does.
    run: Option<String>,
    /// Its state.
    state: ItemStateDto,
    /// Its lane of the queue.
    #[schema(value_type = String)]
    lane: LaneName,
    /// Its priority.
    #[schema(value_type = i16, minimum = -100, maximum = 100)]
    priority: Priority,
    /// Done up to this mark.
    #[schema(value_type = u64)]
    at: Mark,
    /// Work exists up to this mark.
    #[schema(value_type = u64)]
    mark: Mark,
    /// When it is due.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// Not leased before this time: a backoff, or a deferral.
    #[schema(value_type = Option<String>, format = DateTime)]
    hold_until: Option<Timestamp>,
    /// Leases since the last progress.
    attempts: u32,
    /// Retries since the last progress.
    failures: u32,
    /// Leases that expired since the last progress.
    expiries: u32,
    /// Not leased until an operator unblocks it.
    blocked: bool,
    /// The error of the last retry or block.
    error: Option<String>,
    /// The fence of the newest lease.
    #[schema(value_type = Option<u64>, minimum = 1)]
    fence: Option<Fence>,
    /// The lease's holder; still set after the deadline, until another worker takes over.
    holder: Option<LeaseHolderDto>,
}

/// The holder of a lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Holder)]
pub(crate) struct LeaseHolderDto {
    /// The worker that leased it.
    #[schema(value_type = String)]
    worker: WorkerName,
    /// When it was leased.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When the lease expires.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
}

impl From<LeaseHolder> for LeaseHolderDto {
    fn from(holder: LeaseHolder) -> Self {
        Self { worker: holder.worker, since: holder.since, until: holder.deadline }
    }
}

mirror! {
    /// The state of an item.
    ItemStateDto as ItemState of ItemState { Blocked, Held, Expired, Due, Waiting, Scheduled, Idle }
}

impl ItemDto {
    fn at(item: Item, now: Timestamp) -> Self {
        let state = ItemState::of(&item, now).into();
        Self {
            reaction: reaction_of(&item.item.queue).map(str::to_owned),
            run: run_of(&item.item).map(|run| run.as_str().to_owned()),
            queue: item.item.queue,
            key: item.item.key,
            state,
            lane: item.lane,
            priority: item.priority,
            at: item.at,
            mark: item.mark,
            due_at: item.due,
            hold_until: item.hold,
            attempts: item.attempts,
            failures: item.failures,
            expiries: item.expiries,
            blocked: item.blocked,
            error: item.error,
            fence: item.fence,
            holder: item.holder.map(LeaseHolderDto::from),
        }
    }
}

/// A filter of items, and the cursor.
pub(super) struct ItemListing {
    pub(super) filter: ItemFilter,
    pub(super) state: Option<ItemStateDto>,
    pub(super) holder: Option<String>,
    pub(super) after: Option<Cursor<ItemRef>>,
    pub(super) limit: usize,
}

impl ItemListing {
    /// Reads a page. States that the store cannot filter by are filtered here, a few pages at a
    /// time.
    pub(super) async fn page(self, served: &AppState) -> Result<Page<ItemDto>, Problem> {
        let now = served.store().now().await?;
        let filter = self.state.map_or(self.filter.clone(), |state| {
            ItemState::from(state).narrow(self.filter.clone())
        });
        let mut query = ItemQuery::new(filter).limit(self.limit);
        query.after = self.after.as_ref().map(|Cursor(place)| place.clone());
        let (mut items, mut looked) = (Vec::new(), 0);
        let next = loop {
            let page = served.store().full_page(query.clone()).await?;
            items.extend(page.items.into_iter().filter(|item| self.is_meant(item, now)));
            looked += 1;
            match page.next {
                Some(next) if items.is_empty() && looked < PAGES => query = query.after(next),
                next => break next,
            }
        };
        let shown = items.into_iter().map(|item| ItemDto::at(item, now)).collect();
        Ok(Page::new(shown, next.map(Cursor)))
    }

    fn is_meant(&self, item: &Item, now: Timestamp) -> bool {
        let holder = item.holder.as_ref().map(|holder| holder.worker.as_str());
        self.state.is_none_or(|state| ItemState::from(state) == ItemState::of(item, now))
            && self.holder.as_deref().is_none_or(|named| holder == Some(named))
    }
}

/// Builds a pattern from an exact name or a pattern; matches every name by default.
pub(super) fn pattern(
    name: Option<String>,
    like: Option<String>,
    what: &str,
) -> Result<NamePattern, Problem> {
    let longest = limits::ITEM_KEY_BYTES;
    match (name, like) {
        (Some(long), _) | (_, Some(long)) if long.chars().count() > longest => {
            let detail = format!("{what} or pattern is longer than {longest} characters");
            Err(Problem::bad_request("name-too-long", detail))
        }
        (Some(_), Some(_)) => {
            let detail = format!("{what} and pattern exclude each other: send one of them");
            Err(Problem::bad_request("pattern-ambiguous", detail))
        }
        (Some(name), None) if name.is_empty() => {
            let detail = format!("{what} is empty: give a name, or leave it out");
            Err(Problem::bad_request("name-empty", detail))
        }
        (Some(name), None) => Ok(NamePattern::is(name)),
        (None, Some(like)) => Ok(NamePattern::like(like)),
        (None, None) => Ok(NamePattern::Any),
    }
}

/// A time: absolute, or relative to now; `None` if neither is given.
pub(super) fn when(
    at: Option<Timestamp>,
    in_ms: Option<Millis>,
    names: &str,
) -> Result<Option<When>, Problem> {
    match (at, in_ms) {
        (Some(_), Some(_)) => Err(Problem::bad_request(
            "time-ambiguous",
            format!("{names} exclude each other: send one of them"),
        )),
        (Some(at), None) => Ok(Some(When::At(at))),
        (None, Some(millis)) => Ok(Some(When::In(millis.span()))),
        (None, None) => Ok(None),
    }
}

/// Counts the items of these filters, up to a bound.
pub(super) async fn count(served: &AppState, filters: Vec<ItemFilter>) -> Result<u64, Problem> {
    let mut count = 0;
    for filter in filters {
        let mut items = served.store().rows(ItemQuery::new(filter));
        while count < COUNTED && items.next().await?.is_some() {
            count += 1;
        }
    }
    Ok(count)
}

/// Items are counted up to here: more cannot be inspected one by one anyway.
const COUNTED: u64 = 100_000;
