//! Processes that die, hang or lose their lease in the middle of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use tidelock::prelude::*;
use tidelock::runs::{OnUnknownOutcome, RunStatus, Verdict};
use tidelock::store::{
    Bounds, Commit, ItemFilter, ItemQuery, ItemRef, Mark, NewEvent, RawJson, RecordKey,
    RecordWrite, StoreExt, StoreOperation, StreamName, Wake, WorkerName,
};
use tidelock::worker::WorkerOptions;
use tidelock_test_stage::{
    DyingStore, Interceptor, Observed, Running, TestStore, Wrapped, brisk, in_memory,
    on_every_store, until,
};
use tokio::sync::Semaphore;

use crate::disconnect::mortal;
use crate::flow::{Flow, Register};
use crate::helpers::{count, history, millis, process, result, see, start, with};

on_every_store!(
    steps_that_were_recorded_before_a_crash_do_not_run_again,
    a_holder_that_lost_its_lease_writes_nothing_and_adopts_the_record,
    a_step_with_an_unknown_outcome_follows_its_policy,
    an_operator_resolves_a_step_with_an_unknown_outcome,
    a_run_that_kills_its_processes_is_blocked_until_it_is_resumed,
    a_wake_between_load_and_suspend_is_not_lost,
    a_shutdown_gives_the_run_back_between_two_steps,
    a_run_is_driven_once_at_a_time_in_one_process,
);

/// Short leases, so that takeovers are fast in real time.
fn brief<I: 'static, O: 'static>(flow: Flow<I, O>) -> Flow<I, O> {
    flow.options(|options| options.lease(millis(300)))
}

/// Schedule 88. RUN-2. Three steps, then the process dies while it is in the fourth.
async fn steps_that_were_recorded_before_a_crash_do_not_run_again(stage: TestStore) {
    let seen = Observed::default();
    let four = brief(with("four", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            for name in ["a", "b", "c"] {
                ctx.step(name, |key| see(&seen, key)).await?;
            }
            let last = ctx.step("d", |key| {
                let nth = seen.lines().iter().filter(|line| *line == "four:d").count();
                seen.note(key.to_string());
                async move {
                    match nth {
                        0 => std::future::pending().await,
                        _ => Ok::<_, HandlerError>("done".to_owned()),
                    }
                }
            });
            last.await
        })
    }));
    let run = start(&stage, "four", "four", &()).await;
    let (tidelock, store) = mortal(&stage).await;
    let first = Running::start(tidelock.app().worker(brisk("one")).register(four.clone()));
    seen.until(4).await;
    store.cut();
    let second = Running::start(process(&stage, "two").await.register(four));
    assert_eq!(result::<String>(&run).await, "done");
    assert_eq!(seen.lines(), ["four:a", "four:b", "four:c", "four:d", "four:d"]);
    assert_eq!(count(&stage, "four", "taken-over").await, 1);
    first.abandon();
    second.stop().await;
}

/// Schedules 36 and 37. RUN-13. The first holder is cut off, replaced, and returns with its own
/// result: refused.
async fn a_holder_that_lost_its_lease_writes_nothing_and_adopts_the_record(stage: TestStore) {
    let state = (Observed::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let slow = brief(with("slow", &state, |ctx, (): (), (seen, go)| {
        Box::pin(async move {
            let drawn = ctx.step("draw", |_| {
                let (seen, go) = (seen.clone(), go.clone());
                async move {
                    let mine = seen.count();
                    seen.note(format!("drew {mine}"));
                    if mine == 0 {
                        go.acquire().await.map_err(HandlerError::fatal)?.forget();
                    }
                    Ok::<_, HandlerError>(mine)
                }
            });
            let drawn = drawn.await?;
            ctx.step("use", |_| {
                seen.note(format!("used {drawn}"));
                async { Ok::<_, HandlerError>(()) }
            })
            .await?;
            Ok(drawn)
        })
    }));
    let run = start(&stage, "slow", "s", &()).await;
    let (tidelock, store) = mortal(&stage).await;
    let first = Running::start(tidelock.app().worker(brisk("one")).register(slow.clone()));
    state.0.until(1).await;
    store.cut();
    let second = Running::start(process(&stage, "two").await.register(slow));
    assert_eq!(result::<usize>(&run).await, 1);
    store.reconnect();
    state.1.add_permits(1);
    first.stop().await;
    assert_eq!(state.0.lines(), ["drew 0", "drew 1", "used 1"]);
    assert_eq!(count(&stage, "s", "step").await, 2);
    assert_eq!(history(&stage, "s").await.last().unwrap(), "completed");
    second.stop().await;
}

/// RUN-14. The effect was started once, and is repeated only if the policy allows it.
async fn a_step_with_an_unknown_outcome_follows_its_policy(stage: TestStore) {
    let seen = Observed::default();
    let once = brief(with("once", &seen, |ctx, policy: String, seen| {
        Box::pin(async move {
            let policy = match policy.as_str() {
                "fail" => OnUnknownOutcome::Fail,
                "skip" => OnUnknownOutcome::Skip(0),
                _ => OnUnknownOutcome::Rerun,
            };
            let step = ctx.step("pay", |key| {
                let line = key.to_string();
                let nth = seen.lines().iter().filter(|seen| **seen == line).count();
                seen.note(line);
                async move {
                    match nth {
                        0 => std::future::pending().await,
                        nth => Ok::<_, HandlerError>(nth),
                    }
                }
            });
            match step.at_most_once(policy).await {
                Ok(nth) => Ok(nth.to_string()),
                Err(error) => Ok(error.to_string()),
            }
        })
    }));
    let mut runs = Vec::new();
    for policy in ["fail", "skip", "rerun"] {
        runs.push(start(&stage, "once", policy, policy).await);
    }
    let (tidelock, store) = mortal(&stage).await;
    let first = Running::start(tidelock.app().worker(brisk("one")).register(once.clone()));
    seen.until(3).await;
    store.cut();
    let second = Running::start(process(&stage, "two").await.register(once));
    let failed = result::<String>(&runs[0]).await;
    assert!(
        failed.starts_with(
            r#"step "pay" has an unknown outcome: it was started by a process that died"#
        ),
        "{failed}"
    );
    assert_eq!(
        (result::<String>(&runs[1]).await, result::<String>(&runs[2]).await),
        ("0".into(), "1".into())
    );
    let mut lines = seen.lines();
    lines.sort();
    assert_eq!(lines, ["fail:pay", "rerun:pay", "rerun:pay", "skip:pay"]);
    first.abandon();
    second.stop().await;
}

/// RUN-14. The run waits for a verdict.
async fn an_operator_resolves_a_step_with_an_unknown_outcome(stage: TestStore) {
    let seen = Observed::default();
    let ask = brief(with("ask", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let step = ctx.step("pay", |key| {
                seen.note(key.to_string());
                std::future::pending::<Result<u32, HandlerError>>()
            });
            step.at_most_once(OnUnknownOutcome::Ask).await
        })
    }));
    let run = start(&stage, "ask", "a", &()).await;
    let (tidelock, store) = mortal(&stage).await;
    let first = Running::start(tidelock.app().worker(brisk("one")).register(ask.clone()));
    seen.until(1).await;
    store.cut();
    let second = Running::start(process(&stage, "two").await.register(ask));
    let asks = async || history(&stage, "a").await.contains(&"unknown-outcome".into());
    until("its outcome is known to be unknown", asks).await;
    run.resolve("pay", Verdict::Done(RawJson::new(&7).unwrap())).await.unwrap();
    assert_eq!(result::<u32>(&run).await, 7);
    assert_eq!(seen.count(), 1);
    first.abandon();
    second.stop().await;
}

/// RUN-15. Each process hangs in the same step; there is no third attempt until an operator resumes
/// it.
async fn a_run_that_kills_its_processes_is_blocked_until_it_is_resumed(stage: TestStore) {
    let seen = Observed::default();
    let poison = brief(with("poison", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let nth = seen.count();
            ctx.step("kill", |key| {
                seen.note(key.to_string());
                async move {
                    match nth {
                        0..2 => std::future::pending().await,
                        _ => Ok::<_, HandlerError>(nth),
                    }
                }
            })
            .await
        })
    }))
    .options(|options| options.max_crashes(1));
    let run = start(&stage, "poison", "p", &()).await;
    let mut dead = Vec::new();
    for nth in 0..2 {
        let (tidelock, store) = mortal(&stage).await;
        let name = format!("victim-{nth}");
        let app = tidelock.app().worker(brisk(&name)).register(poison.clone());
        dead.push(Running::start(app));
        seen.until(nth + 1).await;
        store.cut();
    }
    let last = Running::start(process(&stage, "last").await.register(poison));
    let blocked =
        async || matches!(run.status().await.unwrap(), RunStatus::Parked { again_at: None, .. });
    until("it is blocked", blocked).await;
    let RunStatus::Parked { error, .. } = run.status().await.unwrap() else {
        panic!("it is blocked")
    };
    assert!(error.contains("1 processes in a row died or hung over this run"), "{error}");
    run.resume().await.unwrap();
    assert_eq!(result::<usize>(&run).await, 2);
    dead.into_iter().for_each(Running::abandon);
    last.stop().await;
}

/// Schedule 39. RUN-8. The signal comes after the run was loaded and before it is suspended.
async fn a_wake_between_load_and_suspend_is_not_lost(stage: TestStore) {
    let state = (Observed::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let waits = with("waits", &state, |ctx, (): (), (seen, go)| {
        Box::pin(async move {
            ctx.step("hold", |_| {
                let (seen, go) = (seen.clone(), go.clone());
                async move {
                    seen.note("held");
                    go.acquire().await.map_err(HandlerError::fatal)?.forget();
                    Ok::<_, HandlerError>(())
                }
            })
            .await?;
            ctx.wait_for_signal::<u32>("go").await
        })
    });
    let run = start(&stage, "waits", "w", &()).await;
    let running = Running::start(process(&stage, "one").await.register(waits));
    state.0.until(1).await;
    run.signal("go", &7).await.unwrap();
    state.1.add_permits(1);
    assert_eq!(result::<u32>(&run).await, 7);
    running.stop().await;
}

/// Holds the nth call until it is released.
#[derive(Debug)]
struct Pause {
    before: AtomicI64,
    reached: Semaphore,
    go: Semaphore,
}

impl Interceptor for Pause {
    async fn call<T: Send>(
        &self,
        _: StoreOperation,
        call: impl Future<Output = tidelock::store::Result<T>> + Send,
    ) -> tidelock::store::Result<T> {
        if self.before.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.reached.add_permits(1);
            self.go.acquire().await.unwrap().forget();
        }
        call.await
    }
}

/// Schedule 39. RUN-8. The signal comes before each call of an activation, from its lease to its
/// suspension.
#[test]
fn a_signal_before_any_call_of_a_turn_wakes_the_run() {
    for calls in 0..30 {
        in_memory(async |stage| signalled_before(&stage, calls).await);
    }
}

async fn signalled_before(stage: &TestStore, calls: i64) {
    let waits = with("waits", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            ctx.step("first", |_| async { Ok::<_, HandlerError>(()) }).await?;
            ctx.wait_for_signal::<u32>("go").await
        })
    });
    let run = start(stage, "waits", "w", &()).await;
    let pause =
        Pause { before: AtomicI64::new(calls), reached: Semaphore::new(0), go: Semaphore::new(0) };
    let store = Wrapped::new(stage.store().await, pause);
    // Polls rarely: only a wake tells it in time.
    let worker = WorkerOptions::new(WorkerName::new("one").unwrap());
    let running =
        Running::start(Tidelock::over(store.clone()).app().worker(worker).register(waits));
    store.reached.acquire().await.unwrap().forget();
    run.signal("go", &7).await.unwrap();
    store.go.add_permits(1);
    let came = run.typed::<u32>().result().within(std::time::Duration::from_secs(30)).await;
    assert_eq!(came.unwrap(), 7, "signalled before call {calls}");
    running.stop().await;
}

/// The current and maximum number of activations of a run.
#[derive(Debug, Clone, Default)]
struct Active(Arc<(AtomicU32, AtomicU32)>);

impl Active {
    fn begin(&self) -> Self {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        self.clone()
    }

    fn end(self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// RUN-50. Two applications of one process and one handle, and callers that signal and resume while
/// a step runs.
async fn a_run_is_driven_once_at_a_time_in_one_process(stage: TestStore) {
    const SIGNALS: usize = 20;
    let state = (Active::default(), Observed::default());
    let busy = with("busy", &state, |ctx, (): (), (active, seen)| {
        Box::pin(async move {
            for nth in 0..SIGNALS {
                let _came: usize = ctx.wait_for_signal("go").named(format!("go-{nth}")).await?;
                ctx.step(format!("step-{nth}"), |key| {
                    let (active, seen) = (active.clone(), seen.clone());
                    async move {
                        let active = active.begin();
                        // Gives any other driver a chance.
                        for _ in 0..50 {
                            tokio::task::yield_now().await;
                        }
                        seen.note(key.to_string());
                        active.end();
                        Ok::<_, HandlerError>(())
                    }
                })
                .await?;
            }
            Ok(())
        })
    });
    let tidelock = stage.tidelock().await;
    let app =
        |name: &str| Running::start(tidelock.app().worker(brisk(name)).register(busy.clone()));
    let running = [app("one"), app("two")];
    let run = start(&stage, "busy", "b", &()).await;
    let mut callers = tokio::task::JoinSet::new();
    for nth in 0..SIGNALS {
        let run = tidelock.runs().run("b");
        callers.spawn(async move {
            run.signal("go", &nth).await.unwrap();
            let _stands = run.resume().await;
        });
    }
    callers.join_all().await;
    result::<()>(&run).await;
    assert_eq!(state.0.0.1.load(Ordering::SeqCst), 1, "activations at once");
    let mut steps = state.1.lines();
    steps.sort();
    steps.dedup();
    assert_eq!((steps.len(), state.1.count()), (SIGNALS, SIGNALS), "each step once");
    for running in running {
        running.stop().await;
    }
}

/// Fails every renewal.
#[derive(Debug)]
struct Unrenewed;

impl Interceptor for Unrenewed {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = tidelock::store::Result<T>> + Send,
    ) -> tidelock::store::Result<T> {
        match operation {
            StoreOperation::Renew => Err(tidelock::store::StoreError::new(
                tidelock::store::StoreErrorKind::Unavailable,
                tidelock::store::RetryAdvice::Later,
                operation,
                "the line is dead",
            )),
            _ => call.await,
        }
    }
}

/// A step that runs, until it ends or is dropped.
struct InStep(Active);

impl Drop for InStep {
    fn drop(&mut self) {
        self.0.clone().end();
    }
}

/// RUN-50. The lease expires while a step still runs, and another worker of the process takes the
/// run over: it begins once the step has ended or was dropped.
#[test]
fn a_run_that_is_taken_over_in_one_process_waits_for_its_former_driver() {
    in_memory(async |stage: TestStore| {
        let state = (Active::default(), Observed::default());
        let slow = brief(with("slow", &state, |ctx, (): (), (active, seen)| {
            Box::pin(async move {
                let step = ctx.step("step", |key| {
                    let (active, seen) = (active.clone(), seen.clone());
                    async move {
                        let _in_step = InStep(active.begin());
                        seen.note(key.to_string());
                        if seen.count() == 1 {
                            tokio::time::sleep(millis(900)).await;
                        }
                        Ok::<_, HandlerError>(())
                    }
                });
                step.await
            })
        }));
        let run = start(&stage, "slow", "s", &()).await;
        let tidelock = Tidelock::over(Wrapped::new(stage.store().await, Unrenewed));
        let running = ["one", "two"]
            .map(|name| Running::start(tidelock.app().worker(brisk(name)).register(slow.clone())));
        result::<()>(&run).await;
        assert!(state.1.count() > 1, "it was taken over");
        assert_eq!(state.0.0.1.load(Ordering::SeqCst), 1, "activations at once");
        running.into_iter().for_each(Running::abandon);
    });
}

/// RUN-16. The running step ends and is recorded; the next one is left to another worker.
async fn a_shutdown_gives_the_run_back_between_two_steps(stage: TestStore) {
    let state = (Observed::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let two = with("two", &state, |ctx, (): (), (seen, go)| {
        Box::pin(async move {
            ctx.step("first", |key| {
                let (seen, go) = (seen.clone(), go.clone());
                async move {
                    seen.note(key.to_string());
                    go.acquire().await.map_err(HandlerError::fatal)?.forget();
                    Ok::<_, HandlerError>(())
                }
            })
            .await?;
            ctx.step("second", |key| see(&seen, key)).await
        })
    });
    let run = start(&stage, "two", "t", &()).await;
    let first = Running::start(process(&stage, "one").await.register(two.clone()));
    state.0.until(1).await;
    first.tell();
    state.1.add_permits(1);
    assert_eq!(first.stop().await.still_running, 0);
    assert_eq!(state.0.lines(), ["t:first"]);
    assert_eq!(history(&stage, "t").await, ["started", "step"]);
    let second = Running::start(process(&stage, "two").await.register(two));
    assert_eq!(result::<String>(&run).await, "second");
    assert_eq!(state.0.lines(), ["t:first", "t:second"]);
    second.stop().await;
}

/// What a crash leaves behind.
#[derive(Clone, Default)]
struct Ledger {
    seen: Observed,
    paid: Arc<AtomicU32>,
}

/// RUN-2, RUN-14, RUN-17. Dies at every call of the store, before it and after it: the run
/// completes, staged writes land once, at-most-once steps are not repeated, and others keep their
/// key.
#[test]
fn a_run_survives_a_death_at_every_call() {
    let mut survived = 0;
    for last_words in [false, true] {
        for calls in 0.. {
            let mut died = false;
            in_memory(async |stage| died = die_after(&stage, calls, last_words).await);
            if !died {
                break;
            }
            survived += 1;
        }
    }
    assert!(survived > 30, "it died only {survived} times");
}

/// How often each part of the transactional step landed: its record, two records in the store, an
/// event and a wake.
async fn staged(stage: &TestStore) -> [i64; 5] {
    let store = stage.store().await;
    let number = async |key: &str| {
        let slot = store.get_one(&RecordKey::new(key).unwrap()).await.unwrap();
        slot.into_live().map_or(0, |record| record.value.to::<i64>().unwrap())
    };
    let events = async |stream: &str, of: &str| {
        let events = store.read_whole_stream(&StreamName::new(stream).unwrap()).await.unwrap();
        events.iter().filter(|event| event.payload.as_str().contains(of)).count() as i64
    };
    let woken = store.items(ItemQuery::new(ItemFilter::queue("parcels"))).await.unwrap().items;
    let marks = woken.iter().map(|item| item.mark.get() as i64).sum();
    let step = events("~run/f", r#""name":"sell""#).await;
    [step, number("sold").await, number("decided").await, events("sales", "").await, marks]
}

async fn die_after(stage: &TestStore, calls: i64, last_words: bool) -> bool {
    let ledger = Ledger::default();
    let five = with("five", &ledger, |ctx, (): (), ledger| {
        Box::pin(async move {
            ctx.step("mail", |key| see(&ledger.seen, key)).await?;
            ctx.transact("sell", async |tx: Tx| {
                tx.add("sold", 1, ..)?;
                let event = NewEvent::of("sold", &())?;
                tx.append_to("sales", ExpectedVersion::Any, [event])?;
                tx.wake(Wake::to_mark(ItemRef::parse("parcels", "p")?, Mark::new(1)?))?;
                let decided = || async {
                    let decided = RecordWrite::add(&RecordKey::new("decided")?, 1, Bounds::NONE);
                    Ok(Commit::new().write(decided))
                };
                tx.propose(decided).await
            })
            .await?;
            ctx.sleep("rest", millis(1_200)).await?;
            let pay = ctx.step("pay", |_| {
                ledger.paid.fetch_add(1, Ordering::SeqCst);
                async { Ok::<_, HandlerError>(true) }
            });
            let paid = pay.at_most_once(OnUnknownOutcome::Skip(false)).await?;
            let came: u32 = ctx.wait_for_signal("go").await?;
            ctx.step("ship", |key| see(&ledger.seen, key)).await?;
            Ok((paid, came))
        })
    });
    let run = start(stage, "five", "f", &()).await;
    let store = DyingStore::over(stage.store().await, calls, last_words);
    let mortal = Tidelock::over(store.clone());
    // Polls rarely: a process that only polls has no call to die at.
    let unhurried = WorkerOptions::new(WorkerName::new("mortal").unwrap());
    let app = mortal.app().worker(unhurried).register(five.clone()).build().unwrap();
    let first = tokio::spawn(app.run());
    run.signal("go", &7).await.unwrap();
    let ended = async || run.get().await.unwrap().state.is_ended();
    until("it is dead, or the run has ended", async || store.is_dead() || ended().await).await;
    let died = store.is_dead() && !ended().await;
    first.abort();
    assert!([[0; 5], [1; 5]].contains(&staged(stage).await), "all of a step, or nothing");
    let second = Running::start(process(stage, "heir").await.register(five));
    let (_, came) = result::<(bool, Option<u32>)>(&run).await;
    assert_eq!(came, Some(7));
    assert_eq!(staged(stage).await, [1; 5]);
    assert!(ledger.paid.load(Ordering::SeqCst) <= 1);
    assert!(ledger.seen.lines().iter().all(|line| line == "f:mail" || line == "f:ship"));
    let entries = history(stage, "f").await;
    assert_eq!(entries.iter().filter(|entry| *entry == "step").count(), 4, "{entries:?}");
    assert_eq!(entries.last().unwrap(), "completed");
    second.stop().await;
    died
}
