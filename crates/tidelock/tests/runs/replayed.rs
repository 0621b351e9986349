//! `tidelock::testing::replay`: recorded histories against the code that recorded them, and against
//! changed code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::runs::{RunExport, RunOutcome};
use tidelock::testing::{AfterReplay, Misfit, ReplayError, TestApp, replay};

const DELIVERY: Workflow<u32, String> = Workflow::new("delivery");
const BOX: Workflow<u32, u32> = Workflow::new("box");

async fn boxed(ctx: RunCtx, units: u32) -> Result<u32, StepError> {
    ctx.wait_for_signal::<u32>("closed").await.map(|by| by + units)
}

async fn did(what: &str) -> Result<String, HandlerError> {
    Ok(what.to_owned())
}

/// A step, a child, a sleep, two steps at once, a signal, a value and a step in the store.
async fn deliver(ctx: RunCtx, units: u32) -> Result<String, StepError> {
    let label = ctx.step("label", |_| did("label")).await?;
    ctx.child("box", BOX, &units).await?;
    ctx.sleep("dry", Duration::from_secs(3600)).await?;
    let (weigh, stamp) = (ctx.step("weigh", |_| did("weigh")), ctx.step("stamp", |_| did("stamp")));
    let (weight, stamp) = tokio::try_join!(weigh, stamp)?;
    let packer: String = ctx.wait_for_signal("packed").await?;
    ctx.transact("book", async |tx: Tx| tx.put("books/1", &units)).await?;
    Ok(format!("{label}, {weight}, {stamp}, by {packer}"))
}

/// A shop with a delivery under way: its history at several points.
async fn histories() -> Vec<String> {
    let test =
        TestApp::start(|tidelock| tidelock.app().workflow(DELIVERY, deliver).workflow(BOX, boxed))
            .await;
    let exported = || test.run("d").export().to_string();
    let run = test.tidelock().start(DELIVERY, "d", &3).await.unwrap();
    let mut histories = vec![exported()];
    test.run_until_idle().await;
    histories.push(exported());
    let child = test.tidelock().runs().list(&tidelock::runs::RunFilter::all().workflow("box"));
    let child = child.await.unwrap().items[0].run.clone();
    test.tidelock().runs().run(child.as_str()).signal("closed", &1).await.unwrap();
    test.run_until_idle().await;
    histories.push(exported());
    test.advance(Duration::from_secs(3600)).await;
    histories.push(exported());
    run.signal("packed", "Ada").await.unwrap();
    test.run_until_idle().await;
    test.run("d").assert_completed("label, weigh, stamp, by Ada");
    histories.push(exported());
    histories
}

fn misfit(outcome: Result<AfterReplay, ReplayError>) -> Misfit {
    match outcome {
        Err(ReplayError::Misfit(misfit)) => *misfit,
        other => panic!("it should not fit: {other:?}"),
    }
}

/// TEST-4.
#[tokio::test(start_paused = true)]
async fn every_history_fits_the_code_that_recorded_it_and_no_effect_runs() {
    let histories = histories().await;
    let ran = Arc::new(AtomicU32::new(0));
    let mut after = Vec::new();
    for history in &histories {
        let ran = ran.clone();
        let counting = move |ctx: RunCtx, units: u32| {
            let ran = ran.clone();
            async move {
                let effect = |what: &'static str| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    did(what)
                };
                let label = ctx.step("label", |_| effect("label")).await?;
                ctx.child("box", BOX, &units).await?;
                ctx.sleep("dry", Duration::from_secs(3600)).await?;
                let weigh = ctx.step("weigh", |_| effect("weigh"));
                let stamp = ctx.step("stamp", |_| effect("stamp"));
                let (weight, stamp) = tokio::try_join!(weigh, stamp)?;
                let packer: String = ctx.wait_for_signal("packed").await?;
                ctx.transact("book", async |_: Tx| effect("book").await.map(drop)).await?;
                Ok::<_, StepError>(format!("{label}, {weight}, {stamp}, by {packer}"))
            }
        };
        after.push(replay(DELIVERY, counting, history).await.unwrap());
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0, "no effect ran");
    assert_eq!(after[0], AfterReplay::Begins("step \"label\"".into()));
    assert_eq!(after[1..4], [const { AfterReplay::Waits }; 3]);
    let AfterReplay::Ends(RunOutcome::Completed(result)) = &after[4] else { panic!("{after:?}") };
    assert_eq!(result.to::<String>().unwrap(), "label, weigh, stamp, by Ada");
}

/// TEST-4.
#[tokio::test(start_paused = true)]
async fn changed_code_is_told_where_it_takes_another_way() {
    let histories = histories().await;
    let whole = histories.last().unwrap();
    let number = |kind: &str, name: &str| {
        let export: RunExport = whole.parse().unwrap();
        let is_meant = |entry: &&tidelock::runs::ExportedEntry| {
            entry.kind == kind && entry.name().as_deref() == Some(name)
        };
        Some(export.entries().iter().find(is_meant).unwrap().number)
    };

    async fn renamed(ctx: RunCtx, units: u32) -> Result<String, StepError> {
        ctx.step("print", |_| did("label")).await?;
        ctx.child("box", BOX, &units).await?;
        Ok(String::new())
    }
    let found = misfit(replay(DELIVERY, renamed, whole).await);
    assert_eq!((found.position, found.step.as_deref()), (number("step", "label"), Some("label")));
    assert_eq!((&*found.expected, &*found.found), ("step \"label\"", "step \"print\""));
    let said = found.to_string();
    assert!(
        said.starts_with("run \"d\" does not fit the code, at entry 2: expected step"),
        "{said}"
    );

    async fn of_another_kind(ctx: RunCtx, units: u32) -> Result<String, StepError> {
        ctx.step("label", |_| did("label")).await?;
        ctx.child("box", BOX, &units).await?;
        ctx.step("dry", |_| did("dry")).await
    }
    let found = misfit(replay(DELIVERY, of_another_kind, whole).await);
    assert_eq!(found.position, number("timer", "dry"));
    assert_eq!((&*found.expected, &*found.found), ("sleep \"dry\"", "step \"dry\""));

    async fn too_short(ctx: RunCtx, _: u32) -> Result<String, StepError> {
        ctx.step("label", |_| did("label")).await
    }
    let found = misfit(replay(DELIVERY, too_short, whole).await);
    assert_eq!(found.position, number("child", "box"));
    assert_eq!(found.found, "the end of the workflow");

    async fn of_another_type(ctx: RunCtx, _: u32) -> Result<String, StepError> {
        ctx.step("label", |_| async { Ok::<u32, HandlerError>(7) }).await.map(|n| n.to_string())
    }
    let found = misfit(replay(DELIVERY, of_another_type, whole).await);
    assert_eq!(found.step.as_deref(), Some("label"));
    assert!(found.found.contains("expected u32"), "{found}");

    async fn with_another_result(ctx: RunCtx, units: u32) -> Result<String, StepError> {
        deliver(ctx, units).await.map(|result| format!("{result}!"))
    }
    let found = misfit(replay(DELIVERY, with_another_result, whole).await);
    assert!(found.found.contains("Ada!"), "{found}");

    async fn longer(ctx: RunCtx, units: u32) -> Result<String, StepError> {
        ctx.step("label", |_| did("label")).await?;
        ctx.child("box", BOX, &units).await?;
        ctx.sleep("dry", Duration::from_secs(3600)).await?;
        let weigh = ctx.step("weigh", |_| did("weigh"));
        tokio::try_join!(weigh, ctx.step("stamp", |_| did("stamp")))?;
        ctx.wait_for_signal::<String>("packed").await?;
        ctx.transact("book", async |tx: Tx| tx.put("books/1", &units)).await?;
        ctx.step("thank", |_| did("thank")).await
    }
    let found = misfit(replay(DELIVERY, longer, whole).await);
    assert_eq!(found.found, "step \"thank\"");
    // A run that is still open just goes on differently.
    replay(DELIVERY, longer, &histories[3]).await.unwrap();
}

/// TEST-4.
#[tokio::test(start_paused = true)]
async fn a_panic_or_another_file_is_told() {
    let history = histories().await.pop().unwrap();
    let panics = |_: RunCtx, _: u32| async {
        panic!("boom");
        #[allow(unreachable_code)]
        Ok::<String, StepError>(String::new())
    };
    let Err(ReplayError::Parked { error, .. }) = replay(DELIVERY, panics, &history).await else {
        panic!("it panicked")
    };
    assert!(error.contains("boom"), "{error}");
    let other = replay(BOX, boxed, &history).await.unwrap_err().to_string();
    assert_eq!(other, "the history of run \"d\" is of workflow \"delivery\", not of \"box\"");
    let none = replay(DELIVERY, deliver, "{}").await.unwrap_err().to_string();
    assert!(none.starts_with("an exported run: missing field"), "{none}");
    let later = history.replace("version 1\"", "version 9\"");
    let later = replay(DELIVERY, deliver, later).await.unwrap_err().to_string();
    assert!(later.contains("version 9"), "{later}");
}
