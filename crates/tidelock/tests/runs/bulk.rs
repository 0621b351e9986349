//! Bulk operations on runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::runs::{BulkRuns, RunAction, RunBatch, RunFilter, RunState, RunStatus};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};

on_every_store!(
    the_selected_runs_are_cancelled_in_batches,
    terminated_runs_are_those_that_match,
    failed_runs_are_retried_and_what_cannot_be_is_told,
    only_parked_runs_are_selected,
    a_batch_that_is_sent_again_changes_each_run_once,
);

/// Carries out every batch, and adds them up.
async fn whole(bulk: BulkRuns, action: RunAction, batches: &mut usize) -> RunBatch {
    let (mut sum, mut after) = (RunBatch::default(), None);
    loop {
        let done = bulk.clone().after(after).carry_out(action, "a test").await.unwrap();
        *batches += 1;
        sum.matched += done.matched;
        sum.changed += done.changed;
        sum.refused.extend(done.refused);
        match done.next {
            None => return sum,
            next => after = next,
        }
    }
}

async fn waiting(ctx: RunCtx, _: u32) -> Result<(), StepError> {
    ctx.wait_for_signal::<()>("go").await
}

async fn start(tidelock: &Tidelock, workflow: &str, count: u32) {
    for nth in 0..count {
        let town = if nth.is_multiple_of(2) { "north" } else { "south" };
        let run = tidelock.start(workflow, format!("{workflow}-{nth:02}"), &nth).version(1);
        run.attribute("town", town).attribute("of", "bulk").await.unwrap();
    }
}

/// The runs of a test: there are others on a store with a past.
fn of_the_test() -> RunFilter {
    RunFilter::all().attribute("of", "bulk")
}

async fn in_state(tidelock: &Tidelock, state: RunState) -> usize {
    tidelock.runs().list(&of_the_test().state(state)).all().await.unwrap().len()
}

/// RUN-54. The dry run counts, and changes nothing.
async fn the_selected_runs_are_cancelled_in_batches(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    start(&tidelock, "tour", 25).await;
    start(&tidelock, "other", 3).await;
    let running = Running::start(
        tidelock.app().worker(brisk("one")).workflow("tour", waiting).workflow("other", waiting),
    );
    let bulk = tidelock.runs().bulk(&RunFilter::all().workflow("tour")).limit(10);
    let count = bulk.count(RunAction::Cancel).await.unwrap();
    assert_eq!((count.matched, count.changed), (10, 0));
    assert_eq!(bulk.count(RunAction::Retry).await.unwrap().matched, 0, "none has failed");
    let mut batches = 0;
    let sum = whole(bulk, RunAction::Cancel, &mut batches).await;
    assert_eq!((sum.matched, sum.changed, sum.refused.len()), (25, 25, 0));
    assert!(batches >= 3, "{batches} batches of at most 10");
    let cancelled = async || in_state(&tidelock, RunState::Cancelled).await == 25;
    until("all of them are cancelled", cancelled).await;
    assert_eq!(in_state(&tidelock, RunState::Open).await, 3);
    running.stop().await;
}

/// RUN-54.
async fn terminated_runs_are_those_that_match(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    start(&tidelock, "tour", 6).await;
    let newest = tidelock.runs().list(&RunFilter::all()).limit(1).await.unwrap().items.remove(0);
    let later = newest.started_at.plus(Duration::from_micros(1));
    let north = RunFilter::all().attribute("town", "north");
    let ended = RunFilter::all().state(RunState::Failed);
    let none = tidelock.runs().bulk(&ended).terminate("a test").await.unwrap();
    assert_eq!((none.matched, none.next), (0, None), "it is for open runs");
    let done = tidelock.runs().bulk(&north.before(later)).terminate("a test").await.unwrap();
    assert_eq!((done.matched, done.changed), (3, 3));
    let ended = tidelock.runs().list(&RunFilter::all().state(RunState::Terminated));
    let ended = ended.all().await.unwrap();
    assert!(ended.iter().all(|run| run.attributes["town"] == "north") && ended.len() == 3);
    let none = tidelock.runs().bulk(&RunFilter::all().since(later)).terminate("a test").await;
    assert_eq!(none.unwrap().matched, 0, "none is so young");
    assert_eq!(in_state(&tidelock, RunState::Open).await, 3);
}

/// RUN-54. A run that was compensated cannot continue.
async fn failed_runs_are_retried_and_what_cannot_be_is_told(stage: TestStore) {
    let (tidelock, broken) = (stage.tidelock().await, Arc::new(AtomicBool::new(true)));
    let paying = |compensated: bool| {
        let broken = broken.clone();
        move |ctx: RunCtx, _: u32| {
            let broken = broken.clone();
            async move {
                if compensated {
                    let undo = |_, _| async { Ok::<_, HandlerError>(()) };
                    let book = |_| async { Ok::<_, HandlerError>(()) };
                    ctx.step("book", book).compensate(undo).await?;
                }
                let pay = async |_| match broken.load(Ordering::SeqCst) {
                    true => Err(HandlerError::fatal("the bank is closed")),
                    false => Ok(()),
                };
                ctx.step("pay", pay).await
            }
        }
    };
    start(&tidelock, "pay", 4).await;
    start(&tidelock, "book", 1).await;
    let running = Running::start(
        tidelock
            .app()
            .worker(brisk("one"))
            .workflow("pay", paying(false))
            .workflow("book", paying(true)),
    );
    until("all have failed", async || in_state(&tidelock, RunState::Failed).await == 5).await;
    broken.store(false, Ordering::SeqCst);
    let done = tidelock.runs().bulk(&of_the_test()).retry("it is open again").await.unwrap();
    assert_eq!((done.matched, done.changed), (5, 4));
    assert_eq!(done.refused[0].run.as_str(), "book-00");
    assert!(done.refused[0].error.contains("compensated"), "{:?}", done.refused);
    until("they complete", async || in_state(&tidelock, RunState::Completed).await == 4).await;
    running.stop().await;
}

/// RUN-54.
async fn only_parked_runs_are_selected(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    start(&tidelock, "tour", 4).await;
    let stuck = async |ctx: RunCtx, nth: u32| {
        assert!(nth.is_multiple_of(2), "the code does not fit");
        waiting(ctx, nth).await
    };
    let running = Running::start(tidelock.app().worker(brisk("one")).workflow("tour", stuck));
    let statuses = async || {
        let mut parked = 0;
        for nth in 0..4 {
            let run = tidelock.runs().run(format!("tour-{nth:02}"));
            parked += usize::from(matches!(run.status().await, Ok(RunStatus::Parked { .. })));
        }
        parked
    };
    until("two are parked", async || statuses().await == 2).await;
    running.stop().await;
    let bulk = tidelock.runs().bulk(&RunFilter::all().workflow("tour")).parked(true);
    let done = bulk.terminate("the code is gone").await.unwrap();
    assert_eq!((done.matched, done.changed), (2, 2));
    let left = tidelock.runs().list(&RunFilter::all().state(RunState::Open)).all().await.unwrap();
    assert!(left.iter().all(|run| run.attributes["town"] == "north") && left.len() == 2);
}

/// RUN-54, RUN-49.
async fn a_batch_that_is_sent_again_changes_each_run_once(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    start(&tidelock, "tour", 3).await;
    let bulk = tidelock.runs().bulk(&RunFilter::all()).operation_id("once");
    for _ in 0..3 {
        assert_eq!(bulk.cancel("a test").await.unwrap().changed, 3);
    }
    for nth in 0..3 {
        let run = tidelock.runs().run(format!("tour-{nth:02}"));
        let history = run.timeline(None, 100).await.unwrap();
        assert_eq!(history.entries.len(), 2, "started, and asked to cancel: {history:?}");
    }
}
