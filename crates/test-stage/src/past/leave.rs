//! Traces of earlier use in a store.

use std::sync::Arc;
use std::time::Duration;

use tidelock::When;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, StepError};
use tidelock::store::{
    AfterTrim, Append, Bounds, Commit, ExpectedRevision, ItemRef, LeaseRequest, NewEvent,
    QueueName, RawJson, RecordKey, RecordWrite, Store, StoreExt, StreamName, Version, Wake,
    WorkerName,
};

use crate::{Running, brisk};

/// The number of events of each stream.
const EVENTS: u64 = 30;

/// Uses a store and leaves traces under names that begin with this.
pub async fn leave(store: &Arc<dyn Store>, name: &str) {
    stream(&**store, &format!("{name}-closed"), AfterTrim::StayClosed).await;
    stream(&**store, &format!("{name}-reopened"), AfterTrim::Reopen).await;
    records(&**store, name).await;
    items(&**store, name).await;
    run(&Tidelock::over(store.clone()), name).await;
}

/// A stream that was filled, closed and trimmed: its positions and versions are never given out
/// again.
async fn stream(store: &dyn Store, name: &str, then: AfterTrim) {
    let (stream, all) = (StreamName::new(name).unwrap(), Version::new(EVENTS).unwrap());
    let events = (0..EVENTS).map(|nth| NewEvent::of("noted", &nth).unwrap()).collect();
    store.append(&stream, ExpectedVersion::NoStream, events).await.unwrap().committed().unwrap();
    let closing = Append::closing(&stream, ExpectedVersion::Exact(all));
    commit(store, Commit::new().with_append(closing)).await;
    commit(store, Commit::new().trim(&stream, all, then)).await;
}

/// A deleted record, one that was deleted and written again, and a counter.
async fn records(store: &dyn Store, name: &str) {
    let key = |what: &str| RecordKey::new(format!("{name}/{what}")).unwrap();
    for what in ["gone", "again"] {
        put(store, &key(what)).await;
        commit(store, Commit::new().write(RecordWrite::delete(&key(what), ExpectedRevision::Any)))
            .await;
    }
    put(store, &key("again")).await;
    commit(store, Commit::new().write(RecordWrite::add(&key("count"), 7, Bounds::NONE))).await;
}

/// Items that were enqueued, leased and acknowledged, some of them twice.
async fn items(store: &dyn Store, name: &str) {
    let (queue, worker) =
        (QueueName::new(format!("{name}-queue")).unwrap(), WorkerName::new(name).unwrap());
    for key in ["a", "b", "a"] {
        let item = ItemRef::parse(queue.as_str(), key).unwrap();
        commit(store, Commit::new().wake(Wake::at(item, When::NOW))).await;
        let request = LeaseRequest::new(&queue, &worker, Duration::from_secs(60), 1);
        let lease = store.lease(request).await.unwrap().leases.pop().expect("it is due");
        commit(store, Commit::new().settle(lease.ack())).await;
    }
}

/// Ended runs, one completed and one failed.
async fn run(tidelock: &Tidelock, name: &str) {
    let workflow = format!("{name}-workflow");
    let app = tidelock.app().worker(brisk(name)).workflow(&workflow, double);
    let running = Running::start(app);
    for (run, input, succeeds) in [("run-1", 21, true), ("run-2", 0, false)] {
        let start = tidelock.start(&workflow, format!("{name}-{run}"), &input).version(1);
        let run = start.await.unwrap().typed::<u64>();
        let ended = run.result().within(crate::PATIENCE).await;
        assert_eq!(ended.is_ok(), succeeds, "{ended:?}");
    }
    running.stop().await;
}

async fn double(ctx: RunCtx, input: u64) -> Result<u64, StepError> {
    let doubled = ctx.step("double", |_| async move {
        input
            .checked_mul(2)
            .filter(|n| *n > 0)
            .ok_or_else(|| HandlerError::fatal("there is nothing to double"))
    });
    doubled.await
}

async fn put(store: &dyn Store, key: &RecordKey) {
    commit(
        store,
        Commit::new().write(RecordWrite::put(
            key,
            ExpectedRevision::Any,
            RawJson::new(&1).unwrap(),
        )),
    )
    .await;
}

async fn commit(store: &dyn Store, commit: Commit) {
    store.commit(commit).await.unwrap().committed().unwrap();
}
