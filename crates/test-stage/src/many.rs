//! More rows than one call of a store scans, written directly to the store so that they cost
//! little.

use tidelock::prelude::*;
use tidelock::store::{
    Commit, ExpectedRevision, ItemRef, Mark, NewEvent, QueueName, RawJson, RecordKey, RecordWrite,
    Store, StoreExt, StreamName, Wake, limits,
};

/// Somewhat more than a store scans for one page.
pub const MANY: usize = limits::FEED_SCAN + 100;

/// Due items of one queue, with a common key prefix.
pub async fn many_items(store: &dyn Store, queue: &QueueName, prefix: &str) {
    let wake = |commit: Commit, nth| {
        let item = ItemRef::parse(queue.as_str(), &named(prefix, nth)).unwrap();
        commit.wake(Wake::to_mark(item, Mark::new(1).unwrap()))
    };
    commit_many(store, wake).await;
}

/// Records with a common key prefix.
pub async fn many_records(store: &dyn Store, prefix: &str, value: &RawJson) {
    let put = |commit: Commit, nth| {
        commit.write(RecordWrite::put(&record(prefix, nth), ExpectedRevision::Any, value.clone()))
    };
    commit_many(store, put).await;
}

/// Deleted records: a store scans them, and shows none.
pub async fn many_gone(store: &dyn Store, prefix: &str) {
    many_records(store, prefix, &RawJson::new(&0).unwrap()).await;
    let delete = |commit: Commit, nth| {
        commit.write(RecordWrite::delete(&record(prefix, nth), ExpectedRevision::Any))
    };
    commit_many(store, delete).await;
}

/// Events at the end of one stream.
pub async fn many_events(store: &dyn Store, stream: &str, count: usize) {
    let stream = StreamName::new(stream).unwrap();
    for first in (0..count).step_by(limits::EVENTS_PER_COMMIT) {
        let some = first..count.min(first + limits::EVENTS_PER_COMMIT);
        let events = some.map(|nth| NewEvent::of("noted", &nth).unwrap()).collect();
        store.append(&stream, ExpectedVersion::Any, events).await.unwrap().committed().unwrap();
    }
}

fn named(prefix: &str, nth: usize) -> String {
    format!("{prefix}{nth:05}")
}

fn record(prefix: &str, nth: usize) -> RecordKey {
    RecordKey::new(named(prefix, nth)).unwrap()
}

/// Many parts, in as few commits as possible.
async fn commit_many(store: &dyn Store, add: impl Fn(Commit, usize) -> Commit) {
    for first in (0..MANY).step_by(limits::PARTS_PER_COMMIT) {
        let some = first..MANY.min(first + limits::PARTS_PER_COMMIT);
        store.commit(some.fold(Commit::new(), &add)).await.unwrap().committed().unwrap();
    }
}
