//! Names, events and commits for cases that do not care what they are.

use std::time::Duration;

use serde_json::json;
use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedVersion, ItemKey, ItemRef, Json, LaneName, Lease,
    LeaseRequest, Mark, NewEvent, QueueName, RecordKey, Store, StreamName, Version, Wake, WorkerName,
};

/// How long leases last in cases that do not care.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(crate) fn key(name: &str) -> RecordKey {
    RecordKey::new(name).unwrap()
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn lane(name: &str) -> LaneName {
    LaneName::new(name).unwrap()
}

pub(crate) fn worker(name: &str) -> WorkerName {
    WorkerName::new(name).unwrap()
}

/// The item with this key in the queue "q".
pub(crate) fn item(key: &str) -> ItemRef {
    ItemRef::new(&queue("q"), &ItemKey::new(key).unwrap())
}

pub(crate) fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

pub(crate) fn exact(number: u64) -> ExpectedVersion {
    ExpectedVersion::Exact(version(number))
}

pub(crate) fn mark(number: u64) -> Mark {
    Mark::new(number).unwrap()
}

/// An event of type "noted" with a fresh id and this number in its payload.
pub(crate) fn event(number: u64) -> NewEvent {
    NewEvent::of("noted", &json!({ "number": number })).unwrap()
}

/// That many events.
pub(crate) fn events(count: u64) -> Vec<NewEvent> {
    (1..=count).map(event).collect()
}

pub(crate) fn value(number: i64) -> Json {
    Json::new(&number).unwrap()
}

/// Commits what must be accepted.
pub(crate) async fn commit(store: &dyn Store, commit: Commit) -> Committed {
    match store.commit(commit).await.expect("the commit is answered") {
        CommitOutcome::Committed(committed) => committed,
        CommitOutcome::Conflict(conflict) => panic!("unexpected conflict: {conflict}"),
    }
}

/// Commits what must be refused.
pub(crate) async fn refused(store: &dyn Store, commit: Commit) -> Conflict {
    match store.commit(commit).await.expect("the commit is answered") {
        CommitOutcome::Committed(committed) => panic!("unexpectedly accepted: {committed:?}"),
        CommitOutcome::Conflict(conflict) => conflict,
    }
}

/// Makes an item due, with work up to this mark.
pub(crate) async fn wake(store: &dyn Store, key: &str, to: u64) {
    commit(store, Commit::new().wake(Wake::to_mark(item(key), mark(to)))).await;
}

/// Leases up to that many items of the queue "q".
pub(crate) async fn lease(store: &dyn Store, who: &str, limit: usize) -> Vec<Lease> {
    store.lease(LeaseRequest::new(&queue("q"), &worker(who), LEASE, limit)).await.unwrap().leases
}

/// Leases the one item of the queue "q" that is due.
pub(crate) async fn lease_one(store: &dyn Store, who: &str) -> Lease {
    let mut leases = lease(store, who, 1).await;
    leases.pop().expect("an item is due")
}
