//! Retention of ended runs.

use std::time::Duration;

use futures_util::FutureExt;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunError, RunFilter, RunState, RunStatus};
use tidelock_test_stage::{Running, TestStore, on_every_store, past, until};

use crate::flow::{Flow, app, history, result, until_it};

on_every_store!(
    a_run_is_kept_for_as_long_as_its_workflow_says_and_then_nothing_is_left,
    a_run_that_is_retried_in_time_is_kept,
    a_run_without_a_retention_is_kept,
);

fn echo() -> Flow<u32, u32> {
    Flow::new("echo", |_: RunCtx, n: u32| async move { Ok(n) }.boxed())
}

/// RUN-41.
async fn a_run_is_kept_for_as_long_as_its_workflow_says_and_then_nothing_is_left(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let short = echo().options(|options| options.retention(Duration::from_millis(300)));
    let running = Running::start(app(&tidelock, "one", short));
    let start = |id: &'static str, n: u32| tidelock.start("echo", id, &n).attribute("shop", "7");
    let kept = start("kept", 1).retention(Duration::from_secs(86_400)).await.unwrap();
    let run = start("gone", 2).await.unwrap();
    let ended = async |run| result::<u32>(run).await;
    assert_eq!(ended(&kept).await.unwrap(), 1);
    until("it is removed", async || matches!(run.get().await, Err(RunError::Removed { .. }))).await;
    let refused = run.signal("late", &1).await.unwrap_err().to_string();
    assert_eq!(refused, r#"run "gone": it has ended, and was removed when its retention was over"#);
    assert!(history(&tidelock, "gone").await.is_empty());
    assert_eq!(
        records_about(&tidelock, "gone").await,
        Vec::<String>::new(),
        "nothing that it is found by"
    );
    assert!(!records_about(&tidelock, "kept").await.is_empty(), "or nothing was looked at");
    for filter in [RunFilter::all(), RunFilter::all().attribute("shop", "7")] {
        let mut left = tidelock.runs().list(&filter).await.unwrap().runs;
        left.retain(|run| !past::left(run.run.as_str()));
        assert_eq!(left.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["kept"]);
    }
    let again = start("gone", 3).retention(Duration::from_secs(86_400)).await.unwrap();
    assert_eq!(ended(&again).await.unwrap(), 3, "the id is free for another run");
    running.stop().await;
}

/// The keys of records that name a run.
async fn records_about(tidelock: &Tidelock, run: &str) -> Vec<String> {
    let (mut keys, mut query) = (Vec::new(), RecordQuery::prefix("~"));
    loop {
        let page = tidelock.store().scan(query.clone()).await.unwrap();
        let about = page.records.iter().filter(|record| record.key.as_str().contains(run));
        keys.extend(about.map(|record| record.key.to_string()));
        match page.next {
            Some(next) => query = query.after(next),
            None => return keys,
        }
    }
}

/// RUN-41. A run without a retention is kept.
async fn a_run_without_a_retention_is_kept(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = Running::start(app(&tidelock, "one", echo()));
    let kept = tidelock.start("echo", "kept", &1).await.unwrap();
    assert_eq!(result::<u32>(&kept).await.unwrap(), 1);
    let brief =
        tidelock.start("echo", "brief", &2).retention(Duration::from_millis(200)).await.unwrap();
    assert_eq!(result::<u32>(&brief).await.unwrap(), 2);
    until("the other one is removed", async || {
        matches!(brief.get().await, Err(RunError::Removed { .. }))
    })
    .await;
    assert_eq!(kept.get().await.unwrap().state, RunState::Completed);
    assert_eq!(result::<u32>(&kept).await.unwrap(), 1);
    running.stop().await;
}

/// RUN-41.
async fn a_run_that_is_retried_in_time_is_kept(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let fails = |ctx: RunCtx, (): ()| {
        async move { ctx.step("fail", |_| async { Err::<(), _>(HandlerError::fatal("no")) }).await }
            .boxed()
    };
    let workflow =
        Flow::new("w", fails).options(|options| options.retention(Duration::from_secs(2)));
    let running = Running::start(app(&tidelock, "one", workflow));
    let run = tidelock.start("w", "r", &()).await.unwrap();
    result::<()>(&run).await.unwrap_err();
    let first = run.get().await.unwrap().ended_at.unwrap();
    until("time has passed", async || tidelock.store().now().await.unwrap() > first).await;
    run.retry("once more").await.unwrap();
    until_it(&run, "has ended again", |told| matches!(told, RunStatus::Ended(_))).await;
    let info = run.get().await.unwrap();
    assert_eq!(info.state, RunState::Failed);
    assert!(info.ended_at.unwrap() > first, "its retention counts from its last end");
    until("it is removed", async || matches!(run.get().await, Err(RunError::Removed { .. }))).await;
    let now = tidelock.store().now().await.unwrap();
    assert!(now >= info.ended_at.unwrap().plus(Duration::from_secs(2)));
    running.stop().await;
}
