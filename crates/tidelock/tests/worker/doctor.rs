//! The doctor's findings about reserved queues, workers, claims and records.

use std::time::Duration;

use serde_json::json;
use tidelock::When;
use tidelock::claims::{IdempotencyClaim, OnFailure};
use tidelock::doctor::{Doctor, Finding, FindingKind, Thresholds};
use tidelock::store::{
    Bounds, Commit, ItemFilter, ItemQuery, ItemRef, LeaseRequest, LeaseToken, QueueName, RecordKey,
    RecordWrite, Settlement, Store, StoreExt, StreamName, Wake, WorkerName,
};
use tidelock_test_stage::{TestStore, in_memory, on_every_store, until};

on_every_store!(
    a_worker_that_makes_no_progress_with_any_lease_is_one_finding,
    a_share_of_claims_that_fail_is_a_finding,
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
        ("~projection-rebuilds", "a process that registers a projection"),
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

/// The findings of a kind.
async fn of_kind(
    store: &std::sync::Arc<dyn Store>,
    bounds: Thresholds,
    kind: FindingKind,
) -> Vec<String> {
    let found = Doctor::over(store.clone()).within(bounds).examine().await.unwrap().findings;
    let found = found.into_iter().filter(|finding| finding.kind == kind);
    found.map(|finding| format!("{}: {}", finding.subject, finding.what)).collect()
}

/// CMD-5. The items that it holds are no findings of their own; that of a worker with one lease is.
async fn a_worker_that_makes_no_progress_with_any_lease_is_one_finding(stage: TestStore) {
    let (store, tidelock) = (stage.store().await, stage.tidelock().await);
    let queue = tidelock.queue("mail");
    let lease = async |worker: &str, keys: &[&str]| {
        for key in keys {
            queue.enqueue(key).await.unwrap();
            queue.lease(worker).duration(Duration::from_secs(3_600)).await.unwrap();
        }
    };
    lease("sleeper", &["a", "b", "c", "d"]).await;
    lease("patient", &["e"]).await;
    let bounds = Thresholds { hung_after: Duration::ZERO, ..Thresholds::default() };
    let stuck = of_kind(&store, bounds, FindingKind::Stuck).await;
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    assert!(stuck[0].starts_with("worker \"sleeper\": it renews 4 leases"), "{stuck:?}");
    assert!(stuck[0].ends_with("item \"c\" of queue \"mail\" and 1 more"), "{stuck:?}");
    let hung = of_kind(&store, bounds, FindingKind::Hung).await;
    assert!(hung.len() == 1 && hung[0].contains("\"e\""), "{hung:?}");
    assert!(of_kind(&store, Thresholds::default(), FindingKind::Stuck).await.is_empty());
}

/// CMD-5. Of enough claims.
async fn a_share_of_claims_that_fail_is_a_finding(stage: TestStore) {
    let (store, tidelock) = (stage.store().await, stage.tidelock().await);
    let claim = async |from: usize, to: usize, fails: bool| {
        for nth in from..to {
            let claim = tidelock.idempotency(format!("pay-{nth}")).on_failure(OnFailure::Remember);
            let claim = claim.claim::<usize>().await.unwrap();
            let IdempotencyClaim::Won(won) = claim else { panic!("it is free") };
            match fails {
                true => won.fail("no funds").await.unwrap(),
                false => drop(won.complete(&nth).await.unwrap()),
            }
        }
    };
    let found = async |failing_claims: u8| {
        let bounds = Thresholds { failing_claims, ..Thresholds::default() };
        of_kind(&store, bounds, FindingKind::FailingClaims).await
    };
    claim(0, 5, true).await;
    assert!(found(10).await.is_empty(), "too few to say anything");
    claim(5, 25, false).await;
    let what = "claims: of 25 that were acquired in the last hour, 0 timed out and 5 failed: 20 %";
    assert_eq!(found(10).await, [what]);
    assert!(found(21).await.is_empty());
}

/// CMD-5. A scope, a quota, a rate limit and a record of a user that are written again and again;
/// and others that are not.
#[test]
fn records_that_are_written_again_and_again_are_hot() {
    in_memory(async |stage: TestStore| {
        let (store, tidelock) = (stage.store().await, stage.tidelock().await);
        let scope = RecordKey::new("~scope/cart/7").unwrap();
        let [till, diary] = ["till", "diary"].map(|key| RecordKey::new(key).unwrap());
        let write = async |key: &RecordKey| {
            let add = RecordWrite::add(key, 1, Bounds::NONE);
            store.commit(Commit::new().write(add)).await.unwrap().committed().unwrap();
        };
        for _ in 0..100 {
            write(&diary).await;
        }
        let hot = async || {
            for _ in 0..1_000 {
                write(&scope).await;
                write(&till).await;
                tidelock.quota("calls", 1_000_000).take(1).await.unwrap().granted().unwrap();
                // A record of a rate that is replenished at once is gone at once.
                let rate = tidelock.rate("mails", 10_000, Duration::from_secs(36_000_000));
                rate.take(1).await.unwrap().granted().unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let examined = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let hot = of_kind(&store, Thresholds::default(), FindingKind::Hot).await;
            let still = Thresholds { sample: Duration::ZERO, ..Thresholds::default() };
            assert!(of_kind(&store, still, FindingKind::Hot).await.is_empty());
            hot
        };
        let mut found = tokio::select! {
            found = examined => found,
            () = hot() => panic!("the examination is over before"),
        };
        found.sort();
        let subjects: Vec<_> = found.iter().filter_map(|found| found.split(": ").next()).collect();
        let expected = [
            "claim \"quota/calls\"",
            "claim \"rate/mails\"",
            "record \"till\"",
            "scope \"cart/7\"",
        ];
        assert_eq!(subjects, expected, "{found:?}");
        assert!(of_kind(&store, Thresholds::default(), FindingKind::Hot).await.is_empty());
    });
}
