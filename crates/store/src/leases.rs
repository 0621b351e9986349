//! Leases: work items that can be due, and the right to work on one of them for a while.
//!
//! There is one item per queue and key. It has work up to its *mark* and has done it up to *at*; it
//! is due when a wake said so, and free unless somebody leased it. A lease ends by a settlement, or
//! by its deadline; whoever leases next gets a higher fence, and from then on the earlier holder
//! writes nothing.

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
    /// The queue it is in.
    pub queue: QueueName,
    /// Its key there.
    pub key: ItemKey,
}

impl ItemRef {
    /// The item with this key in this queue.
    pub fn new(queue: &QueueName, key: &ItemKey) -> Self {
        Self { queue: queue.clone(), key: key.clone() }
    }

    /// The item with this key in this queue, checked.
    pub fn parse(queue: &str, key: &str) -> Result<Self> {
        Ok(Self { queue: QueueName::new(queue)?, key: ItemKey::new(key)? })
    }
}

impl std::fmt::Display for ItemRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "item {:?} of queue {:?}", self.key, self.queue)
    }
}

/// A part of a commit: this item has something to do.
///
/// Wakes commute and can be repeated: the furthest mark and the earliest due time count. Only that
/// one time is kept: whoever is leased the item at it sets a later one again if it is still wanted.
/// A wake never cuts a hold short (a retry's backoff, a deferral), and never unblocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// The item; it is made if there is none.
    pub item: ItemRef,
    /// There is work up to here. A mark that is already done wakes nobody.
    pub mark: Option<Mark>,
    /// There is work from this time on, whatever the marks say.
    pub due: Option<When>,
    /// The lane of an item that this wake makes.
    pub lane: Option<LaneName>,
    /// The priority of an item that this wake makes.
    pub priority: Option<Priority>,
}

impl Wake {
    /// This item has work up to this mark.
    pub fn to_mark(item: ItemRef, mark: Mark) -> Self {
        Self { item, mark: Some(mark), due: None, lane: None, priority: None }
    }

    /// This item has work at that time.
    pub fn at(item: ItemRef, due: When) -> Self {
        Self { item, mark: None, due: Some(due), lane: None, priority: None }
    }

    /// The same wake; an item that it makes is put in this lane.
    #[must_use]
    pub fn in_lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// The same wake; an item that it makes gets this priority.
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

/// Proof of a lease: the item and the fence it was granted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseToken {
    /// The leased item.
    pub item: ItemRef,
    /// The fence of this lease.
    pub fence: Fence,
}

/// Asks for leases.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// From this queue.
    pub queue: QueueName,
    /// From this lane of it, or from all.
    pub lane: Option<LaneName>,
    /// For this worker.
    pub worker: WorkerName,
    /// For this long.
    pub duration: Duration,
    /// At most this many.
    pub limit: usize,
}

impl LeaseRequest {
    /// Up to `limit` items of any lane.
    pub fn new(queue: &QueueName, worker: &WorkerName, duration: Duration, limit: usize) -> Self {
        Self { queue: queue.clone(), lane: None, worker: worker.clone(), duration, limit }
    }

    /// The same, from this lane only.
    #[must_use]
    pub fn in_lane(mut self, lane: &LaneName) -> Self {
        self.lane = Some(lane.clone());
        self
    }

    /// Refuses what no store should be asked.
    pub fn check(&self) -> Result<()> {
        check_duration(self.duration)?;
        check_count(self.limit)
    }
}

/// The right to work on an item until a deadline on the store's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The item.
    pub item: ItemRef,
    /// Goes into every commit made under this lease.
    pub fence: Fence,
    /// Done up to here.
    pub at: Mark,
    /// Work up to here, when it was leased.
    pub mark: Mark,
    /// After this, others may take the item.
    pub deadline: Timestamp,
    /// Leases since the last progress, this one included.
    pub attempts: u32,
    /// Retries since the last progress.
    pub failures: u32,
    /// Leases that ran out since the last progress.
    pub expiries: u32,
    /// The item's lane.
    pub lane: LaneName,
    /// The item's priority.
    pub priority: Priority,
}

impl Lease {
    /// Ends this lease well: all of the work that it was granted for is done.
    pub fn ack(&self) -> Settlement {
        Settlement::ack(self.token(), self.mark)
    }

    /// The proof to put into commits and renewals.
    pub fn token(&self) -> LeaseToken {
        LeaseToken { item: self.item.clone(), fence: self.fence }
    }
}

/// What leasing gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leased {
    /// The moment at which they were granted, by the store's clock.
    pub at: Timestamp,
    /// The leases, in the order in which the items were chosen.
    pub leases: Vec<Lease>,
    /// When there will next be something to lease here if nobody wakes anything before; a time that
    /// has passed if more is due already.
    pub next_due: Option<Timestamp>,
}

/// What renewing one lease gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// It now lasts until then. A renewal never shortens a lease.
    Renewed(Timestamp),
    /// It was lost: what is there now, if the item exists.
    Lost(Option<Box<Item>>),
}

/// A page of work items, by queue and key.
#[derive(Debug, Clone)]
pub struct ItemQuery {
    /// Which items.
    pub filter: ItemFilter,
    /// Only items after this one.
    pub after: Option<ItemRef>,
    /// How many at most.
    pub limit: usize,
}

impl ItemQuery {
    /// The items that pass this filter.
    pub fn new(filter: ItemFilter) -> Self {
        Self { filter, after: None, limit: limits::PAGE_SIZE }
    }

    /// The same, after this item.
    #[must_use]
    pub fn after(mut self, item: ItemRef) -> Self {
        self.after = Some(item);
        self
    }

    /// The same, at most this many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Refuses what no store should be asked.
    pub fn check(&self) -> Result<()> {
        self.filter.check()?;
        check_page(self.limit)
    }

    /// The answer to a query for [one item](ItemFilter::one), when this is what the store has under
    /// its name.
    pub fn answer(&self, found: Option<Item>) -> ItemPage {
        let is_meant = |item: &Item| {
            self.filter.matches(item) && self.after.as_ref().is_none_or(|after| *after < item.item)
        };
        ItemPage { items: found.filter(is_meant).into_iter().collect(), next: None }
    }
}

/// Items, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemPage {
    /// The items. May be fewer than asked for, or none, though more follow, when most of those
    /// looked at did not pass.
    pub items: Vec<Item>,
    /// Read on after this item, if there may be more.
    pub next: Option<ItemRef>,
}

/// Refuses a lease of no time, or of an absurd one.
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

/// Refuses a renewal that no store should be asked for.
pub fn check_renewal(tokens: &[LeaseToken], duration: Duration) -> Result<()> {
    check_duration(duration)?;
    if tokens.is_empty() { Ok(()) } else { check_count(tokens.len()) }
}
