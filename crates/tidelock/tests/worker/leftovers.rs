//! What is left in a store when everything in it is done and past its retention: nothing. In
//! memory, with simulated time; the soak test covers the other stores.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidelock::jobs::{JobFilter, JobOptions, JobState};
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, Schedule, StepError, Workflow};
use tidelock::store::{
    Commit, ExpectedRevision, HeadQuery, ItemFilter, ItemQuery, Mark, RecordKey, RecordQuery,
    Store, limits,
};
use tidelock_test_stage::{Running, TestStore, brisk, in_memory, until};

const HOUR: Duration = Duration::from_secs(3600);

/// The names of all existing rows.
async fn rows(store: &dyn Store) -> Vec<String> {
    let heads = store.heads(HeadQuery::prefix("")).await.unwrap().heads;
    let records = store.scan(RecordQuery::prefix("")).await.unwrap().records;
    let items = store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items;
    let mut names: Vec<_> = heads.iter().map(|head| format!("stream {}", head.stream)).collect();
    names.extend(records.iter().map(|record| format!("record {}", record.key)));
    names.extend(items.iter().map(|item| item.item.to_string()));
    names
}

/// Lets time pass. A memory store removes a little with every commit, so a few are made.
async fn pass(store: &dyn Store, time: Duration) {
    tokio::time::advance(time).await;
    for _ in 0..100 {
        let nothing =
            Commit::new().guard_record(&RecordKey::new("x").unwrap(), ExpectedRevision::Absent);
        store.commit(nothing).await.unwrap().committed().unwrap();
    }
}

/// KEEP-2, QUEUE-6. Schedule 106.
async fn an_acknowledged_item_leaves_with_its_data(stage: TestStore) {
    let (store, queue) = (stage.store().await, stage.tidelock().await.queue("mail"));
    for nth in 0..20 {
        queue.enqueue(format!("letter-{nth}")).data(&json!({ "nth": nth })).await.unwrap();
    }
    let taken = queue.lease("w").limit(20).await.unwrap();
    queue.settle(taken.iter().map(|taken| taken.lease.ack()).collect()).await.unwrap();
    let left = store.scan(RecordQuery::prefix("")).await.unwrap().records;
    assert_eq!(left, [], "the data goes with the ack");
    assert_eq!(rows(&*store).await.len(), 20);
    pass(&*store, limits::ITEM_MEMORY).await;
    assert_eq!(rows(&*store).await, [""; 0]);
}

/// QUEUE-6.
async fn an_item_that_is_acknowledged_up_to_a_mark_keeps_its_cursor(stage: TestStore) {
    let (store, queue) = (stage.store().await, stage.tidelock().await.queue("mail"));
    queue.enqueue("box").to_mark(Mark::new(7).unwrap()).await.unwrap();
    let taken = queue.lease("w").await.unwrap();
    queue.settle(vec![taken[0].lease.ack()]).await.unwrap();
    pass(&*store, limits::ITEM_MEMORY * 100).await;
    queue.enqueue("box").to_mark(Mark::new(7).unwrap()).await.unwrap();
    assert!(queue.lease("w").await.unwrap().is_empty(), "it is known that 7 is done");
}

async fn echo(ctx: RunCtx, n: u32) -> Result<u32, StepError> {
    ctx.step("echo", |_key| async move { Ok::<_, HandlerError>(n) }).await
}

/// KEEP-2, KEEP-3, RUN-41. Schedule 106.
async fn runs_leave_nothing_once_their_retention_is_over(stage: TestStore) {
    let (store, tidelock) = (stage.store().await, stage.tidelock().await);
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow("echo", echo));
    for nth in 0..10_u32 {
        let run = tidelock
            .start("echo", format!("run-{nth}"), &nth)
            .attribute("shop", "7")
            .await
            .unwrap();
        assert_eq!(run.typed::<u32>().result().await.unwrap(), nth);
    }
    pass(&*store, HOUR * 24 * 29).await;
    assert!(rows(&*store).await.iter().any(|row| row.contains("run-3")), "kept for 30 days");
    pass(&*store, HOUR * 25).await;
    until("the runs are removed", async || {
        !rows(&*store).await.iter().any(|row| row.starts_with("record ~run/"))
    })
    .await;
    pass(&*store, limits::ITEM_MEMORY * 2).await;
    pass(&*store, limits::ITEM_MEMORY * 2).await;
    assert_eq!(rows(&*store).await, ["record ~workflow/echo"]);
    let again = tidelock.start("echo", "run-3", &33).await.unwrap();
    assert_eq!(again.typed::<u32>().result().await.unwrap(), 33, "the id is free for another run");
    running.stop().await;
}

/// KEEP-2.
async fn a_schedule_that_was_removed_leaves_nothing(stage: TestStore) {
    let (store, tidelock) = (stage.store().await, stage.tidelock().await);
    let options = Workflow::new("echo").options().retention(Duration::from_secs(1));
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow(options, echo));
    let schedule = Schedule::cron("0 * * * *").starts("echo", &1_u32);
    tidelock.schedules().put("hourly", schedule).await.unwrap();
    pass(&*store, HOUR * 3).await;
    assert!(tidelock.schedules().delete("hourly").await.unwrap());
    // The item is served once more, when it is next due; then everything is past its retention.
    for _ in 0..8 {
        pass(&*store, HOUR).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(rows(&*store).await, ["record ~workflow/echo"]);
    running.stop().await;
}

/// A job whose result and key are kept for a while.
#[derive(Serialize, Deserialize)]
struct Letter(u32);

const DAY: Duration = Duration::from_secs(86_400);

impl Job for Letter {
    const QUEUE: &'static str = "letters";

    fn options() -> JobOptions {
        JobOptions::new()
            .keep_results(DAY)
            .unique_for(2 * DAY)
            .global_concurrency(2)
            .concurrency_per_key(1)
    }

    fn concurrency_key(&self) -> Option<String> {
        Some(format!("box-{}", self.0 % 3))
    }
}

/// A job that fails for good, if its number is odd.
async fn sent(letter: Letter, _: JobCtx) -> Result<u32, HandlerError> {
    match letter.0 % 2 {
        0 => Ok(letter.0),
        _ => Err(HandlerError::fatal("no such address")),
    }
}

/// KEEP-1, KEEP-2, JOB-5, JOB-7, JOB-8. Schedule 106. Results, keys that stay taken, reasons of
/// discarded and cancelled jobs, operations, pauses, and schedules of jobs.
async fn jobs_leave_nothing_but_the_permits_of_their_limit(stage: TestStore) {
    let (store, tidelock) = (stage.store().await, stage.tidelock().await);
    let running = Running::start(tidelock.app().worker(brisk("one")).job(sent));
    let jobs = tidelock.jobs();
    let state = async |key: &str| jobs.get("letters", key).await.unwrap().map(|job| job.state);
    for nth in 0..10_u32 {
        let key = format!("letter-{nth}");
        tidelock.enqueue(&Letter(nth)).key(&key).operation_id(&key).await.unwrap();
    }
    for nth in 0..10_u32 {
        let ended = if nth % 2 == 0 { JobState::Done } else { JobState::Blocked };
        let is_so = async || state(&format!("letter-{nth}")).await == Some(ended);
        until("each is done or blocked", is_so).await;
    }
    assert_eq!(jobs.discard(&JobFilter::queue("letters"), "moved away").await.unwrap(), 5);
    jobs.pause("letters", "no stamps").await.unwrap();
    tidelock.enqueue(&Letter(12)).key("late").at(10 * DAY).await.unwrap();
    assert_eq!(jobs.cancel(&JobFilter::queue("letters"), "too late").await.unwrap(), 1);
    let schedule = Schedule::cron("0 * * * *").enqueues(&Letter(14));
    tidelock.schedules().put("hourly", schedule).await.unwrap();
    jobs.resume("letters").await.unwrap();
    pass(&*store, 3 * HOUR).await;
    assert!(tidelock.schedules().delete("hourly").await.unwrap());

    assert_eq!(jobs.result::<u32>("letters", "letter-4").await.unwrap(), Some(4));
    pass(&*store, 20 * DAY).await;
    assert_eq!(jobs.result::<u32>("letters", "letter-4").await.unwrap(), None);
    let kept = rows(&*store).await;
    assert!(kept.iter().any(|row| row.contains("letter-3")), "a reason is kept: {kept:?}");
    assert!(!kept.iter().any(|row| row.contains("letter-4")), "a result is not: {kept:?}");
    // What a worker has still to take away is taken in between.
    for _ in 0..4 {
        pass(&*store, 10 * DAY).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let left = rows(&*store).await;
    let permits = left.iter().filter(|row| row.contains("~permits/")).count();
    assert_eq!((permits, left.len()), (2, 2), "{left:?}");
    running.stop().await;
}

#[test]
fn jobs_leave_nothing_but_the_permits_of_their_limit_in_memory() {
    in_memory(jobs_leave_nothing_but_the_permits_of_their_limit);
}

#[test]
fn an_acknowledged_item_leaves_with_its_data_in_memory() {
    in_memory(an_acknowledged_item_leaves_with_its_data);
}

#[test]
fn an_item_that_is_acknowledged_up_to_a_mark_keeps_its_cursor_in_memory() {
    in_memory(an_item_that_is_acknowledged_up_to_a_mark_keeps_its_cursor);
}

#[test]
fn runs_leave_nothing_once_their_retention_is_over_in_memory() {
    in_memory(runs_leave_nothing_once_their_retention_is_over);
}

#[test]
fn a_schedule_that_was_removed_leaves_nothing_in_memory() {
    in_memory(a_schedule_that_was_removed_leaves_nothing);
}
