//! Waits for a run's result: each ends, or says what the run waits for.

use std::time::Duration;

use futures_util::FutureExt;
use tidelock::runs::{RunCtx, RunError, RunStatus};
use tidelock_test_stage::{PATIENCE, Running, TestStore, on_every_store};

use crate::flow::{Flow, app, until_it};

on_every_store!(
    an_input_that_a_registered_workflow_cannot_read_is_refused_at_its_start,
    a_wait_for_a_run_that_is_parked_ends_with_the_reason,
    a_timed_out_wait_returns_what_the_run_waits_for,
);

/// A workflow that takes a number.
fn doubles() -> Flow<u32, u32> {
    Flow::new("doubles", |_: RunCtx, n: u32| async move { Ok(2 * n) }.boxed())
}

/// RUN-52.
async fn an_input_that_a_registered_workflow_cannot_read_is_refused_at_its_start(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let _app = app(&tidelock, "one", doubles()).build().unwrap();
    let refused = tidelock.start("doubles", "r", "seven").await.unwrap_err().to_string();
    for named in ["input of run \"r\"", "workflow \"doubles\", version 1"] {
        assert!(refused.contains(named), "{refused}");
    }
    assert!(!refused.contains("seven"), "the content is not shown: {refused}");
    assert!(
        matches!(tidelock.runs().run("r").get().await, Err(RunError::NoRun { .. })),
        "nothing was stored"
    );
    let other = tidelock.start("doubles", "other", "seven").version(2).await;
    assert!(other.is_ok(), "what this process does not know it cannot check");
}

/// RUN-36.
async fn a_wait_for_a_run_that_is_parked_ends_with_the_reason(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let run = there.start("doubles", "r", "seven").version(1).await.unwrap();
    let running = Running::start(app(&here, "one", doubles()));
    let told = run.typed::<u32>().result().within(PATIENCE).await.unwrap_err();
    assert!(!matches!(told, RunError::StillOpen { .. }), "{told}");
    for said in ["run \"r\": it is parked", "\"input\" cannot be read", "resume"] {
        assert!(told.to_string().contains(said), "{told}");
    }
    running.stop().await;
}

/// RUN-36.
async fn a_timed_out_wait_returns_what_the_run_waits_for(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let waits =
        |ctx: RunCtx, (): ()| async move { ctx.wait_for_signal::<u32>("approve").await }.boxed();
    let running = Running::start(app(&tidelock, "one", Flow::new("waits", waits)));
    let run = tidelock.start("waits", "r", &()).await.unwrap();
    until_it(&run, "waits", |told| matches!(told, RunStatus::Waiting { .. })).await;
    let told = run.typed::<u32>().result().within(Duration::from_millis(5)).await.unwrap_err();
    assert!(matches!(told, RunError::StillOpen { .. }), "{told}");
    assert!(told.to_string().contains("waits for signal \"approve\""), "{told}");
    running.stop().await;
}
