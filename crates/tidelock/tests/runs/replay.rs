//! Non-determinism: changed code under existing runs is reported, and the runs are parked.

use tidelock::prelude::*;
use tidelock::runs::{RunHandle, RunStatus, StepError};
use tidelock_test_stage::{Observed, Running, TestStore, brisk, on_every_store, until};

use crate::disconnect::mortal;
use crate::flow::{Flow, Register};
use crate::helpers::{error, history, millis, process, result, see, start, with};

on_every_store!(
    non_determinism_is_reported_and_the_run_continues_once_fixed,
    a_name_of_another_kind_is_reported,
    a_function_that_ends_too_early_is_reported,
    a_panic_parks_the_run,
    an_old_run_finishes_on_the_old_side_of_a_patch,
    old_code_does_not_continue_a_run_that_took_a_patch,
    a_retried_run_need_not_ask_for_a_patch_that_followed_the_failure,
    versions_keep_to_their_own_code,
    runs_of_other_workflows_do_not_starve_ours,
);

async fn parked(run: &RunHandle) -> String {
    let is_parked = async || matches!(run.status().await.unwrap(), RunStatus::Parked { .. });
    until("the run is parked", is_parked).await;
    match run.status().await.unwrap() {
        RunStatus::Parked { error, .. } => error,
        other => panic!("{other:?}"),
    }
}

/// The run has completed `charge` and sleeps; then the first process ends.
async fn charged(stage: &TestStore, seen: &Observed, run: &str) -> RunHandle {
    let handle = start(stage, "checkout", run, &()).await;
    let running = Running::start(process(stage, "one").await.register(old(seen)));
    let sleeps = async || history(stage, run).await.contains(&"timer".into());
    until("it sleeps", sleeps).await;
    running.stop().await;
    handle
}

fn old(seen: &Observed) -> Flow<(), String> {
    with("checkout", seen, |ctx, (): (), seen| {
        Box::pin(async move {
            ctx.step("charge", |key| see(&seen, key)).await?;
            ctx.sleep("rest", millis(1_200)).await?;
            ctx.step("ship", |key| see(&seen, key)).await
        })
    })
}

/// Schedule 46. RUN-4. No record is used for another step, and nothing is executed.
async fn non_determinism_is_reported_and_the_run_continues_once_fixed(stage: TestStore) {
    let seen = Observed::default();
    let run = charged(&stage, &seen, "c").await;
    let changed = with("checkout", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            ctx.step("ship", |key| see(&seen, key)).await?;
            ctx.step("charge", |key| see(&seen, key)).await
        })
    });
    let wrong = Running::start(process(&stage, "two").await.register(changed));
    let error = parked(&run).await;
    assert!(error.contains(r#"expected step "charge" (recorded), found step "ship""#), "{error}");
    wrong.stop().await;
    assert_eq!(seen.lines(), ["c:charge"]);
    let right = Running::start(process(&stage, "three").await.register(old(&seen)));
    run.resume().await.unwrap();
    assert_eq!(result::<String>(&run).await, "ship");
    assert_eq!(seen.lines(), ["c:charge", "c:ship"]);
    right.stop().await;
}

/// RUN-4.
async fn a_name_of_another_kind_is_reported(stage: TestStore) {
    let seen = Observed::default();
    let run = charged(&stage, &seen, "k").await;
    let changed = with("checkout", &seen, |ctx, (): (), _| {
        Box::pin(async move { ctx.sleep("charge", millis(1)).await })
    });
    let wrong = Running::start(process(&stage, "two").await.register(changed));
    let error = parked(&run).await;
    assert!(
        error.contains(r#"expected step "charge" (recorded), found sleep "charge""#),
        "{error}"
    );
    wrong.stop().await;
}

/// RUN-4.
async fn a_function_that_ends_too_early_is_reported(stage: TestStore) {
    let seen = Observed::default();
    let run = charged(&stage, &seen, "e").await;
    let changed =
        with("checkout", &seen, |_, (): (), _| Box::pin(async move { Ok(String::new()) }));
    let wrong = Running::start(process(&stage, "two").await.register(changed));
    let error = parked(&run).await;
    assert!(
        error.contains(r#"expected step "charge" (recorded), found the end of the workflow"#),
        "{error}"
    );
    wrong.stop().await;
}

/// Broken code.
async fn broken() -> Result<(), StepError> {
    panic!("out of luck")
}

/// RUN-4. The code is at fault, not the run.
async fn a_panic_parks_the_run(stage: TestStore) {
    let seen = Observed::default();
    let run = charged(&stage, &seen, "p").await;
    let broken = with("checkout", &seen, |_, (): (), _| Box::pin(broken()));
    let wrong = Running::start(process(&stage, "two").await.register(broken));
    let error = parked(&run).await;
    assert!(error.contains("the workflow panicked: out of luck"), "{error}");
    wrong.stop().await;
    let right = Running::start(process(&stage, "three").await.register(old(&seen)));
    run.resume().await.unwrap();
    assert_eq!(result::<String>(&run).await, "ship");
    right.stop().await;
}

/// RUN-11. A run that passed the change before it was made takes the old path; a new one, the new
/// path; both permanently.
async fn an_old_run_finishes_on_the_old_side_of_a_patch(stage: TestStore) {
    let seen = Observed::default();
    let before = charged(&stage, &seen, "before").await;
    let patched = with("checkout", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            if ctx.patched("check-first").await? {
                ctx.step("check", |key| see(&seen, key)).await?;
            }
            ctx.step("charge", |key| see(&seen, key)).await?;
            ctx.sleep("rest", millis(1_200)).await?;
            ctx.step("ship", |key| see(&seen, key)).await
        })
    });
    let running = Running::start(process(&stage, "two").await.register(patched));
    let after = start(&stage, "checkout", "after", &()).await;
    assert_eq!(result::<String>(&before).await, "ship");
    assert_eq!(result::<String>(&after).await, "ship");
    let mut lines = seen.lines();
    lines.sort();
    assert_eq!(
        lines,
        ["after:charge", "after:check", "after:ship", "before:charge", "before:ship"]
    );
    running.stop().await;
}

/// RUN-11. A rolling deployment: newer code takes the patch and dies before it records anything
/// else. A process with the old code does nothing with the run, and newer code completes it.
async fn old_code_does_not_continue_a_run_that_took_a_patch(stage: TestStore) {
    let seen = Observed::default();
    let newer = with("checkout", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            if ctx.patched("check-first").await? {
                let check = ctx.step("check", |key| {
                    let is_first = seen.count() == 0;
                    seen.note(key.to_string());
                    async move {
                        match is_first {
                            true => std::future::pending().await,
                            false => Ok::<_, HandlerError>(()),
                        }
                    }
                });
                check.await?;
            }
            ctx.step("charge", |key| see(&seen, key)).await?;
            ctx.step("ship", |key| see(&seen, key)).await
        })
    })
    .options(|options| options.lease(millis(300)));
    let run = start(&stage, "checkout", "r", &()).await;
    let (tidelock, store) = mortal(&stage).await;
    let first = Running::start(tidelock.app().worker(brisk("one")).register(newer.clone()));
    seen.until(1).await;
    store.cut();
    let older = old(&seen).options(|options| options.lease(millis(300)));
    let second = Running::start(process(&stage, "two").await.register(older));
    let error = parked(&run).await;
    assert!(
        error.contains(r#"expected patch "check-first" (recorded), found step "charge""#),
        "{error}"
    );
    second.stop().await;
    assert_eq!(seen.lines(), ["r:check"], "the old code began nothing");
    let third = Running::start(process(&stage, "three").await.register(newer));
    run.resume().await.unwrap();
    assert_eq!(result::<String>(&run).await, "ship");
    assert_eq!(seen.lines(), ["r:check", "r:check", "r:charge", "r:ship"]);
    first.abandon();
    third.stop().await;
}

/// RUN-11, RUN-21. The patch is on the path of a failure that the retry forgets.
async fn a_retried_run_need_not_ask_for_a_patch_that_followed_the_failure(stage: TestStore) {
    let seen = Observed::default();
    let flow = with("checkout", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let charged = ctx.step("charge", |_key| {
                seen.note("charge");
                let nth = seen.count();
                async move {
                    match nth {
                        1 => Err(HandlerError::fatal("no money")),
                        _ => Ok(()),
                    }
                }
            });
            match charged.await {
                Ok(()) => ctx.step("ship", |key| see(&seen, key)).await,
                Err(refused) => {
                    ctx.patched("note-refusals").await?;
                    Err(refused)
                }
            }
        })
    });
    let run = start(&stage, "checkout", "r", &()).await;
    let running = Running::start(process(&stage, "one").await.register(flow));
    assert!(error(&run).await.contains("no money"));
    run.retry("there is money now").await.unwrap();
    assert_eq!(result::<String>(&run).await, "ship");
    running.stop().await;
}

/// RUN-11. Two versions side by side; each run follows its own.
async fn versions_keep_to_their_own_code(stage: TestStore) {
    let seen = Observed::default();
    let one = with("w", &seen, |_, (): (), _| Box::pin(async move { Ok(1) }));
    let two = with("w", &seen, |_, (): (), _| Box::pin(async move { Ok(2) }))
        .options(|options| options.version(2));
    let app = process(&stage, "one").await.register(one).register(two);
    let old = start(&stage, "w", "old", &()).await;
    let tidelock = stage.tidelock().await;
    let new = tidelock.start("w", "new", &()).version(2).await.unwrap();
    let running = Running::start(app);
    assert_eq!((result::<u32>(&old).await, result::<u32>(&new).await), (1, 2));
    running.stop().await;
}

/// Schedule 91. RUN-12. A hundred runs that this process cannot drive are due before it.
async fn runs_of_other_workflows_do_not_starve_ours(stage: TestStore) {
    for nth in 0..100 {
        start(&stage, "unknown-here", &format!("u-{nth}"), &()).await;
    }
    let seen = Observed::default();
    let run = start(&stage, "checkout", "mine", &()).await;
    let running =
        Running::start(process(&stage, "one").await.max_concurrency(2).register(old(&seen)));
    assert_eq!(result::<String>(&run).await, "ship");
    assert_eq!(history(&stage, "u-0").await, ["started"]);
    running.stop().await;
}
