//! Expected work items, and the common first steps of the cases about leases.

use std::time::Duration;

use tidelock_store::{
    Adjustment, Commit, Conflict, Item, ItemFilter, ItemQuery, LaneName, Lease, LeaseHolder,
    LeaseToken, Mark, NamePattern, Part, Priority, Settlement, Store, Timestamp, Violation,
    ViolationReason, When,
};

use crate::sample::{commit, item, lease_one, mark, wake, worker};

/// The smallest difference of times in a store.
pub(crate) const INSTANT: Duration = Duration::from_micros(1);

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) async fn now(store: &dyn Store) -> Timestamp {
    store.now().await.unwrap()
}

/// The items that pass this filter, which are few.
pub(crate) async fn items(store: &dyn Store, filter: ItemFilter) -> Vec<Item> {
    store.items(ItemQuery::new(filter)).await.unwrap().items
}

/// The item with this key in the queue "q".
pub(crate) async fn item_now(store: &dyn Store, key: &str) -> Item {
    let mut found = items(store, ItemFilter::queue("q").key(NamePattern::is(key))).await;
    assert_eq!(found.len(), 1, "there is one item {key:?}");
    found.remove(0)
}

/// A new item without work.
pub(crate) fn idle(key: &str) -> Item {
    Item {
        item: item(key),
        lane: LaneName::default(),
        priority: Priority::NORMAL,
        at: Mark::ZERO,
        mark: Mark::ZERO,
        due: None,
        hold: None,
        attempts: 0,
        failures: 0,
        expiries: 0,
        blocked: false,
        error: None,
        fence: None,
        holder: None,
        settled: None,
        forget_at: None,
    }
}

/// A new item, made by a wake to this mark.
pub(crate) fn due(key: &str, to: u64, since: Timestamp) -> Item {
    Item { mark: mark(to), due: Some(since), ..idle(key) }
}

/// The item as this lease, granted then, has left it.
pub(crate) fn held(lease: &Lease, who: &str, since: Timestamp) -> Item {
    Item {
        item: lease.item.clone(),
        lane: lease.lane.clone(),
        priority: lease.priority,
        at: lease.at,
        mark: lease.mark,
        due: None,
        hold: None,
        attempts: lease.attempts,
        failures: lease.failures,
        expiries: lease.expiries,
        blocked: false,
        error: None,
        fence: Some(lease.fence),
        holder: Some(LeaseHolder { worker: worker(who), since, deadline: lease.deadline }),
        settled: None,
        forget_at: None,
    }
}

/// An item with work up to this mark, leased by the worker "w".
pub(crate) async fn leased(store: &dyn Store, key: &str, to: u64) -> Lease {
    wake(store, key, to).await;
    let lease = lease_one(store, "w").await;
    assert_eq!(lease.item, item(key), "nothing else was due");
    lease
}

/// Settles a current lease.
pub(crate) async fn settle(store: &dyn Store, settlement: Settlement) {
    commit(store, Commit::new().settle(settlement)).await;
}

/// One settlement of each kind, none of them with progress.
pub(crate) fn every_exit(lease: &Lease) -> [Settlement; 5] {
    [
        Settlement::ack(lease.token(), lease.at),
        Settlement::retry(lease.token(), secs(5), "no luck"),
        Settlement::defer(lease.token(), When::In(secs(5))),
        Settlement::block(lease.token(), "no hope"),
        Settlement::release(lease.token()),
    ]
}

/// Defers all items, so that the next round of a case has the queue to itself.
pub(crate) async fn set_aside(store: &dyn Store) {
    let until = When::In(secs(1_000_000_000));
    store.adjust(ItemFilter::default(), Adjustment::Defer { until }).await.unwrap();
}

/// The conflict of a commit whose only violation is that this lease is lost.
pub(crate) fn lost(part: Part, lease: &LeaseToken, found: Option<Item>) -> Conflict {
    Conflict { violations: vec![lost_part(part, lease, found)] }
}

/// The violation for this lost lease.
pub(crate) fn lost_part(part: Part, lease: &LeaseToken, found: Option<Item>) -> Violation {
    Violation {
        part,
        reason: ViolationReason::LeaseLost { lease: lease.clone(), found: found.map(Box::new) },
    }
}
