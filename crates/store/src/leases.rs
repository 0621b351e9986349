//! Leases: work items, and the exclusive right to work on one for a limited time.
//!
//! There is one item per queue and key. Its work reaches up to its *mark* and is done up to *at*.
//! An item is due when a wake says so, and free unless it is leased. A lease ends by a settlement
//! or at its deadline. The next lease gets a higher fence, and from then on the earlier holder can
//! write nothing.

mod adjust;
mod item;
mod settle;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, When};
use crate::error::{Result, StoreError};
use crate::limits;
use crate::log::check_page;
use crate::names::{ItemKey, LaneName, QueueName, WorkerName};
use crate::numbers::{Fence, Mark, Priority};

pub use adjust::{Adjusted, Adjustment, ItemFilter, NamePattern};
pub use item::{Item, LeaseHolder};
pub use settle::{Settle, SettleKind, Settlement};

/// The name of a work item: its queue and its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemRef {
    /// Its queue.
    pub queue: QueueName,
    /// Its key in the queue.
    pub key: ItemKey,
}

impl ItemRef {
    /// Names the item with this key in this queue.
    pub fn new(queue: &QueueName, key: &ItemKey) -> Self {
        Self { queue: queue.clone(), key: key.clone() }
    }

    /// Validates the names of a queue and a key, and names the item.
    pub fn parse(queue: &str, key: &str) -> Result<Self> {
        Ok(Self { queue: QueueName::new(queue)?, key: ItemKey::new(key)? })
    }
}

impl std::fmt::Display for ItemRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "item {:?} of queue {:?}", self.key, self.queue)
    }
}

/// A part of a commit: the item has work.
///
/// Wakes commute and are idempotent: the furthest mark and the earliest due time win. Only that one
/// time is kept; the worker that leases the item at that time sets a later one again if it is still
/// needed. A wake never cuts a hold short (a retry's backoff, a deferral), and never unblocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// The item; created if it does not exist.
    pub item: ItemRef,
    /// There is work up to this mark. A mark that is already done has no effect.
    pub mark: Option<Mark>,
    /// There is work from this time on, independent of the marks.
    pub due: Option<When>,
    /// The lane, if this wake creates the item.
    pub lane: Option<LaneName>,
    /// The priority, if this wake creates the item.
    pub priority: Option<Priority>,
}

impl Wake {
    /// Wakes the item: it has work up to this mark.
    pub fn to_mark(item: ItemRef, mark: Mark) -> Self {
        Self { item, mark: Some(mark), due: None, lane: None, priority: None }
    }

    /// Wakes the item at a time.
    pub fn at(item: ItemRef, due: When) -> Self {
        Self { item, mark: None, due: Some(due), lane: None, priority: None }
    }

    /// Sets the lane of an item that this wake creates.
    #[must_use]
    pub fn in_lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Sets the priority of an item that this wake creates.
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.mark.is_none() && self.due.is_none() {
            return Err(StoreError::invalid(format!(
                "wake of {} names neither a mark nor a time",
                self.item
            )));
        }
        let due = self.due.map_or(Ok(()), |due| due.check("due time"));
        due.map_err(|e| e.about(format_args!("wake of {}", self.item)))
    }
}

/// Proof of a lease: the item and the lease's fencing token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseToken {
    /// The leased item.
    pub item: ItemRef,
    /// The fence of this lease.
    pub fence: Fence,
}

/// A request for leases.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The queue to lease from.
    pub queue: QueueName,
    /// The lane to lease from; every lane if none.
    pub lane: Option<LaneName>,
    /// The worker that holds the leases.
    pub worker: WorkerName,
    /// How long each lease lasts.
    pub duration: Duration,
    /// The most leases to grant.
    pub limit: usize,
}

impl LeaseRequest {
    /// Requests up to `limit` items of any lane.
    pub fn new(queue: &QueueName, worker: &WorkerName, duration: Duration, limit: usize) -> Self {
        Self { queue: queue.clone(), lane: None, worker: worker.clone(), duration, limit }
    }

    /// Restricts the request to one lane.
    #[must_use]
    pub fn in_lane(mut self, lane: &LaneName) -> Self {
        self.lane = Some(lane.clone());
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        check_duration(self.duration)?;
        check_count(self.limit)
    }
}

/// The exclusive right to work on an item until a deadline on the store's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The item.
    pub item: ItemRef,
    /// Fencing token: part of every commit made under this lease.
    pub fence: Fence,
    /// Done up to here.
    pub at: Mark,
    /// There is work up to here, as of the grant.
    pub mark: Mark,
    /// After this moment, another worker can take the item.
    pub deadline: Timestamp,
    /// Leases since the last progress, including this one.
    pub attempts: u32,
    /// Retries since the last progress.
    pub failures: u32,
    /// Leases that expired since the last progress.
    pub expiries: u32,
    /// The item's lane.
    pub lane: LaneName,
    /// The item's priority.
    pub priority: Priority,
}

impl Lease {
    /// Creates a settlement that acknowledges all the work that the lease was granted for.
    pub fn ack(&self) -> Settlement {
        Settlement::ack(self.token(), self.mark)
    }

    /// The proof of this lease, for commits and renewals.
    pub fn token(&self) -> LeaseToken {
        LeaseToken { item: self.item.clone(), fence: self.fence }
    }
}

/// The result of a lease request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leased {
    /// When the leases were granted, by the store's clock.
    pub at: Timestamp,
    /// The leases, in the order in which the items were selected.
    pub leases: Vec<Lease>,
    /// When the next item becomes due, unless a wake comes first; a time in the past if more is due
    /// already.
    pub next_due: Option<Timestamp>,
}

/// The result of renewing one lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// The new deadline. A renewal never shortens a lease.
    Renewed(Timestamp),
    /// The lease was lost: the item as it is now, if it exists.
    Lost(Option<Box<Item>>),
}

/// A query for a page of work items, ordered by queue and key.
#[derive(Debug, Clone)]
pub struct ItemQuery {
    /// The filter.
    pub filter: ItemFilter,
    /// Only items after this one.
    pub after: Option<ItemRef>,
    /// The most items to return.
    pub limit: usize,
}

impl ItemQuery {
    /// Queries the items that pass this filter.
    pub fn new(filter: ItemFilter) -> Self {
        Self { filter, after: None, limit: limits::PAGE_SIZE }
    }

    /// Continues after this item.
    #[must_use]
    pub fn after(mut self, item: ItemRef) -> Self {
        self.after = Some(item);
        self
    }

    /// Sets the most items to return.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Validates the query.
    pub fn check(&self) -> Result<()> {
        self.filter.check()?;
        check_page(self.limit)
    }

    /// Builds the page for a query for [one item](ItemFilter::one) from the item that the store has
    /// under that name.
    pub fn answer(&self, found: Option<Item>) -> ItemPage {
        let is_meant = |item: &Item| {
            self.filter.matches(item) && self.after.as_ref().is_none_or(|after| *after < item.item)
        };
        ItemPage { items: found.filter(is_meant).into_iter().collect(), next: None }
    }
}

/// A page of items, and where to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemPage {
    /// The items. There may be fewer than asked for, or none, although more follow, when most of
    /// the examined items did not pass the filter.
    pub items: Vec<Item>,
    /// Continue after this item, if there may be more.
    pub next: Option<ItemRef>,
}

/// Refuses a lease duration of zero or beyond the limit.
pub(crate) fn check_duration(duration: Duration) -> Result<()> {
    if duration < Duration::from_micros(1) {
        return Err(StoreError::invalid("a lease of no time was asked for"));
    }
    if duration > limits::LEASE_DURATION {
        return Err(StoreError::limit(format!(
            "a lease of {duration:?} was asked for; the limit is {:?}",
            limits::LEASE_DURATION
        )));
    }
    Ok(())
}

fn check_count(count: usize) -> Result<()> {
    match count {
        0 => Err(StoreError::invalid("0 leases were asked for")),
        n if n > limits::LEASES_PER_CALL => Err(StoreError::limit(format!(
            "{n} leases in one call; the limit is {}",
            limits::LEASES_PER_CALL
        ))),
        _ => Ok(()),
    }
}

/// Validates a renewal.
pub fn check_renewal(tokens: &[LeaseToken], duration: Duration) -> Result<()> {
    check_duration(duration)?;
    if tokens.is_empty() { Ok(()) } else { check_count(tokens.len()) }
}
