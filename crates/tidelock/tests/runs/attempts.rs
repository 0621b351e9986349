//! Unusual attempts: a panic before the future exists, and a timeout of an at-most-once step.

use tidelock::prelude::*;
use tidelock::runs::{OnUnknownOutcome, StepKey, Verdict};
use tidelock::store::RawJson;
use tidelock_test_stage::{Observed, Running, TestStore, on_every_store, until};

use crate::flow::Register;
use crate::helpers::{count, history, millis, process, result, start, with};

on_every_store!(
    a_panic_before_the_future_exists_is_a_failed_attempt,
    a_panic_before_the_future_exists_leaves_nothing_to_ask_about,
    an_at_most_once_step_that_times_out_follows_its_policy,
    an_operator_is_asked_about_a_step_that_timed_out_each_time,
    a_step_that_times_out_each_time_is_not_rerun_without_end,
    a_step_ends_when_its_time_limit_is_over_since_its_first_failure,
);

/// Notes the line, and panics the first time.
fn panic_once(seen: &Observed, line: String) {
    let is_first = !seen.lines().contains(&line);
    seen.note(line);
    assert!(!is_first, "before there is a future");
}

/// Schedule 115. RUN-6. In a step, a transaction and their compensations: the step's policy
/// decides, and the run continues.
async fn a_panic_before_the_future_exists_is_a_failed_attempt(stage: TestStore) {
    let seen = Observed::default();
    let hasty = with("hasty", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let retry = Retry::attempts(3).backoff(Backoff::fixed(millis(5)));
            let pay = ctx.step("pay", |key: StepKey| {
                panic_once(&seen, key.to_string());
                async { Ok::<_, HandlerError>(1) }
            });
            let unpay = seen.clone();
            pay.retry(retry)
                .compensate(move |_: u32, key: StepKey| {
                    panic_once(&unpay, key.to_string());
                    async { Ok::<_, HandlerError>(()) }
                })
                .await?;
            let book = ctx.transact("book", |tx: Tx| {
                panic_once(&seen, tx.effect_key().to_owned());
                async move { Ok::<_, HandlerError>(2) }
            });
            let unbook = seen.clone();
            book.retry(retry)
                .compensate(move |_: u32, tx: Tx| {
                    panic_once(&unbook, tx.effect_key().to_owned());
                    async { Ok::<_, HandlerError>(()) }
                })
                .await?;
            let never =
                ctx.step("never", |_: StepKey| -> std::future::Ready<Result<(), HandlerError>> {
                    panic!("not at all")
                });
            let never = never
                .retry(Retry::attempts(2).backoff(Backoff::fixed(millis(5))))
                .await
                .unwrap_err();
            ctx.compensate().await?;
            Ok(never.to_string())
        })
    });
    let run = start(&stage, "hasty", "h", &()).await;
    let running = Running::start(process(&stage, "one").await.register(hasty));
    let said = result::<String>(&run).await;
    assert_eq!(said, r#"step "never" failed after 2 attempts: it panicked: not at all"#);
    let (book, pay) = ("h:book~compensation", "h:pay~compensation");
    assert_eq!(seen.lines(), ["h:pay", "h:pay", "h:book", "h:book", book, book, pay, pay]);
    assert_eq!(count(&stage, "h", "attempt-failed").await, 5, "{:?}", history(&stage, "h").await);
    running.stop().await;
}

/// Schedule 115. RUN-14. An effect without a future has not begun: no verdict is needed.
async fn a_panic_before_the_future_exists_leaves_nothing_to_ask_about(stage: TestStore) {
    let seen = Observed::default();
    let careful = with("careful", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let pay = ctx.step("pay", |key: StepKey| {
                panic_once(&seen, key.to_string());
                async { Ok::<_, HandlerError>(1) }
            });
            let paid = pay.at_most_once(OnUnknownOutcome::Ask).await.unwrap_err().to_string();
            let ship = ctx.step("ship", |key: StepKey| {
                panic_once(&seen, key.to_string());
                async { Ok::<_, HandlerError>("shipped".to_owned()) }
            });
            let retry = Retry::attempts(2).backoff(Backoff::fixed(millis(5)));
            Ok((paid, ship.at_most_once(OnUnknownOutcome::Ask).retry(retry).await?))
        })
    });
    let run = start(&stage, "careful", "c", &()).await;
    let running = Running::start(process(&stage, "one").await.register(careful));
    let (paid, shipped) = result::<(String, String)>(&run).await;
    assert_eq!(
        paid,
        r#"step "pay" failed after 1 attempts: it panicked: before there is a future"#
    );
    assert_eq!(shipped, "shipped");
    assert_eq!(seen.lines(), ["c:pay", "c:ship", "c:ship"]);
    assert_eq!(count(&stage, "c", "unknown-outcome").await, 0);
    running.stop().await;
}

/// Schedule 116. RUN-14. The attempt is dropped, and its outcome is unknown.
async fn an_at_most_once_step_that_times_out_follows_its_policy(stage: TestStore) {
    let seen = Observed::default();
    let once = with("once", &seen, |ctx, policy: String, seen| {
        Box::pin(async move {
            let policy = match policy.as_str() {
                "fail" => OnUnknownOutcome::Fail,
                "skip" => OnUnknownOutcome::Skip(0),
                _ => OnUnknownOutcome::Rerun,
            };
            let step = ctx.step("pay", |key: StepKey| {
                let nth = seen.lines().iter().filter(|line| **line == key.to_string()).count();
                seen.note(key.to_string());
                async move {
                    match nth {
                        0 => std::future::pending().await,
                        nth => Ok::<_, HandlerError>(nth),
                    }
                }
            });
            let step = match policy {
                OnUnknownOutcome::Rerun => step,
                // However many attempts are allowed: an unknown outcome is not retried.
                _ => step.retry(Retry::attempts(3).backoff(Backoff::fixed(millis(5)))),
            };
            match step.timeout(millis(10)).at_most_once(policy).await {
                Ok(nth) => Ok(nth.to_string()),
                Err(error) => Ok(error.to_string()),
            }
        })
    });
    let running = Running::start(process(&stage, "one").await.register(once));
    let mut ends = Vec::new();
    for policy in ["fail", "skip", "rerun"] {
        ends.push(result::<String>(&start(&stage, "once", policy, policy).await).await);
    }
    let failed = r#"step "pay" has an unknown outcome: it took longer than 10ms, and may have been done or not"#;
    assert_eq!(ends, [failed, "0", "1"]);
    assert_eq!(seen.lines(), ["fail:pay", "skip:pay", "rerun:pay", "rerun:pay"]);
    running.stop().await;
}

/// Schedule 116. RUN-14, RUN-46. A rerun by an operator that times out, too, needs another verdict.
async fn an_operator_is_asked_about_a_step_that_timed_out_each_time(stage: TestStore) {
    let seen = Observed::default();
    let ask = with("ask", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let step = ctx.step("pay", |key: StepKey| {
                seen.note(key.to_string());
                std::future::pending::<Result<u32, HandlerError>>()
            });
            step.timeout(millis(10)).at_most_once(OnUnknownOutcome::Ask).await
        })
    });
    let run = start(&stage, "ask", "a", &()).await;
    let running = Running::start(process(&stage, "one").await.register(ask));
    until("it is asked about", async || count(&stage, "a", "unknown-outcome").await == 1).await;
    run.resolve("pay", Verdict::Rerun).await.unwrap();
    until("it is asked about again", async || count(&stage, "a", "unknown-outcome").await == 2)
        .await;
    run.resolve("pay", Verdict::Done(RawJson::new(&7).unwrap())).await.unwrap();
    assert_eq!(result::<u32>(&run).await, 7);
    assert_eq!(seen.count(), 2);
    running.stop().await;
}

/// Schedule 116. RUN-6. A repeatable step is retried as often as any other, and then has timed out.
async fn a_step_that_times_out_each_time_is_not_rerun_without_end(stage: TestStore) {
    let seen = Observed::default();
    let rerun = with("rerun", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let step = ctx.step("pay", |key: StepKey| {
                seen.note(key.to_string());
                std::future::pending::<Result<u32, HandlerError>>()
            });
            let retry = Retry::attempts(2).backoff(Backoff::fixed(millis(5)));
            let step = step.timeout(millis(10)).at_most_once(OnUnknownOutcome::Rerun).retry(retry);
            Ok(step.await.unwrap_err().to_string())
        })
    });
    let run = start(&stage, "rerun", "r", &()).await;
    let running = Running::start(process(&stage, "one").await.register(rerun));
    assert_eq!(result::<String>(&run).await, r#"step "pay" timed out: it took longer than 10ms"#);
    assert_eq!(seen.count(), 2);
    running.stop().await;
}

/// RUN-6. The time counts from the first failure, and not from the last one.
async fn a_step_ends_when_its_time_limit_is_over_since_its_first_failure(stage: TestStore) {
    let failing = with("failing", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            let retry = Retry::attempts(20).backoff(Backoff::fixed(millis(2)));
            let at_once =
                ctx.step("at-once", |_| async { Err::<(), _>(HandlerError::again("no")) });
            let at_once = at_once.retry(retry.within(millis(0))).await.unwrap_err();
            let soon = ctx.step("soon", |_| async { Err::<(), _>(HandlerError::again("no")) });
            let soon = soon.retry(retry.within(millis(5))).await.unwrap_err();
            let StepError::Failed { attempts, .. } = soon else { panic!("{soon}") };
            Ok((at_once.to_string(), attempts))
        })
    });
    let run = start(&stage, "failing", "f", &()).await;
    let running = Running::start(process(&stage, "one").await.register(failing));
    let (at_once, soon) = result::<(String, u32)>(&run).await;
    assert_eq!(at_once, r#"step "at-once" failed after 1 attempts: no"#);
    assert!((1..=3).contains(&soon), "{soon} attempts, 2 ms apart, within 5 ms");
    running.stop().await;
}
