//! Runs whose function, or one of its steps, never makes progress.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunStatus};
use tidelock::store::{RecordKey, StoreExt};
use tidelock_test_stage::{Observed, Running, TestStore, on_every_store, until};

use crate::flow::{Flow, Switch, app, result, until_it};

on_every_store!(
    a_run_whose_function_waits_outside_its_steps_is_parked_and_its_slot_is_free,
    a_transactional_step_that_never_ends_is_timed_out_and_tried_again,
    a_context_that_is_used_outside_of_its_function_parks_the_run,
);

const SHORT: Duration = Duration::from_millis(50);

/// Schedule 107. RUN-51.
async fn a_run_whose_function_waits_outside_its_steps_is_parked_and_its_slot_is_free(
    stage: TestStore,
) {
    let (tidelock, hangs, seen) = (stage.tidelock().await, Switch::default(), Observed::default());
    hangs.turn(true);
    let (hung, noted) = (hangs.clone(), seen.clone());
    let workflow = move |ctx: RunCtx, (): ()| {
        let (hung, noted) = (hung.clone(), noted.clone());
        async move {
            crate::flow::seen(&ctx, "before", &noted).await?;
            if hung.is_on() && ctx.run().as_str() == "hangs" {
                pending::<()>().await;
            }
            crate::flow::seen(&ctx, "after", &noted).await
        }
        .boxed()
    };
    let workflow = Flow::new("w", workflow).options(|options| options.stalled_after(SHORT));
    let running = Running::start(app(&tidelock, "one", workflow).max_concurrency(1));
    let run = tidelock.start("w", "hangs", &()).await.unwrap();
    let parked = |told: &RunStatus| matches!(told, RunStatus::Parked { again_at: Some(_), .. });
    let RunStatus::Parked { error, .. } = until_it(&run, "is parked", parked).await else {
        panic!()
    };
    assert!(error.starts_with("the workflow timed out after 50ms outside its steps"), "{error}");
    let other = tidelock.start("w", "other", &()).await.unwrap();
    result::<()>(&other).await.unwrap();
    hangs.turn(false);
    until("it goes on", async || {
        run.resume().await.unwrap();
        seen.lines().contains(&"hangs:after".to_owned())
    })
    .await;
    result::<()>(&run).await.unwrap();
    let before = seen.lines().iter().filter(|line| *line == "hangs:before").count();
    assert_eq!(before, 1, "what was recorded is not done again");
    running.stop().await;
}

/// RUN-6.
async fn a_transactional_step_that_never_ends_is_timed_out_and_tried_again(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let noted = seen.clone();
    let key = RecordKey::new("written").unwrap();
    let written = key.clone();
    let workflow = move |ctx: RunCtx, (): ()| {
        let (noted, key) = (noted.clone(), written.clone());
        async move {
            let write = |tx: Tx| {
                let (noted, key) = (noted.clone(), key.clone());
                async move {
                    noted.note("tried");
                    tx.put(&key, &noted.count())?;
                    if noted.count() == 1 { pending().await } else { Ok::<_, HandlerError>(()) }
                }
            };
            let retry = Retry::attempts(2).backoff(Backoff::fixed(Duration::from_millis(1)));
            ctx.transact("write", write).timeout(SHORT).retry(retry).await
        }
        .boxed()
    };
    let running = Running::start(app(&tidelock, "one", Flow::new("w", workflow)));
    let run = tidelock.start("w", "r", &()).await.unwrap();
    result::<()>(&run).await.unwrap();
    let slot = tidelock.store().get_one(&key).await.unwrap();
    assert_eq!(slot.live().unwrap().value.to::<usize>().unwrap(), 2, "of the try that ended");
    running.stop().await;
}

/// RUN-53. The first call moves the context into another task; the second awaits it in place.
async fn a_context_that_is_used_outside_of_its_function_parks_the_run(stage: TestStore) {
    let (tidelock, spawns, seen) = (stage.tidelock().await, Switch::default(), Observed::default());
    spawns.turn(true);
    let (spawned, noted) = (spawns.clone(), seen.clone());
    let workflow = move |ctx: RunCtx, (): ()| {
        let (spawned, noted) = (spawned.clone(), noted.clone());
        async move {
            crate::flow::seen(&ctx, "before", &noted).await?;
            let step = async move { crate::flow::seen(&ctx, "step", &noted).await };
            match spawned.is_on() {
                true => tokio::spawn(step).await.expect("it does not panic"),
                false => step.await,
            }
        }
    };
    let running = Running::start(app(&tidelock, "one", Flow::new("w", workflow)));
    let run = tidelock.start("w", "r", &()).await.unwrap();
    let parked = |told: &RunStatus| matches!(told, RunStatus::Parked { again_at: Some(_), .. });
    let RunStatus::Parked { error, .. } = until_it(&run, "is parked", parked).await else {
        panic!()
    };
    assert!(error.starts_with("RunCtx was used outside of its workflow function"), "{error}");
    assert_eq!(seen.lines(), ["r:before"], "nothing is done outside");
    spawns.turn(false);
    run.resume().await.unwrap();
    result::<()>(&run).await.unwrap();
    assert_eq!(seen.lines(), ["r:before", "r:step"]);
    running.stop().await;
}
