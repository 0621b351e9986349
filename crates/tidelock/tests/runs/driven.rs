//! Driven runs, as clients see and change them.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidelock::prelude::*;
use tidelock::runs::{
    OnUnknownOutcome, PendingWait, RunCtx, RunError, RunFilter, RunOutcome, RunState, RunStatus,
    StepError, StepKey, Verdict,
};
use tidelock::store::{RawJson, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tidelock_test_stage::{
    Interceptor, Observed, Running, TestStore, Wrapped, on_every_store, past, until,
};
use tokio::sync::Semaphore;

use crate::flow::{Flow, Register, Switch, app, count, history, result, seen, soon, until_it};

on_every_store!(
    where_a_run_stands_is_told_and_resume_does_not_drive_it,
    a_parked_run_has_a_reason_and_can_be_resumed,
    a_result_is_awaited_from_another_process,
    a_cancel_races_completion_to_one_end,
    a_failed_run_is_retried_from_the_step_that_failed,
    a_compensated_run_is_not_retried,
    a_terminated_run_is_not_driven_on_and_its_parent_learns_of_it,
    an_operator_resolves_a_step_with_an_unknown_outcome,
    signals_are_received_in_order_and_each_once,
    published_values_are_visible_to_every_client,
    a_transactional_step_starts_and_signals_other_runs,
    the_newest_version_of_the_process_is_started_and_else_the_newest_of_any,
);

/// RUN-35.
async fn where_a_run_stands_is_told_and_resume_does_not_drive_it(stage: TestStore) {
    let (here, there, gate, steps) = (
        stage.tidelock().await,
        stage.tidelock().await,
        Arc::new(Semaphore::new(0)),
        Observed::default(),
    );
    let (shut, noted) = (gate.clone(), steps.clone());
    let workflow = move |ctx: RunCtx, (): ()| {
        let (gate, noted) = (shut.clone(), noted.clone());
        async move {
            let work = |_: StepKey| {
                let (gate, noted) = (gate.clone(), noted.clone());
                async move {
                    noted.note("work");
                    gate.acquire().await?.forget();
                    Ok::<_, HandlerError>(())
                }
            };
            ctx.step("work", work).await?;
            let approved: Option<u32> =
                ctx.wait_for_signal("approve").within(Duration::from_secs(7_200)).await?;
            ctx.sleep("nap", Duration::from_secs(3_600)).await?;
            Ok(approved)
        }
        .boxed()
    };
    let running = Running::start(app(&here, "worker-7", Flow::new("w", workflow)));
    here.start("w", "r", &()).await.unwrap();
    let run = there.runs().run("r");
    steps.until(1).await;
    for told in
        [run.status().await.unwrap(), run.resume().await.unwrap(), run.resume().await.unwrap()]
    {
        let RunStatus::Running { worker, since, until } = told else { panic!("{told:?}") };
        assert_eq!(worker.as_str(), "worker-7");
        assert!(since < until);
    }
    gate.add_permits(1);
    until_it(&run, "waits", |told| matches!(told, RunStatus::Waiting { .. })).await;
    let RunStatus::Waiting { on, until: Some(_) } = run.resume().await.unwrap() else { panic!() };
    assert!(
        matches!(&on[..], [PendingWait::Signal { signal, until: Some(_), .. }] if signal == "approve"),
        "{on:?}"
    );
    run.signal("approve", &7).await.unwrap();
    let sleeps = |told: &RunStatus| matches!(told, RunStatus::Waiting { on, .. } if matches!(on[..], [PendingWait::Time { .. }]));
    let RunStatus::Waiting { on, until } = until_it(&run, "sleeps", sleeps).await else { panic!() };
    assert!(
        matches!(&on[..], [PendingWait::Time { until: moment, .. }] if Some(*moment) == until),
        "{on:?}"
    );
    assert_eq!(steps.count(), 1, "it was driven once");
    run.terminate("enough").await.unwrap();
    let ended = run.resume().await.unwrap();
    assert_eq!(ended, RunStatus::Ended(RunOutcome::Terminated("enough".into())));
    running.stop().await;
}

/// RUN-35.
async fn a_parked_run_has_a_reason_and_can_be_resumed(stage: TestStore) {
    let (tidelock, broken) = (stage.tidelock().await, Switch::default());
    broken.turn(true);
    let bug = broken.clone();
    let workflow = move |_: RunCtx, (): ()| {
        assert!(!bug.is_on(), "there is a bug");
        async move { Ok(7) }.boxed()
    };
    let running = Running::start(app(&tidelock, "one", Flow::new("w", workflow)));
    let run = tidelock.start("w", "r", &()).await.unwrap();
    let parked = |told: &RunStatus| matches!(told, RunStatus::Parked { again_at: Some(_), .. });
    let RunStatus::Parked { error, .. } = until_it(&run, "is parked", parked).await else {
        panic!()
    };
    assert!(error.contains("there is a bug"), "{error}");
    assert_eq!(run.get().await.unwrap().state, RunState::Open, "it is not failed");
    broken.turn(false);
    let resumed = run.resume().await.unwrap();
    assert!(!matches!(resumed, RunStatus::Parked { .. }), "{resumed:?}");
    assert_eq!(result::<u32>(&run).await.unwrap(), 7);
    running.stop().await;
}

/// RUN-36.
async fn a_result_is_awaited_from_another_process(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let workflow = |ctx: RunCtx, what: String| {
        async move {
            let said: String = ctx.wait_for_signal("go").await?;
            match what.as_str() {
                "fail" => {
                    ctx.step("fail", |_| async { Err(HandlerError::fatal("no more ink")) }).await
                }
                _ => Ok(said),
            }
        }
        .boxed()
    };
    let running = Running::start(app(&here, "one", Flow::new("w", workflow)));
    for what in ["complete", "fail", "cancel"] {
        here.start("w", what, &what).await.unwrap();
    }
    let wait = |run: &str| {
        tokio::spawn({
            let run = there.runs().run(run);
            async move { result::<String>(&run).await }
        })
    };
    let (completes, fails, cancels) = (wait("complete"), wait("fail"), wait("cancel"));
    for run in ["complete", "fail"] {
        here.runs().run(run).signal("go", "now").await.unwrap();
    }
    here.runs().run("cancel").cancel("changed my mind").await.unwrap();
    assert_eq!(completes.await.unwrap().unwrap(), "now");
    let failed = fails.await.unwrap().unwrap_err();
    assert!(
        matches!(&failed, RunError::Failed { failure, .. } if failure.error.contains("no more ink")),
        "{failed}"
    );
    let cancelled = cancels.await.unwrap().unwrap_err();
    assert_eq!(cancelled.to_string(), r#"run "cancel": it was cancelled: changed my mind"#);
    let unfit = there.runs().run("complete").typed::<u32>().result().await.unwrap_err();
    assert!(unfit.to_string().contains(r#"result of run "complete""#), "{unfit}");
    running.stop().await;
}

/// RUN-37. Schedule 47.
async fn a_cancel_races_completion_to_one_end(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let workflow =
        |ctx: RunCtx, (): ()| async move { ctx.wait_for_signal::<u32>("go").await }.boxed();
    let running = Running::start(app(&here, "one", Flow::new("w", workflow)));
    const RUNS: usize = 20;
    let mut races = Vec::new();
    for nth in 0..RUNS {
        let id = format!("r-{nth}");
        here.start("w", &id, &()).await.unwrap();
        let (go, cancel) = (here.runs().run(&id), there.runs().run(&id));
        races.push(tokio::spawn(async move {
            let (going, cancelling) = (go.signal("go", &1), cancel.cancel("stop"));
            let (_, _) = tokio::join!(going.into_future(), cancelling);
        }));
    }
    for race in races {
        race.await.unwrap();
    }
    for nth in 0..RUNS {
        let id = format!("r-{nth}");
        let run = there.runs().run(&id);
        let _either = result::<Option<u32>>(&run).await;
        let state = run.get().await.unwrap().state;
        assert!([RunState::Completed, RunState::Cancelled].contains(&state), "{state:?}");
        let ends = count(&here, &id, "~completed").await + count(&here, &id, "~cancelled").await;
        assert_eq!(ends, 1, "one end is recorded");
        assert!(matches!(run.cancel("again").await, Err(RunError::Ended { .. })));
        assert_eq!(run.get().await.unwrap().state, state, "and it stays");
    }
    let ended = RunFilter::all().state(RunState::Completed).state(RunState::Cancelled);
    let mut listed = here.runs().list(&ended).all().await.unwrap();
    listed.retain(|run| !past::left(run.run.as_str()));
    assert_eq!(listed.len(), RUNS, "each is listed once");
    running.stop().await;
}

/// RUN-39.
async fn a_failed_run_is_retried_from_the_step_that_failed(stage: TestStore) {
    let (tidelock, steps, broken) =
        (stage.tidelock().await, Observed::default(), Switch::default());
    broken.turn(true);
    let (noted, broke) = (steps.clone(), broken.clone());
    let workflow = move |ctx: RunCtx, (): ()| {
        let (noted, broke) = (noted.clone(), broke.clone());
        async move {
            seen(&ctx, "first", &noted).await?;
            let second = |_: StepKey| {
                noted.note("second");
                let broke = broke.is_on();
                async move { if broke { Err(HandlerError::fatal("out of paper")) } else { Ok(2) } }
            };
            ctx.step("second", second).await
        }
        .boxed()
    };
    let running = Running::start(app(&tidelock, "one", Flow::new("w", workflow)));
    let run = tidelock.start("w", "r", &()).await.unwrap();
    let failed = result::<u32>(&run).await.unwrap_err();
    assert!(
        matches!(&failed, RunError::Failed { failure, .. }
        if failure.step.as_ref().is_some_and(|step| step.as_str() == "second")),
        "{failed}"
    );
    broken.turn(false);
    run.retry("there is paper again").await.unwrap();
    assert_eq!(result::<u32>(&run).await.unwrap(), 2);
    assert_eq!(
        steps.lines(),
        ["r:first", "second", "second"],
        "what was recorded is not done again"
    );
    let refused = run.retry("once more").await.unwrap_err();
    assert!(matches!(refused, RunError::NotFailed { state: RunState::Completed, .. }), "{refused}");
    running.stop().await;
}

/// RUN-39.
async fn a_compensated_run_is_not_retried(stage: TestStore) {
    let (tidelock, undone) = (stage.tidelock().await, Observed::default());
    let noted = undone.clone();
    let workflow = move |ctx: RunCtx, (): ()| {
        let noted = noted.clone();
        async move {
            let undo = move |(): (), _: StepKey| {
                noted.note("undone");
                async { Ok::<_, HandlerError>(()) }
            };
            ctx.step("reserve", |_| async { Ok::<_, HandlerError>(()) }).compensate(undo).await?;
            ctx.step("charge", |_| async { Err::<(), _>(HandlerError::fatal("declined")) }).await
        }
        .boxed()
    };
    let running = Running::start(app(&tidelock, "one", Flow::new("w", workflow)));
    let run = tidelock.start("w", "r", &()).await.unwrap();
    result::<()>(&run).await.unwrap_err();
    assert_eq!(undone.count(), 1);
    let refused = run.retry("please").await.unwrap_err();
    assert!(matches!(refused, RunError::Compensated { .. }), "{refused}");
    assert_eq!(run.get().await.unwrap().state, RunState::Failed);
    running.stop().await;
}

/// RUN-38.
async fn a_terminated_run_is_not_driven_on_and_its_parent_learns_of_it(stage: TestStore) {
    let (here, there, gate) =
        (stage.tidelock().await, stage.tidelock().await, Arc::new(Semaphore::new(0)));
    let (shut, begun) = (gate.clone(), Observed::default());
    let noted = begun.clone();
    let child = move |ctx: RunCtx, (): ()| {
        let (gate, noted) = (shut.clone(), noted.clone());
        async move {
            let work = |_: StepKey| {
                let (gate, noted) = (gate.clone(), noted.clone());
                async move {
                    noted.note("begun");
                    gate.acquire().await?.forget();
                    Ok::<_, HandlerError>(())
                }
            };
            ctx.step("work", work).await
        }
        .boxed()
    };
    let parent = |ctx: RunCtx, (): ()| {
        async move {
            match ctx.child("helper", "child", &()).await {
                Err(StepError::Child { outcome: RunOutcome::Terminated(reason), .. }) => Ok(reason),
                other => Ok(format!("{other:?}")),
            }
        }
        .boxed()
    };
    let app = app(&here, "one", Flow::new("child", child)).register(Flow::new("parent", parent));
    let running = Running::start(app);
    let run = here.start("parent", "p", &()).await.unwrap();
    begun.until(1).await;
    let child = there.runs().run("p/helper");
    child.terminate("out of order").await.unwrap();
    gate.add_permits(1);
    assert_eq!(result::<String>(&run).await.unwrap(), "out of order");
    running.stop().await;
    let events = history(&here, "p/helper").await;
    assert_eq!(
        events.last().unwrap().event_type.as_str(),
        "~terminated",
        "nothing is written behind it"
    );
}

/// A process that a test kills: from then on its calls to the store have no effect.
#[derive(Debug)]
struct Cut(Switch);

impl Interceptor for Cut {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = tidelock::store::Result<T>> + Send,
    ) -> tidelock::store::Result<T> {
        if self.0.is_on() {
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                RetryAdvice::Later,
                operation,
                "it was cut off",
            ));
        }
        call.await
    }
}

/// RUN-46. RUN-49.
async fn an_operator_resolves_a_step_with_an_unknown_outcome(stage: TestStore) {
    let (tidelock, cut) = (stage.tidelock().await, Switch::default());
    let dead = cut.clone();
    let workflow = move |ctx: RunCtx, (): ()| {
        let dead = dead.clone();
        async move {
            let pay = |_: StepKey| {
                dead.turn(true);
                pending::<Result<u32, HandlerError>>()
            };
            let paid = ctx
                .step("pay", pay)
                .at_most_once(OnUnknownOutcome::Ask)
                .retry(Retry::never())
                .await?;
            ctx.wait_for_signal::<()>("go").await?;
            Ok(paid)
        }
        .boxed()
    };
    let workflow = soon(Flow::new("w", workflow));
    let doomed = Tidelock::over(Wrapped::new(stage.store().await, Cut(cut.clone())));
    let dying = Running::start(app(&doomed, "doomed", workflow.clone()));
    let run = tidelock.start("w", "r", &()).version(1).await.unwrap();
    until("it dies in the middle of the step", async || cut.is_on()).await;
    let refused = run.resolve("pay", Verdict::Rerun).await.unwrap_err();
    assert!(matches!(refused, RunError::NotAwaitingVerdict { .. }), "{refused}");
    let running = Running::start(app(&tidelock, "two", workflow));
    let asks = |told: &RunStatus| matches!(told, RunStatus::Waiting { on, .. } if matches!(on[..], [PendingWait::Verdict { .. }]));
    until_it(&run, "asks", asks).await;
    assert!(matches!(
        run.resolve("ship", Verdict::Rerun).await,
        Err(RunError::NotAwaitingVerdict { .. })
    ));
    let asked = run.clone().operation_id("said");
    asked.resolve("pay", Verdict::Done(RawJson::new(&12).unwrap())).await.unwrap();
    let goes_on = |told: &RunStatus| matches!(told, RunStatus::Waiting { on, .. } if matches!(on[..], [PendingWait::Signal { .. }]));
    until_it(&run, "goes on", goes_on).await;
    asked.resolve("pay", Verdict::Done(RawJson::new(&12).unwrap())).await.unwrap();
    let refused = run.resolve("pay", Verdict::Rerun).await.unwrap_err();
    assert!(matches!(refused, RunError::NotAwaitingVerdict { .. }), "{refused}");
    run.signal("go", &()).await.unwrap();
    assert_eq!(result::<u32>(&run).await.unwrap(), 12);
    asked.resolve("pay", Verdict::Done(RawJson::new(&12).unwrap())).await.unwrap();
    running.stop().await;
    dying.abandon();
}

/// RUN-33.
async fn signals_are_received_in_order_and_each_once(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let workflow = |ctx: RunCtx, (): ()| {
        async move {
            let mut got: Vec<u32> = Vec::new();
            for nth in 0..4 {
                got.push(ctx.wait_for_signal("n").named(format!("n-{nth}")).await?);
            }
            Ok(got)
        }
        .boxed()
    };
    let run = tidelock.runs().run("r");
    run.signal("n", &1).id("a").await.unwrap();
    run.signal("n", &1).id("a").await.unwrap();
    run.signal("other", &9).await.unwrap();
    run.signal("n", &2).id("b").await.unwrap();
    let running = Running::start(app(&tidelock, "one", Flow::new("w", workflow)));
    tidelock.start("w", "r", &()).await.unwrap();
    run.signal("n", &3).await.unwrap();
    until_it(&run, "waits", |told| matches!(told, RunStatus::Waiting { .. })).await;
    run.signal("n", &2).id("b").await.unwrap();
    run.signal("n", &4).await.unwrap();
    assert_eq!(result::<Vec<u32>>(&run).await.unwrap(), [1, 2, 3, 4]);
    running.stop().await;
}

/// RUN-47.
async fn published_values_are_visible_to_every_client(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let workflow = |ctx: RunCtx, (): ()| {
        async move {
            ctx.publish("packing", "packing").await?;
            ctx.publish("packed", &("packed", 3)).await?;
            ctx.wait_for_signal::<()>("go").await?;
            ctx.step("ship", |_| async { Ok::<_, HandlerError>(()) }).await
        }
        .boxed()
    };
    let running = Running::start(app(&here, "one", Flow::new("w", workflow)));
    let run = here.start("w", "r", &()).await.unwrap();
    until_it(&run, "waits", |told| matches!(told, RunStatus::Waiting { .. })).await;
    let other = there.runs().run("r");
    assert_eq!(other.published::<(String, u32)>().await.unwrap(), Some(("packed".into(), 3)));
    let unfit = other.published::<u32>().await.unwrap_err().to_string();
    assert!(unfit.contains(r#"status of run "r""#), "{unfit}");
    run.signal("go", &()).await.unwrap();
    result::<()>(&run).await.unwrap();
    assert_eq!(count(&here, "r", "~published").await, 2, "a replay says nothing twice");
    let idle = crate::client::idle(&here, "idle").await;
    assert_eq!(idle.published::<u32>().await.unwrap(), None);
    running.stop().await;
}

/// RUN-45.
async fn a_transactional_step_starts_and_signals_other_runs(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let waits = |ctx: RunCtx, (): ()| async move { ctx.wait_for_signal::<u32>("n").await }.boxed();
    let reaches = |ctx: RunCtx, (): ()| {
        async move {
            let reach = |tx: Tx| async move {
                tx.start("waits", "other", &()).await?;
                tx.signal("other", "n", &7).await?;
                Ok::<_, HandlerError>(())
            };
            ctx.transact("reach", reach).await
        }
        .boxed()
    };
    let app =
        app(&tidelock, "one", Flow::new("waits", waits)).register(Flow::new("reaches", reaches));
    let running = Running::start(app);
    let run = tidelock.start("reaches", "r", &()).await.unwrap();
    result::<()>(&run).await.unwrap();
    assert_eq!(result::<u32>(&tidelock.runs().run("other")).await.unwrap(), 7);
    assert_eq!(count(&tidelock, "other", "~signalled").await, 1);
    running.stop().await;
}

/// RUN-31.
async fn the_newest_version_of_the_process_is_started_and_else_the_newest_of_any(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let says = |version: u32| {
        let workflow = move |_: RunCtx, (): ()| async move { Ok(version) }.boxed();
        Flow::new("w", workflow).options(|options| options.version(version))
    };
    let both = Running::start(app(&here, "one", says(1)).register(says(2)));
    let run = here.start("w", "a", &()).await.unwrap();
    assert_eq!(result::<u32>(&run).await.unwrap(), 2);
    until("it is known elsewhere", async || there.start("w", "b", &()).await.is_ok()).await;
    assert_eq!(result::<u32>(&there.runs().run("b")).await.unwrap(), 2);
    let old = there.start("w", "c", &()).version(1).await.unwrap();
    assert_eq!(result::<u32>(&old).await.unwrap(), 1, "both are driven");
    both.stop().await;
}
