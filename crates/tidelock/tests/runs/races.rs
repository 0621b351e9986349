//! Clients that act on a run that has changed since they read it; and lost replies.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock::prelude::*;
use tidelock::runs::{CatchUp, RunCtx, RunError, RunFilter, RunState, RunStatus, Schedule};
use tidelock::store::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tidelock_test_stage::{
    DyingStore, Interceptor, Running, Tally, TestStore, Wrapped, in_memory, on_every_store,
};
use tokio::sync::watch;

use crate::client::idle;
use crate::flow::{Flow, app, count};

on_every_store!(
    a_signal_that_meets_the_end_of_its_run_is_refused_and_not_there,
    a_signal_that_meets_the_start_of_its_run_wakes_it,
    two_starts_that_meet_are_one_run_or_an_error,
    two_terminations_that_meet_are_one,
    a_call_with_a_lost_reply_takes_effect_once,
);

/// Does something once, right before the first commit.
struct Before(Mutex<Option<BoxFuture<'static, ()>>>);

impl std::fmt::Debug for Before {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Before")
    }
}

impl Interceptor for Before {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = tidelock::store::Result<T>> + Send,
    ) -> tidelock::store::Result<T> {
        if operation == StoreOperation::Commit {
            let first = self.0.lock().unwrap().take();
            if let Some(first) = first {
                first.await;
            }
        }
        call.await
    }
}

/// A handle whose first commit comes after this.
async fn after(stage: &TestStore, first: impl Future<Output = ()> + Send + 'static) -> Tidelock {
    Tidelock::over(Wrapped::new(stage.store().await, Before(Mutex::new(Some(first.boxed())))))
}

/// RUN-33.
async fn a_signal_that_meets_the_end_of_its_run_is_refused_and_not_there(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let run = idle(&tidelock, "r").await;
    let late = after(&stage, async move { run.terminate("enough").await.unwrap() }).await;
    let refused = late.runs().run("r").signal("approve", &1).await.unwrap_err();
    assert!(matches!(refused, RunError::Ended { state: RunState::Terminated, .. }), "{refused}");
    assert_eq!(count(&tidelock, "r", "~signalled").await, 0);
}

/// RUN-33.
async fn a_signal_that_meets_the_start_of_its_run_wakes_it(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let waits = |ctx: RunCtx, (): ()| async move { ctx.wait_for_signal::<u32>("n").await }.boxed();
    let running = Running::start(app(&tidelock, "one", Flow::new("waits", waits)));
    let starter = tidelock.clone();
    let early = after(&stage, async move {
        let run = starter.start("waits", "r", &()).await.unwrap();
        while !matches!(run.status().await.unwrap(), RunStatus::Waiting { .. }) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    early.await.runs().run("r").signal("n", &7).await.unwrap();
    assert_eq!(crate::flow::result::<u32>(&tidelock.runs().run("r")).await.unwrap(), 7);
    running.stop().await;
}

/// RUN-31.
async fn two_starts_that_meet_are_one_run_or_an_error(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for (id, input, is_same) in [("same", 1, true), ("other", 2, false)] {
        let quicker = tidelock.clone();
        let slower = after(&stage, async move {
            quicker.start("w", id, &1).version(1).await.unwrap();
        });
        let started = slower.await.start("w", id, &input).version(1).await;
        match started {
            Ok(_) => assert!(is_same),
            Err(error) => {
                assert!(!is_same && matches!(error, RunError::OtherRun { .. }), "{error}");
            }
        }
        assert_eq!(count(&tidelock, id, "~started").await, 1);
    }
}

/// RUN-37.
async fn two_terminations_that_meet_are_one(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let run = idle(&tidelock, "r").await;
    let slower = after(&stage, async move { run.terminate("first").await.unwrap() }).await;
    let refused = slower.runs().run("r").terminate("second").await.unwrap_err();
    assert!(matches!(refused, RunError::Ended { .. }), "{refused}");
    assert_eq!(count(&tidelock, "r", "~terminated").await, 1);
}

/// Loses the reply of the first commit.
#[derive(Debug)]
struct LostReply(AtomicBool);

impl Interceptor for LostReply {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = tidelock::store::Result<T>> + Send,
    ) -> tidelock::store::Result<T> {
        let lost = operation == StoreOperation::Commit && !self.0.swap(true, Ordering::SeqCst);
        let unknown = StoreError::new(
            StoreErrorKind::Unavailable,
            RetryAdvice::Unknown,
            operation,
            "the line is dead",
        );
        call.await.and_then(|reply| if lost { Err(unknown) } else { Ok(reply) })
    }
}

/// RUN-31, RUN-33, RUN-38.
async fn a_call_with_a_lost_reply_takes_effect_once(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let deaf = async || {
        Tidelock::over(Wrapped::new(stage.store().await, LostReply(AtomicBool::new(false))))
    };
    idle(&deaf().await, "r").await;
    deaf().await.runs().run("r").signal("n", &1).await.unwrap();
    deaf().await.runs().run("r").terminate("enough").await.unwrap();
    for (event_type, times) in [("~started", 1), ("~signalled", 1), ("~terminated", 1)] {
        assert_eq!(count(&tidelock, "r", event_type).await, times, "{event_type}");
    }
}

/// RUN-42. Schedule 42: a scheduler that dies anywhere while it starts an occurrence's run: there
/// is one run in the end.
#[test]
fn a_scheduler_that_dies_at_any_call_leaves_one_run_for_its_occurrence() {
    const CALLS: i64 = 25;
    for (calls, last_words) in (0..CALLS).flat_map(|calls| [(calls, false), (calls, true)]) {
        in_memory(async |stage: TestStore| dies_at(&stage, calls, last_words).await);
    }
}

async fn dies_at(stage: &TestStore, calls: i64, last_words: bool) {
    let tidelock = stage.tidelock().await;
    let schedules = tidelock.schedules();
    let tick = || Flow::new("tick", |_: RunCtx, (): ()| async { Ok(()) }.boxed());
    // Once a day, at a time that comes in a second.
    let daily = Schedule::cron("1 0 0 * * *").starts("tick", &()).catch_up(CatchUp::Once);
    let due = schedules.put("daily", daily).await.unwrap().next.unwrap();
    let mortal = DyingStore::over(tidelock.store().clone(), calls, last_words);
    let dying = Running::start(app(&Tidelock::over(mortal), "mortal", tick()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let healthy = Running::start(app(&tidelock, "healthy", tick()));
    // The dead scheduler's lease has to expire first, if it had one; simulated time passes when all
    // tasks wait.
    while schedules.get("daily").await.unwrap().unwrap().next.unwrap() <= due {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let runs =
        tidelock.runs().list(&RunFilter::all().attribute("schedule", "daily")).all().await.unwrap();
    assert_eq!(runs.len(), 1, "{calls} calls, {last_words}: {runs:?}");
    assert_eq!(count(&tidelock, runs[0].run.as_str(), "~started").await, 1);
    healthy.tell();
    dying.tell();
}

/// Stops its caller at the first commit after it was armed, with all later calls, until it is
/// released.
#[derive(Debug)]
struct StopsAtCommit(watch::Sender<Stop>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Unarmed,
    Armed,
    Stopped,
    GoesOn,
}

impl Interceptor for StopsAtCommit {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = tidelock::store::Result<T>> + Send,
    ) -> tidelock::store::Result<T> {
        if operation == StoreOperation::Commit {
            self.0.send_if_modified(|stop| {
                let is_armed = *stop == Stop::Armed;
                if is_armed {
                    *stop = Stop::Stopped;
                }
                is_armed
            });
        }
        let mut stop = self.0.subscribe();
        stop.wait_for(|stop| *stop != Stop::Stopped).await.expect("the sender outlives its calls");
        call.await
    }
}

/// RUN-42. Schedule 42: both have decided to start the run of one occurrence; the second commit is
/// refused.
#[test]
fn two_schedulers_that_fire_for_one_occurrence_start_one_run() {
    in_memory(async |stage: TestStore| {
        let tidelock = stage.tidelock().await;
        let schedules = tidelock.schedules();
        let tick = || Flow::new("tick", |_: RunCtx, (): ()| async { Ok(()) }.boxed());
        let slow =
            Wrapped::new(tidelock.store().clone(), StopsAtCommit(watch::channel(Stop::Unarmed).0));
        let stopped = Running::start(app(&Tidelock::over(slow.clone()), "slow", tick()));
        let daily = Schedule::cron("1 0 0 * * *").starts("tick", &()).catch_up(CatchUp::Once);
        let due = schedules.put("daily", daily).await.unwrap().next.unwrap();
        // A new schedule is read once before it is due.
        let now = tidelock.store().now().await.unwrap();
        tokio::time::sleep(due.since(now) / 2).await;
        slow.0.send_replace(Stop::Armed);
        slow.0.subscribe().wait_for(|stop| *stop == Stop::Stopped).await.unwrap();
        assert!(tidelock.store().now().await.unwrap() >= due, "it stopped over the occurrence");
        assert_eq!(
            schedules.get("daily").await.unwrap().unwrap().next,
            Some(due),
            "its commit is not there"
        );
        let quick = Running::start(app(&tidelock, "quick", tick()));
        // The lease of the stopped one has to expire first; simulated time passes when all tasks
        // wait.
        while schedules.get("daily").await.unwrap().unwrap().next.unwrap() <= due {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        slow.0.send_replace(Stop::GoesOn);
        quick.stop().await;
        stopped.stop().await;
        let runs = tidelock
            .runs()
            .list(&RunFilter::all().attribute("schedule", "daily"))
            .all()
            .await
            .unwrap();
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert_eq!(count(&tidelock, runs[0].run.as_str(), "~started").await, 1);
    });
}

/// RUN-40.
#[test]
fn a_page_costs_the_same_however_many_runs_there_are() {
    in_memory(async |stage: TestStore| {
        let (tidelock, tally) = (stage.tidelock().await, Tally::default());
        let counted = Tidelock::over(tally.over(tidelock.store().clone()));
        let mut costs = Vec::new();
        for nth in 0..300 {
            idle(&tidelock, &format!("r-{nth}")).await;
            if [20, 299].contains(&nth) {
                let before = tally.calls();
                let page = counted.runs().list(&RunFilter::all()).limit(10).await.unwrap();
                assert_eq!(page.items.len(), 10);
                costs.push(tally.calls() - before);
            }
        }
        assert_eq!(costs[0], costs[1], "calls on the store");
    });
}
