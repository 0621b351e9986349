//! A work item, as clients see it: of any queue, those of reactions and runs included.

use serde::{Deserialize, Serialize};
use tidelock::queues::ItemState;
use tidelock::reactions::reaction_of;
use tidelock::runs::run_of;
use tidelock::{
    Fence, Item, ItemFilter, ItemKey, ItemQuery, ItemRef, LaneName, LeaseHolder, Mark, NamePattern,
    Priority, QueueName, StoreExt, Timestamp, When, WorkerName, limits,
};
use utoipa::ToSchema;

use super::cursor::Cursor;
use super::span::Millis;
use crate::app_state::AppState;
use crate::paging::Page;
use crate::problem::Problem;

/// How many pages of items are looked at to find those in a state, before the client is told to
/// read on.
const PAGES: usize = 10;

/// A work item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Item)]
pub(crate) struct ItemDto {
    /// The queue it is in.
    #[schema(value_type = String, example = "mail")]
    queue: QueueName,
    /// Its key there.
    #[schema(value_type = String, example = "order-7")]
    key: ItemKey,
    /// The reaction whose target it is, if it is one; its key is the target.
    reaction: Option<String>,
    /// The run that it stands for, if it does.
    run: Option<String>,
    /// What it is doing, in a word.
    state: ItemStateDto,
    /// The part of the queue it is in.
    #[schema(value_type = String)]
    lane: LaneName,
    /// How urgent it is.
    #[schema(value_type = i16, minimum = -100, maximum = 100)]
    priority: Priority,
    /// Done up to here.
    #[schema(value_type = u64)]
    at: Mark,
    /// Work up to here.
    #[schema(value_type = u64)]
    mark: Mark,
    /// Has something to do from this moment on.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// Not to be leased before this moment: a backoff, or a deferral.
    #[schema(value_type = Option<String>, format = DateTime)]
    hold_until: Option<Timestamp>,
    /// Leases since the last progress.
    attempts: u32,
    /// Retries since the last progress.
    failures: u32,
    /// Leases that ran out since the last progress.
    expiries: u32,
    /// Out of circulation until somebody unblocks it.
    blocked: bool,
    /// What went wrong when it was last retried or blocked.
    error: Option<String>,
    /// The fence of the newest lease.
    #[schema(value_type = Option<u64>, minimum = 1)]
    fence: Option<Fence>,
    /// Who holds it; still set after the deadline, until somebody else takes it.
    holder: Option<LeaseHolderDto>,
}

/// Who holds an item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Holder)]
pub(crate) struct LeaseHolderDto {
    /// The worker that leased it.
    #[schema(value_type = String)]
    worker: WorkerName,
    /// When it did.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Until when it may.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
}

impl From<LeaseHolder> for LeaseHolderDto {
    fn from(holder: LeaseHolder) -> Self {
        Self { worker: holder.worker, since: holder.since, until: holder.deadline }
    }
}

/// What an item is doing, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ItemState)]
pub(crate) enum ItemStateDto {
    Blocked,
    Held,
    Expired,
    Due,
    Waiting,
    Scheduled,
    Idle,
}

impl ItemStateDto {
    pub(super) fn of(state: ItemState) -> Self {
        match state {
            ItemState::Blocked => Self::Blocked,
            ItemState::Held => Self::Held,
            ItemState::Expired => Self::Expired,
            ItemState::Due => Self::Due,
            ItemState::Waiting => Self::Waiting,
            ItemState::Scheduled => Self::Scheduled,
            ItemState::Idle => Self::Idle,
        }
    }

    pub(super) fn meant(self) -> ItemState {
        match self {
            Self::Blocked => ItemState::Blocked,
            Self::Held => ItemState::Held,
            Self::Expired => ItemState::Expired,
            Self::Due => ItemState::Due,
            Self::Waiting => ItemState::Waiting,
            Self::Scheduled => ItemState::Scheduled,
            Self::Idle => ItemState::Idle,
        }
    }
}

impl ItemDto {
    fn at(item: Item, now: Timestamp) -> Self {
        let state = ItemStateDto::of(ItemState::of(&item, now));
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

/// Which items, and where to go on among them.
pub(super) struct Listing {
    pub(super) filter: ItemFilter,
    pub(super) state: Option<ItemStateDto>,
    pub(super) holder: Option<String>,
    pub(super) after: Option<Cursor<ItemRef>>,
    pub(super) limit: usize,
}

impl Listing {
    /// A page of them. What the store cannot tell apart is looked through here, a few pages at a
    /// time.
    pub(super) async fn page(self, served: &AppState) -> Result<Page<ItemDto>, Problem> {
        let now = served.store().now().await?;
        let filter = self
            .state
            .map_or(self.filter.clone(), |state| state.meant().narrow(self.filter.clone()));
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
        self.state.is_none_or(|state| state.meant() == ItemState::of(item, now))
            && self.holder.as_deref().is_none_or(|named| holder == Some(named))
    }
}

/// One name, or those of a form; every name, if nothing is said.
pub(super) fn pattern(
    name: Option<String>,
    like: Option<String>,
    what: &str,
) -> Result<NamePattern, Problem> {
    let longest = limits::ITEM_KEY_BYTES;
    match (name, like) {
        (Some(long), _) | (_, Some(long)) if long.chars().count() > longest => {
            let detail =
                format!("{what} or pattern is longer than {longest} characters: no name is");
            Err(Problem::bad_request("name-too-long", detail))
        }
        (Some(_), Some(_)) => {
            let detail = format!("{what} and pattern say different things: send one of them");
            Err(Problem::bad_request("pattern-ambiguous", detail))
        }
        (Some(name), None) if name.is_empty() => {
            let detail = format!("{what} is empty: name one, or leave it out");
            Err(Problem::bad_request("name-empty", detail))
        }
        (Some(name), None) => Ok(NamePattern::is(name)),
        (None, Some(like)) => Ok(NamePattern::like(like)),
        (None, None) => Ok(NamePattern::Any),
    }
}

/// A moment: at a time, or so long from now; none if neither is said.
pub(super) fn when(
    at: Option<Timestamp>,
    in_ms: Option<Millis>,
    names: &str,
) -> Result<Option<When>, Problem> {
    match (at, in_ms) {
        (Some(_), Some(_)) => Err(Problem::bad_request(
            "time-ambiguous",
            format!("{names} say different things: send one of them"),
        )),
        (Some(at), None) => Ok(Some(When::At(at))),
        (None, Some(millis)) => Ok(Some(When::In(millis.span()))),
        (None, None) => Ok(None),
    }
}

/// How many of a filter's items there are, up to a bound.
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

/// Items are counted up to here: more are more than anybody looks at one by one.
const COUNTED: u64 = 100_000;
