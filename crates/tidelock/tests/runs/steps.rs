//! Steps, sleeps and waits: the normal course of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunError, StepError};
use tidelock_test_stage::{Observed, PATIENCE, Running, TestStore, on_every_store, until};

use crate::flow::Register;
use crate::helpers::{count, error, history, millis, process, result, see, start, with};

on_every_store!(
    a_run_does_its_steps_sleeps_waits_and_completes,
    a_step_that_fails_is_tried_again_and_its_last_failure_is_the_functions_to_handle,
    a_failure_is_recognized_by_its_code,
    an_unstorable_result_is_a_recorded_failure,
    a_timeout_tells_itself_from_an_empty_payload,
    a_name_that_is_used_twice_fails_the_run,
);

/// RUN-1, RUN-2. A run is stored before it is first driven, and every step when it completes.
async fn a_run_does_its_steps_sleeps_waits_and_completes(stage: TestStore) {
    let seen = Observed::default();
    let checkout = with("checkout", &seen, |ctx, order: String, seen| {
        Box::pin(async move {
            let paid = ctx.step("charge", |key| see(&seen, key)).await?;
            ctx.sleep("cool-down", millis(20)).await?;
            let approved: String = ctx.wait_for_signal("approve").await?;
            let shipped = ctx.step("ship", |key| see(&seen, key)).await?;
            Ok(format!("{order}: {paid}, {approved}, {shipped}"))
        })
    });
    let run = start(&stage, "checkout", "order-7", "books").await;
    let running = Running::start(process(&stage, "one").await.register(checkout));
    until("it is charged", async || seen.count() == 1).await;
    run.signal("approve", "ada").await.unwrap();
    assert_eq!(result::<String>(&run).await, "books: charge, ada, ship");
    assert_eq!(seen.lines(), ["order-7:charge", "order-7:ship"]);
    let entries = history(&stage, "order-7").await;
    assert_eq!(
        (entries.first().unwrap().as_str(), entries.last().unwrap().as_str()),
        ("started", "completed")
    );
    running.stop().await;
}

/// RUN-6. Attempts and backoffs are stored; a fatal failure is not retried.
async fn a_step_that_fails_is_tried_again_and_its_last_failure_is_the_functions_to_handle(
    stage: TestStore,
) {
    let tries = Arc::new(AtomicU32::new(0));
    let stubborn = with("stubborn", &tries, |ctx, (): (), tries| {
        Box::pin(async move {
            let retry = Retry::attempts(3).backoff(Backoff::fixed(millis(5)));
            let third = ctx.step("third", |_| async {
                match tries.fetch_add(1, Ordering::SeqCst) {
                    0 => Err(HandlerError::again("not yet")),
                    1 => panic!("not like this"),
                    _ => Ok("at last".to_owned()),
                }
            });
            let never = ctx.step("never", |_| async { Err::<(), _>(HandlerError::again("no")) });
            let fatal = ctx.step("fatal", |_| async { Err::<(), _>(HandlerError::fatal("never")) });
            let slow = ctx.step("slow", |_| std::future::pending::<Result<(), HandlerError>>());
            Ok(vec![
                third.retry(retry).await?,
                never.retry(retry).await.unwrap_err().to_string(),
                fatal.await.unwrap_err().to_string(),
                slow.timeout(millis(10)).retry(Retry::never()).await.unwrap_err().to_string(),
            ])
        })
    });
    let run = start(&stage, "stubborn", "s", &()).await;
    let running = Running::start(process(&stage, "one").await.register(stubborn));
    assert_eq!(
        result::<Vec<String>>(&run).await,
        [
            "at last",
            r#"step "never" failed after 3 attempts: no"#,
            r#"step "fatal" failed after 1 attempts: never"#,
            r#"step "slow" timed out: it took longer than 10ms"#,
        ]
    );
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    assert_eq!(count(&stage, "s", "attempt-failed").await, 4);
    running.stop().await;
}

/// RUN-6. In the function, in its parent and for a client, also when the function returns the error
/// of a handler, and when its text cannot be stored as it is.
async fn a_failure_is_recognized_by_its_code(stage: TestStore) {
    let pay = with("pay", &(), |ctx, of: String, ()| {
        Box::pin(async move {
            let declined = |_| async {
                Err::<(), _>(HandlerError::fatal("no \0 money").with_code("declined"))
            };
            let paid = ctx.step("charge", declined).await.unwrap_err();
            ctx.sleep("replayed after this", millis(1)).await?;
            match of.as_str() {
                "code" => Ok(paid.code().unwrap_or_default().to_owned()),
                _ => Err(paid),
            }
        })
    });
    let shop = with("shop", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            let failed = ctx.child("pay", "pay", "error").typed::<String>().await.unwrap_err();
            Ok(failed.code().unwrap_or_default().to_owned())
        })
    });
    let plain = async |_: RunCtx, (): ()| {
        Err::<(), _>(HandlerError::again("no \0 paper").with_code("paper"))
    };
    let app = process(&stage, "one").await.register(pay).register(shop).workflow("plain", plain);
    let running = Running::start(app);
    let handled = start(&stage, "pay", "handled", "code").await;
    let returned = start(&stage, "pay", "returned", "error").await;
    let child = start(&stage, "shop", "child", &()).await;
    let plain = start(&stage, "plain", "plain", &()).await;
    assert_eq!(result::<String>(&handled).await, "declined");
    assert_eq!(result::<String>(&child).await, "declined");
    for (run, code) in [(returned, "declined"), (plain, "paper")] {
        let error = run.result().within(PATIENCE * 100_000).await.unwrap_err();
        let RunError::Failed { failure, .. } = error else { panic!("{error}") };
        assert_eq!(failure.code.as_deref(), Some(code));
    }
    running.stop().await;
}

/// Schedule 49. RUN-7. The effect has happened, so it is not repeated; the function gets an error.
async fn an_unstorable_result_is_a_recorded_failure(stage: TestStore) {
    let seen = Observed::default();
    let big = with("big", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let large = ctx.step("large", |key| {
                seen.note(key.to_string());
                async { Ok::<_, HandlerError>("x".repeat(2 << 20)) }
            });
            let odd = ctx.step("odd", |key| {
                seen.note(key.to_string());
                async { Ok::<_, HandlerError>(f64::NAN) }
            });
            Ok((large.await.unwrap_err().to_string(), odd.await.unwrap_err().to_string()))
        })
    });
    let run = start(&stage, "big", "b", &()).await;
    let running = Running::start(process(&stage, "one").await.register(big));
    let (large, odd) = result::<(String, String)>(&run).await;
    assert!(
        large.contains("\"large\" gave a result that cannot be stored")
            && large.contains("1048576"),
        "{large}"
    );
    assert!(odd.contains("\"odd\" gave a result that cannot be stored"), "{odd}");
    assert_eq!(seen.lines(), ["b:large", "b:odd"]);
    running.stop().await;
}

/// RUN-8.
async fn a_timeout_tells_itself_from_an_empty_payload(stage: TestStore) {
    let waits = async |ctx: RunCtx, (): ()| -> Result<(Option<()>, Option<()>), StepError> {
        let empty = ctx.wait_for_signal("empty").within(millis(3_600_000)).await?;
        let late = ctx.wait_for_signal("late").within(millis(10)).await?;
        Ok((empty, late))
    };
    let run = start(&stage, "waits", "w", &()).await;
    run.signal("empty", &()).await.unwrap();
    let running = Running::start(process(&stage, "one").await.workflow("waits", waits));
    assert_eq!(result::<serde_json::Value>(&run).await, json!([null, null]));
    let entries = history(&stage, "w").await;
    assert!(
        entries.contains(&"received".into()) && entries.contains(&"timed-out".into()),
        "{entries:?}"
    );
    running.stop().await;
}

/// RUN-3.
async fn a_name_that_is_used_twice_fails_the_run(stage: TestStore) {
    let seen = Observed::default();
    let twice = with("twice", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            ctx.step("charge", |key| see(&seen, key)).await?;
            ctx.step("charge", |key| see(&seen, key)).await?;
            Ok(())
        })
    });
    let run = start(&stage, "twice", "t", &()).await;
    let running = Running::start(process(&stage, "one").await.register(twice));
    let error = error(&run).await;
    assert!(error.contains(r#"the name "charge" is used twice"#), "{error}");
    assert_eq!(seen.count(), 1);
    running.stop().await;
}
