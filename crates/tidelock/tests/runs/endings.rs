//! How runs end: cancelled, timed out, compensated, retried, and continued as new.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidelock::prelude::*;
use tidelock::runs::{RunState, StepError};
use tidelock_test_stage::{Observed, Running, TestStore, on_every_store, until};

use crate::flow::Register;
use crate::helpers::{count, error, history, millis, process, result, see, start, with};

on_every_store!(
    a_cancelled_run_cleans_up_and_ends_cancelled,
    a_run_that_handles_its_cancellation_completes,
    a_timer_and_a_cancellation_come_to_one_outcome,
    a_cancellation_that_comes_too_late_leaves_one_terminal_state,
    a_run_past_its_deadline_fails,
    steps_that_were_done_are_undone_in_reverse,
    a_failed_run_is_retried_from_the_step_that_failed,
    a_terminated_run_stops_and_stays_terminated,
    a_run_continues_as_new_with_its_signals,
);

/// RUN-18. After the cancellation only clean-up runs; an interrupted sleep stays interrupted.
async fn a_cancelled_run_cleans_up_and_ends_cancelled(stage: TestStore) {
    let seen = Observed::default();
    let long = with("long", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let slept = ctx.sleep("long", millis(3_600_000)).await;
            if slept.is_err() {
                let cleanup = ctx.cleanup();
                cleanup.step("tidy", |key| see(&seen, key)).await?;
                cleanup.sleep("breathe", millis(1_200)).await?;
                cleanup.step("leave", |key| see(&seen, key)).await?;
            }
            ctx.step("never", |key| see(&seen, key)).await?;
            Ok(())
        })
    });
    let run = start(&stage, "long", "l", &()).await;
    let running = Running::start(process(&stage, "one").await.register(long));
    until("it sleeps", async || history(&stage, "l").await.contains(&"timer".into())).await;
    run.cancel("enough").await.unwrap();
    let error = error(&run).await;
    assert!(error.contains("enough"), "{error}");
    assert_eq!(run.get().await.unwrap().state, RunState::Cancelled);
    assert_eq!(seen.lines(), ["l:tidy", "l:leave"]);
    running.stop().await;
}

/// RUN-18. The function's result counts.
async fn a_run_that_handles_its_cancellation_completes(stage: TestStore) {
    let calm = with("calm", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            let came: Result<u32, StepError> = ctx.wait_for_signal("go").await;
            Ok(came.is_err_and(|error| error.is_cancelled()))
        })
    });
    let run = start(&stage, "calm", "c", &()).await;
    let running = Running::start(process(&stage, "one").await.register(calm));
    until("it waits", async || history(&stage, "c").await.contains(&"waiting".into())).await;
    run.cancel("enough").await.unwrap();
    assert!(result::<bool>(&run).await);
    running.stop().await;
}

/// Schedule 43. The sleep is over and the run is cancelled before it is driven: one of the two
/// wins, permanently.
async fn a_timer_and_a_cancellation_come_to_one_outcome(stage: TestStore) {
    let seen = Observed::default();
    let short = with("short", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let slept = ctx.sleep("nap", millis(1_200)).await;
            let cleanup = ctx.cleanup();
            let outcome = if slept.is_ok() { "slept" } else { "interrupted" };
            cleanup
                .step("first", |_| {
                    seen.note(outcome);
                    async { Ok::<_, HandlerError>(()) }
                })
                .await?;
            cleanup.sleep("rest", millis(1_200)).await?;
            cleanup
                .step("second", |_| {
                    seen.note(outcome);
                    async { Ok::<_, HandlerError>(()) }
                })
                .await?;
            slept
        })
    });
    let run = start(&stage, "short", "s", &()).await;
    let first = Running::start(process(&stage, "one").await.register(short.clone()));
    until("it sleeps", async || history(&stage, "s").await.contains(&"timer".into())).await;
    first.stop().await;
    let (store, stopped) = (stage.store().await, stage.store().await.now().await.unwrap());
    until("the nap is over", async || store.now().await.unwrap().since(stopped) > millis(1_200))
        .await;
    run.cancel("enough").await.unwrap();
    let second = Running::start(process(&stage, "two").await.register(short));
    until("it has ended", async || run.get().await.unwrap().state.is_ended()).await;
    let lines = seen.lines();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{lines:?}");
    second.stop().await;
}

/// Schedule 47. The last step is running when the run is cancelled: it completes, and is not
/// cancelled afterwards.
async fn a_cancellation_that_comes_too_late_leaves_one_terminal_state(stage: TestStore) {
    let state = (Observed::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let last = with("last", &state, |ctx, (): (), (seen, go)| {
        Box::pin(async move {
            ctx.step("last", |_| {
                let (seen, go) = (seen.clone(), go.clone());
                async move {
                    seen.note("at it");
                    go.acquire().await.map_err(HandlerError::fatal)?.forget();
                    Ok::<_, HandlerError>(7)
                }
            })
            .await
        })
    });
    let run = start(&stage, "last", "l", &()).await;
    let running = Running::start(process(&stage, "one").await.register(last));
    state.0.until(1).await;
    run.cancel("too late").await.unwrap();
    state.1.add_permits(1);
    assert_eq!(result::<u32>(&run).await, 7);
    run.cancel("much too late").await.unwrap_err();
    let entries = history(&stage, "l").await;
    assert_eq!(
        entries.iter().filter(|entry| ["completed", "cancelled"].contains(&entry.as_str())).count(),
        1
    );
    assert_eq!(run.get().await.unwrap().state, RunState::Completed);
    running.stop().await;
}

/// RUN-19.
async fn a_run_past_its_deadline_fails(stage: TestStore) {
    let seen = Observed::default();
    let slow = with("slow", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let slept = ctx.sleep("long", millis(3_600_000)).await;
            ctx.cleanup().step("tidy", |key| see(&seen, key)).await?;
            slept
        })
    });
    let tidelock = stage.tidelock().await;
    let run = tidelock.start("slow", "s", &()).version(1).deadline(millis(1_500)).await.unwrap();
    let running = Running::start(process(&stage, "one").await.register(slow));
    let error = error(&run).await;
    assert!(error.contains("its time was up"), "{error}");
    assert_eq!(run.get().await.unwrap().state, RunState::Failed);
    assert_eq!(seen.lines(), ["s:tidy"]);
    running.stop().await;
}

/// RUN-20. Each with its own result and key; a compensated run is not retried.
async fn steps_that_were_done_are_undone_in_reverse(stage: TestStore) {
    let seen = Observed::default();
    let saga = with("saga", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            for nth in 1..=3 {
                let undone = seen.clone();
                let book = ctx.step(format!("book-{nth}"), |key| see(&seen, key));
                book.compensate(move |booked: String, key| {
                    undone.note(format!("{key} undoes {booked}"));
                    async { Ok::<_, HandlerError>(()) }
                })
                .await?;
            }
            ctx.sleep("rest", millis(1_200)).await?;
            ctx.step("pay", |_| async { Err::<(), _>(HandlerError::fatal("no money")) }).await
        })
    });
    let run = start(&stage, "saga", "s", &()).await;
    let running = Running::start(process(&stage, "one").await.register(saga));
    let error = error(&run).await;
    assert!(error.contains("no money"), "{error}");
    assert_eq!(
        seen.lines(),
        [
            "s:book-1",
            "s:book-2",
            "s:book-3",
            "s:book-3~compensation undoes book-3",
            "s:book-2~compensation undoes book-2",
            "s:book-1~compensation undoes book-1",
        ]
    );
    run.retry("try again").await.unwrap_err();
    running.stop().await;
}

/// RUN-21. Completed steps are not repeated; the failed step has the same key.
async fn a_failed_run_is_retried_from_the_step_that_failed(stage: TestStore) {
    let state = (Observed::default(), Arc::new(AtomicBool::new(false)));
    let fragile = with("fragile", &state, |ctx, (): (), (seen, works)| {
        Box::pin(async move {
            ctx.step("first", |key| see(&seen, key)).await?;
            let second = ctx.step("second", |key| {
                seen.note(key.to_string());
                let works = works.load(Ordering::SeqCst);
                async move { if works { Ok(7) } else { Err(HandlerError::again("broken")) } }
            });
            second.retry(Retry::never()).await
        })
    });
    let run = start(&stage, "fragile", "f", &()).await;
    let running = Running::start(process(&stage, "one").await.register(fragile));
    let error = error(&run).await;
    assert!(error.contains("broken"), "{error}");
    state.1.store(true, Ordering::SeqCst);
    run.retry("fixed").await.unwrap();
    assert_eq!(result::<u32>(&run).await, 7);
    assert_eq!(state.0.lines(), ["f:first", "f:second", "f:second"]);
    running.stop().await;
}

/// RUN-13. The holder's next commit is refused, and it stops.
async fn a_terminated_run_stops_and_stays_terminated(stage: TestStore) {
    let state = (Observed::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let busy = with("busy", &state, |ctx, (): (), (seen, go)| {
        Box::pin(async move {
            ctx.step("long", |key| {
                let (seen, go) = (seen.clone(), go.clone());
                async move {
                    seen.note(key.to_string());
                    go.acquire().await.map_err(HandlerError::fatal)?.forget();
                    Ok::<_, HandlerError>(())
                }
            })
            .await?;
            ctx.step("next", |key| see(&seen, key)).await
        })
    });
    let run = start(&stage, "busy", "b", &()).await;
    let running = Running::start(process(&stage, "one").await.register(busy));
    state.0.until(1).await;
    run.terminate("stop it").await.unwrap();
    state.1.add_permits(1);
    running.stop().await;
    assert_eq!(history(&stage, "b").await, ["started", "terminated"]);
    assert_eq!(run.get().await.unwrap().state, RunState::Terminated);
    assert_eq!(state.0.lines(), ["b:long"]);
}

/// RUN-22. The history stays short, names start over, and an unreceived signal is not lost.
async fn a_run_continues_as_new_with_its_signals(stage: TestStore) {
    let seen = Observed::default();
    let counter = with("counter", &seen, |ctx, round: u32, seen| {
        Box::pin(async move {
            ctx.step("work", |key| see(&seen, key)).await?;
            if round < 3 {
                return ctx.continue_as_new(&(round + 1)).await;
            }
            let said: String = ctx.wait_for_signal("say").await?;
            Ok((round, said))
        })
    });
    let run = start(&stage, "counter", "c", &1).await;
    run.signal("say", "hello").await.unwrap();
    let running = Running::start(process(&stage, "one").await.register(counter));
    assert_eq!(result::<(u32, String)>(&run).await, (3, "hello".into()));
    assert_eq!(seen.lines(), ["c:work", "c:work#2", "c:work#3"]);
    assert_eq!(count(&stage, "c", "step").await, 1, "those of earlier generations are gone");
    running.stop().await;
}
