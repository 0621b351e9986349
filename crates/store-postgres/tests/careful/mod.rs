//! Calls with retries, as a careful program makes them: the server may have been replaced a moment
//! ago.

// Each test binary uses what it needs of this.
#![allow(dead_code)]

use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Committed, FeedQuery, Fence, Lease, LeaseRequest, Position, Result,
    RetryAdvice, Store, StoreError, StoreErrorKind, StoredEvent, ViolationReason, WorkerName,
};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{append, queue, wake};

/// A lease that outlasts every test.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A lease that has expired by the time of the next call.
pub(crate) const SHORT: Duration = Duration::from_micros(1);

/// Attempts per call.
const TRIES: usize = 20;

/// Retries until there is an answer.
async fn answer<T>(mut ask: impl AsyncFnMut() -> Result<T>) -> T {
    for _ in 1..TRIES {
        match ask().await {
            Err(error) if error.advice() != RetryAdvice::Never => {}
            answered => return answered.unwrap(),
        }
    }
    ask().await.unwrap()
}

async fn send(store: &PostgresStore, commit: &Commit) -> CommitOutcome {
    answer(async || store.commit(commit.clone()).await).await
}

/// Makes a commit that must be accepted.
pub(crate) async fn commit(store: &PostgresStore, commit: Commit) -> Committed {
    send(store, &commit).await.committed().unwrap()
}

/// Appends an event with this text to a stream of that name, and returns its position.
pub(crate) async fn note(store: &PostgresStore, text: &str) -> Position {
    commit(store, append(text, text)).await.appends[0].positions.unwrap().0
}

/// Makes an item due, and leases it.
pub(crate) async fn wake_and_lease(store: &PostgresStore, key: &str, duration: Duration) -> Lease {
    commit(store, wake(key)).await;
    lease(store, key, duration).await
}

/// Leases the item, which is the only one available.
pub(crate) async fn lease(store: &PostgresStore, key: &str, duration: Duration) -> Lease {
    let request = LeaseRequest::new(&queue(), &WorkerName::new("w").unwrap(), duration, 1);
    let leased = answer(async || store.lease(request.clone()).await).await;
    let lease = leased.leases.into_iter().next().expect("it is due and free");
    assert_eq!(lease.item.key.as_str(), key);
    lease
}

/// Checks that a commit under this lease is refused; returns the current fence.
pub(crate) async fn assert_lease_lost(store: &PostgresStore, lease: &Lease) -> Option<Fence> {
    let conflict = send(store, &Commit::new().settle(lease.ack())).await.conflict();
    let mut violations = conflict.expect("the lease was lost").violations;
    match violations.pop().map(|violation| violation.reason) {
        Some(ViolationReason::LeaseLost { found, .. }) => found.and_then(|item| item.fence),
        other => panic!("{other:?}"),
    }
}

/// Everything after a position, in one page.
pub(crate) async fn read_after(
    store: &PostgresStore,
    position: Position,
) -> Result<Vec<StoredEvent>> {
    let page = store.read_feed(FeedQuery::after(position)).await?;
    assert!(page.at_end);
    Ok(page.events)
}

/// Checks that reading after a lost position is an error that names the last valid one.
pub(crate) async fn assert_rewound(store: &PostgresStore, lost: Position, last: Position) {
    let refused = read_after(store, lost).await.expect_err("that position was lost");
    assert_eq!(refused.kind(), StoreErrorKind::Rewound, "{refused}");
    assert_eq!(refused.context(), StoreError::rewound(lost, last).context());
}
