//! Sample names, events and commits, for cases to which they do not matter.

use std::time::Duration;

use serde_json::json;
use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedVersion, FeedQuery, Head, HeadQuery, Item,
    ItemFilter, ItemKey, ItemQuery, ItemRef, LaneName, Lease, LeaseRequest, Mark, NewEvent, Part,
    Position, QueueName, RawJson, Record, RecordKey, RecordQuery, Revision, Store, StoreError,
    StoredEvent, StreamName, Version, Violation, ViolationReason, Wake, WorkerName,
};

use crate::case::World;

/// The lease duration of cases to which it does not matter.
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

pub(crate) fn value(number: i64) -> RawJson {
    RawJson::new(&number).unwrap()
}

/// Makes a commit that must be accepted.
pub(crate) async fn commit(store: &dyn Store, commit: Commit) -> Committed {
    match store.commit(commit).await.expect("the commit is answered") {
        CommitOutcome::Committed(committed) => committed,
        CommitOutcome::Conflict(conflict) => panic!("unexpected conflict: {conflict}"),
    }
}

/// Makes a commit that must be refused.
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

/// Everything that can be read of a small store, to check that a refusal left no trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Everything {
    pub(crate) heads: Vec<Head>,
    pub(crate) events: Vec<StoredEvent>,
    pub(crate) records: Vec<Record>,
    pub(crate) items: Vec<Item>,
}

pub(crate) async fn everything(store: &dyn Store) -> Everything {
    let feed = store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    Everything {
        heads: store.heads(HeadQuery::prefix("")).await.unwrap().heads,
        events: feed.events,
        records: store.scan(RecordQuery::prefix("")).await.unwrap().records,
        items: store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items,
    }
}

/// Makes a commit that must be refused, and checks that it left no trace.
pub(crate) async fn refused_whole(store: &dyn Store, commit: Commit) -> Conflict {
    let before = everything(store).await;
    let conflict = refused(store, commit).await;
    assert_eq!(everything(store).await, before, "a refused commit leaves no trace");
    conflict
}

/// Makes a commit that must fail, and checks that it left no trace.
pub(crate) async fn failed(store: &dyn Store, commit: Commit) -> StoreError {
    let before = everything(store).await;
    let error = store.commit(commit).await.expect_err("the commit is an error");
    assert_eq!(everything(store).await, before, "a failed commit leaves no trace");
    error
}

/// The conflict over one part.
pub(crate) fn violation(part: Part, reason: ViolationReason) -> Conflict {
    Conflict { violations: vec![Violation { part, reason }] }
}

pub(crate) fn revision(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

pub(crate) fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

/// Sends both at the same time, each over its own handle.
pub(crate) async fn at_once(world: &World, one: Commit, other: Commit) -> [CommitOutcome; 2] {
    let (first, second) = (world.nth(0).await, world.nth(1).await);
    let first = tokio::spawn(async move { first.commit(one).await });
    let second = tokio::spawn(async move { second.commit(other).await });
    [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()]
}
