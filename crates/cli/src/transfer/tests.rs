//! Stores that change while they are exported, and imports that die at every call.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tidelock::prelude::*;
use tidelock::store::{
    AfterTrim, Append, Commit, ExpectedRevision, ItemRef, LaneName, LeaseRequest, Mark,
    MemoryStore, Priority, QueueName, RawJson, RecordKey, RecordWrite, Result, Settlement, Store,
    StoreExt, StoreOperation, StreamName, Version, Wake, WorkerName,
};
use tidelock_test_stage::{DyingStore, Interceptor, Wrapped, note};

use super::{Import, Imported, Source, export};
use crate::args::ImportReactions;
use crate::progress::Progress;

/// Fields that a store assigns itself, and that are not moved.
const OWN: [&str; 3] = ["position", "recorded_at", "revision"];

/// Everything in a store that is moved, line by line.
async fn essence(store: &Arc<dyn Store>) -> Vec<Value> {
    let exported = export(store, Vec::new(), &Progress::counting("events")).await.unwrap();
    let lines = String::from_utf8(exported.to).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line.get("export").is_none() && line.get("end").is_none())
        .map(moving)
        .collect()
}

fn moving(mut line: Value) -> Value {
    let inside = line
        .as_object_mut()
        .and_then(|line| line.values_mut().next())
        .and_then(Value::as_object_mut);
    if let Some(fields) = inside {
        OWN.iter().for_each(|own| drop(fields.remove(*own)));
    }
    line
}

/// A store with a trimmed, a closed and two mixed streams, a record, and items in several states.
async fn filled() -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let tidelock = Tidelock::over(store.clone());
    for nth in 0..5 {
        note(&tidelock, ["a", "b"][nth % 2], &nth.to_string()).await;
    }
    let (a, b) = (StreamName::new("a").unwrap(), StreamName::new("b").unwrap());
    let trim = Commit::new()
        .with_append(Append::closing(&a, ExpectedVersion::Exists))
        .trim(&a, Version::FIRST, AfterTrim::Reopen)
        .with_append(Append::closing(&b, ExpectedVersion::Exists))
        .write(RecordWrite::put(
            &RecordKey::new("r").unwrap(),
            ExpectedRevision::Any,
            RawJson::new(&7).unwrap(),
        ));
    store.commit(trim).await.unwrap().committed().unwrap();
    for key in ["idle", "blocked", "due"] {
        let wake = Wake::to_mark(ItemRef::parse("mail", key).unwrap(), Mark::new(3).unwrap());
        let wake =
            wake.in_lane(LaneName::new(key).unwrap()).with_priority(Priority::new(5).unwrap());
        store.commit(Commit::new().wake(wake)).await.unwrap().committed().unwrap();
    }
    settle(&*store, "idle", tidelock::store::Lease::ack).await;
    settle(&*store, "blocked", |lease| {
        Settlement::block(lease.token(), "broken").having_done(Mark::new(1).unwrap())
    })
    .await;
    store
}

async fn settle(
    store: &dyn Store,
    lane: &str,
    how: impl Fn(&tidelock::store::Lease) -> Settlement,
) {
    let (queue, worker) = (QueueName::new("mail").unwrap(), WorkerName::new("w").unwrap());
    let request = LeaseRequest::new(&queue, &worker, Duration::from_secs(60), 1);
    let leased = store.lease(request.in_lane(&LaneName::new(lane).unwrap())).await.unwrap();
    store.commit(Commit::new().settle(how(&leased.leases[0]))).await.unwrap().committed().unwrap();
}

/// CMD-6: whichever call is the last, and whether it takes effect or not.
#[tokio::test]
async fn an_import_that_dies_at_any_call_continues_without_duplicates() {
    let (source, folder) = (filled().await, tempfile::tempdir().unwrap());
    let path = folder.path().join("all.jsonl");
    std::fs::write(
        &path,
        export(&source, Vec::new(), &Progress::counting("events")).await.unwrap().to,
    )
    .unwrap();
    let file = Source::file(&path);
    let (expected, mut deaths) = (essence(&source).await, 0);
    for last_words in [false, true] {
        for calls in 0.. {
            let target: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let mortal = DyingStore::over(target.clone(), calls, last_words);
            let import = || Import::check(&file, ImportReactions::Continue).unwrap();
            let died = import().into(&(mortal.clone() as Arc<dyn Store>)).await.is_err();
            import().into(&target).await.unwrap_or_else(|e| panic!("after {calls} calls: {e}"));
            assert_eq!(essence(&target).await, expected, "after {calls} calls");
            assert!(matches!(import().into(&target).await, Ok(Imported::Already(_))));
            deaths += u32::from(died);
            if !mortal.is_dead() {
                break;
            }
        }
    }
    assert!(deaths > 20, "only {deaths} died");
}

/// Writes a record when the feed is read.
#[derive(Debug)]
struct Busy {
    store: Arc<dyn Store>,
    written: AtomicBool,
}

impl Interceptor for Busy {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if operation == StoreOperation::ReadFeed && !self.written.swap(true, Ordering::SeqCst) {
            let key = RecordKey::new("r").unwrap();
            self.store
                .put(&key, ExpectedRevision::Any, RawJson::new(&8).unwrap())
                .await?
                .committed()
                .unwrap();
        }
        call.await
    }
}

#[tokio::test]
async fn an_export_of_a_store_that_changes_meanwhile_is_not_settled_and_not_continued() {
    let store = filled().await;
    let quiet = export(&store, Vec::new(), &Progress::counting("events")).await.unwrap();
    assert!(quiet.settled);
    let busy: Arc<dyn Store> =
        Wrapped::new(store.clone(), Busy { store, written: AtomicBool::new(false) });
    let exported = export(&busy, Vec::new(), &Progress::counting("events")).await.unwrap();
    assert!(!exported.settled);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.jsonl");
    std::fs::write(&path, exported.to).unwrap();
    let file = Source::file(&path);
    let refused = Import::check(&file, ImportReactions::Continue).err().expect("it is refused");
    assert!(refused.to_string().contains("was written while its store was in use"), "{refused}");
    assert!(Import::check(&file, ImportReactions::None).is_ok());
}
