//! The doctor's findings about reserved queues.

use std::time::Duration;

use serde_json::json;
use tidelock::When;
use tidelock::doctor::{Doctor, Finding, FindingKind, Thresholds};
use tidelock::store::{
    Commit, ItemFilter, ItemQuery, ItemRef, LeaseRequest, LeaseToken, QueueName, Settlement, Store,
    StoreExt, StreamName, Wake, WorkerName,
};
use tidelock_test_stage::{TestStore, on_every_store, until};

on_every_store!(
    a_closing_whose_process_died_is_found_once,
    a_dead_holder_is_replaced_by_the_application_of_its_queue,
    a_permit_that_no_worker_needs_is_no_problem,
);

/// The doctor's findings with zero patience.
async fn findings(store: &std::sync::Arc<dyn Store>) -> Vec<Finding> {
    let doctor = Doctor::over(store.clone());
    let bounds = Thresholds { stuck_after: Duration::ZERO, ..doctor.bounds() };
    doctor.within(bounds).examine().await.unwrap().findings
}

/// Leases an item, and dies.
async fn die_over(store: &dyn Store, queue: &str) {
    let (queue, worker) = (QueueName::new(queue).unwrap(), WorkerName::new("silent").unwrap());
    let request = LeaseRequest::new(&queue, &worker, Duration::from_micros(1), 1);
    until("the lease is had, and then over", async || {
        !store.lease(request.clone()).await.unwrap().leases.is_empty()
    })
    .await;
    let now = store.now().await.unwrap();
    until("time has passed", async || {
        store.now().await.unwrap() > now.plus(Duration::from_micros(1))
    })
    .await;
}

/// CMD-5. The closing's lease is not a second finding: no worker of a user serves its queue.
async fn a_closing_whose_process_died_is_found_once(stage: TestStore) {
    let (store, tidelock) = (stage.store().await, stage.tidelock().await);
    let stream = StreamName::new("dead-1").unwrap();
    tidelock_test_stage::note(&tidelock, stream.as_str(), "one").await;
    let full = |_: Vec<tidelock::store::StoredEvent>| async { Err::<(), _>("the disk is full") };
    tidelock.archive_stream_to(&stream, full).close().await.unwrap_err();
    let mut items = store.rows(ItemQuery::new(ItemFilter::default()));
    let mut desks = Vec::new();
    while let Some(item) = items.next().await.unwrap() {
        desks.extend(item.item.queue.as_str().starts_with("~closing/").then_some(item.item.queue));
    }
    // One death, and several.
    for _ in 0..3 {
        for desk in &desks {
            let item = ItemRef::parse(desk.as_str(), "books").unwrap();
            store
                .commit(Commit::new().wake(Wake::at(item, When::NOW)))
                .await
                .unwrap()
                .committed()
                .unwrap();
            die_over(&*store, desk.as_str()).await;
        }
        let found = findings(&store).await;
        let closings: Vec<_> =
            found.iter().filter(|finding| finding.subject.to_string().contains("dead-1")).collect();
        assert_eq!((closings.len(), closings[0].kind), (1, FindingKind::HalfClosed), "{found:?}");
        assert!(
            !found.iter().any(|finding| finding.subject.to_string().contains("~closing/")),
            "{found:?}"
        );
    }
}

/// CMD-5. A reserved queue is served by an application, not by a worker of a user.
async fn a_dead_holder_is_replaced_by_the_application_of_its_queue(stage: TestStore) {
    let store = stage.store().await;
    let served = [
        ("mail", "a worker that serves it"),
        ("~reaction/mailing", "a process that registers reaction \"mailing\""),
        ("~runs/ship@2", "a process that registers that version"),
        ("~schedules", "a process that registers a workflow"),
        ("~run-retention", "a process that registers a workflow"),
        ("~link-removal", "a process that registers a reaction with computed targets"),
    ];
    for (queue, by) in served {
        let item = ItemRef::parse(queue, "corner").unwrap();
        if queue.starts_with("~runs/") {
            // An item without its run needs no worker.
            let tidelock = tidelock::Tidelock::over(store.clone());
            tidelock.start("ship", "corner", &json!(7)).version(2).await.unwrap();
        }
        store
            .commit(Commit::new().wake(Wake::at(item, When::NOW)))
            .await
            .unwrap()
            .committed()
            .unwrap();
        die_over(&*store, queue).await;
        let found = findings(&store).await;
        let expired = found.iter().rfind(|finding| {
            let thing = finding.subject.to_string();
            finding.kind == FindingKind::Expired
                && thing.contains("corner")
                && [queue, "mailing", "run \""].iter().any(|name| thing.contains(name))
        });
        let expired = expired.unwrap_or_else(|| panic!("{queue}: {found:?}"));
        let advice = json!(expired.remedy)["advice"].as_str().unwrap().to_owned();
        assert!(advice.contains(by), "{queue}: {advice}");
        let item = store.item(&ItemRef::parse(queue, "corner").unwrap()).await.unwrap().unwrap();
        let token = LeaseToken { item: item.item, fence: item.fence.unwrap() };
        let finished = Settlement::finish(token, tidelock::store::Mark::ZERO, When::NOW);
        store.commit(Commit::new().settle(finished)).await.unwrap().committed().unwrap();
    }
}

/// CMD-5. It is due, or was leased by a worker that died, once or several times.
async fn a_permit_that_no_worker_needs_is_no_problem(stage: TestStore) {
    let store = stage.store().await;
    let permit = ItemRef::parse("~permits/mail", "0001").unwrap();
    let create = Commit::new().wake(Wake::at(permit, When::NOW));
    store.commit(create).await.unwrap().committed().unwrap();
    for deaths in 0..4 {
        let found = findings(&store).await;
        let found = found.iter().find(|finding| finding.subject.to_string().contains("~permits"));
        assert!(found.is_none(), "after {deaths} deaths: {found:?}");
        die_over(&*store, "~permits/mail").await;
    }
}
