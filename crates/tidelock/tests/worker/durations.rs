//! Durations of any length, in every call: accepted, or refused with a reason, and never a panic.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock::When;
use tidelock::claims::{IdempotencyClaim, Period};
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunStatus, WorkflowOptions};
use tidelock::store::{
    Commit, CommitId, ExpectedRevision, ItemRef, RawJson, RecordKey, RecordWrite, StoreExt,
    StreamName, Wake, limits,
};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};

on_every_store!(
    a_duration_of_any_length_is_taken_or_refused,
    a_duration_that_is_kept_is_refused_before_anything_is_written_or_holds_to_the_end,
    a_pause_of_any_length_is_waited_for,
    an_application_with_a_lease_that_no_store_grants_is_not_built,
);

/// From zero to the maximum, and on either side of a limit.
fn lengths() -> [Duration; 7] {
    let moment = Duration::from_nanos(1);
    let (lease, horizon) = (limits::LEASE_DURATION, limits::HORIZON);
    [Duration::ZERO, moment, lease, lease + moment, horizon, horizon + moment, Duration::MAX]
}

/// A call that takes a duration; its result does not matter here.
type Call = fn(Tidelock, Duration) -> BoxFuture<'static, ()>;

/// LIMIT-1. One call for each duration in the API that is not waited for.
async fn a_duration_of_any_length_is_taken_or_refused(stage: TestStore) {
    let calls: [(&str, Call); 14] = [
        ("a scope's operation", |tidelock, long| {
            async move {
                let alone = Scope::in_memory(ScopeKind::USER, "ada", 0);
                for scope in [alone, tidelock.scope::<i64>(ScopeKind::USER, "ada")] {
                    let mutation =
                        scope.operation_id(format!("{long:?}")).dedup_window(long).within(long);
                    let _refused = mutation.increment("", 1).await;
                }
            }
            .boxed()
        }),
        ("a scope's life", |tidelock, long| {
            async move {
                let scope = tidelock.scope::<i64>(ScopeKind::custom("brief").ttl(long), "ada");
                let _refused = scope.within(long).increment("", 1).await;
            }
            .boxed()
        }),
        ("a scope's watch", |tidelock, long| {
            async move {
                let scope = tidelock.scope::<i64>(ScopeKind::USER, "watched");
                let _seen = scope.watch().unwrap().every(long).next().await;
            }
            .boxed()
        }),
        ("a command's deadline", |tidelock, long| {
            async move {
                let tidelock =
                    tidelock.with_retry(Retry::attempts(3).backoff(Backoff::none()).within(long));
                let scope = tidelock.scope::<i64>(ScopeKind::USER, "commanded");
                let _counted = scope.increment("", 1).await;
                let _rows = tidelock.aggregate::<Tally>("one").execute(tallied).await;
            }
            .boxed()
        }),
        ("a claim", |tidelock, long| {
            async move {
                let claim =
                    tidelock.claims().idempotency(format!("claim-{long:?}")).lease(long).ttl(long);
                let _claimed: Result<IdempotencyClaim<u32>, _> = claim.claim().await;
            }
            .boxed()
        }),
        ("a claim that others wait for", |tidelock, long| {
            async move {
                let work = || async { Ok::<u32, String>(1) };
                let _done =
                    tidelock.claims().idempotency(format!("once-{long:?}")).once(long, work).await;
            }
            .boxed()
        }),
        ("a lock", |tidelock, long| {
            async move {
                let _held = tidelock
                    .claims()
                    .lock(format!("lock-{long:?}"))
                    .lease(long)
                    .within(long)
                    .acquire()
                    .await;
            }
            .boxed()
        }),
        ("a singleton", |tidelock, long| {
            async move {
                let single =
                    tidelock.claims().singleton(format!("one-{long:?}")).lease(long).ttl(long);
                let _held = single.claim::<u32>().await;
            }
            .boxed()
        }),
        ("a rate", |tidelock, long| {
            async move {
                let _taken =
                    tidelock.claims().rate(format!("rate-{long:?}"), 3, long).take(1).await;
            }
            .boxed()
        }),
        ("a reservation", |tidelock, long| {
            async move {
                let _reserved =
                    tidelock.claims().quota(format!("quota-{long:?}"), 3).reserve(1, long).await;
            }
            .boxed()
        }),
        ("a closing", |tidelock, long| {
            async move {
                let stream = StreamName::new(format!("books-{long:?}")).unwrap();
                tidelock_test_stage::note(&tidelock, stream.as_str(), "one").await;
                let books = tidelock.archive_stream_to(&stream, tidelock::closing::discard);
                let _closed = books.within(long).close().await;
            }
            .boxed()
        }),
        ("a queue's lease", |tidelock, long| {
            async move {
                let queue = tidelock.queue(format!("jobs-{}", long.as_nanos()));
                queue.enqueue("job").await.unwrap();
                let _taken = queue.lease("one").duration(long).within(long).await;
            }
            .boxed()
        }),
        ("a run's start and result", |tidelock, long| {
            async move {
                let id = format!("run-{}", long.as_nanos());
                let run =
                    tidelock.start("nothing", &id, &()).version(1).deadline(long).retention(long);
                if let Ok(run) = run.await {
                    run.terminate("it was never to be driven").await.unwrap();
                    let _ended = run.typed::<()>().result().within(long).await;
                }
            }
            .boxed()
        }),
        ("a wake, a write and a settlement", |tidelock, long| {
            async move {
                let key = RecordKey::new(format!("record-{}", long.as_nanos())).unwrap();
                let item = ItemRef::parse("plain", &format!("item-{}", long.as_nanos())).unwrap();
                let write =
                    RecordWrite::put(&key, ExpectedRevision::Any, RawJson::new(&1).unwrap())
                        .expiring(When::In(long));
                let commit = Commit::new().write(write).wake(Wake::at(item, When::In(long)));
                let _committed = tidelock.store().commit(commit).await;
            }
            .boxed()
        }),
    ];
    for (what, call) in calls {
        for long in lengths() {
            let called = tokio::spawn(call(stage.tidelock().await, long)).await;
            assert!(called.is_ok(), "{what}, {long:?}: {called:?}");
        }
    }
}

/// The result of a call that keeps a duration.
type Kept = Result<(), String>;

/// A call that starts with a duration and is brought to its end: the error is that of its start. A
/// failure at its end panics.
type Whole = fn(Tidelock, Duration) -> BoxFuture<'static, Kept>;

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// LIMIT-1. One call for each duration that is stored: retentions and TTLs. One that is too long is
/// refused before the work, not after it.
async fn a_duration_that_is_kept_is_refused_before_anything_is_written_or_holds_to_the_end(
    stage: TestStore,
) {
    let calls: [(&str, Whole); 19] = [
        ("a claim's ttl", |tidelock, long| {
            async move {
                let claim = tidelock.claims().idempotency("ttl").ttl(long).claim::<u32>().await;
                let IdempotencyClaim::Won(won) = claim.map_err(told)? else {
                    panic!("it is taken")
                };
                won.complete(&1).await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("the ttl of a claim that others wait for", |tidelock, long| {
            async move {
                let work = || async { Ok::<u32, String>(1) };
                let claim = tidelock.claims().idempotency("once").ttl(long);
                claim.once(Duration::ZERO, work).await.map(drop).map_err(told)
            }
            .boxed()
        }),
        ("a singleton's ttl", |tidelock, long| {
            async move {
                let single = tidelock.claims().singleton("ttl").ttl(long).claim::<u32>().await;
                let Outcome::Granted(won) = single.map_err(told)? else { panic!("it is taken") };
                won.complete(&1).await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("a singleton's period", |tidelock, long| {
            async move {
                let single = tidelock.claims().singleton("period").per(Period::Every(long));
                let Outcome::Granted(won) = single.claim::<u32>().await.map_err(told)? else {
                    panic!("it is taken")
                };
                won.complete(&1).await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("the ttl of a singleton that is taken at once", |tidelock, long| {
            async move {
                let single = tidelock.claims().singleton("taken").ttl(long);
                single.take(&1).await.map(drop).map_err(told)
            }
            .boxed()
        }),
        ("the ttl of a singleton in a commit of others", |tidelock, long| {
            async move {
                let part =
                    tidelock.claims().singleton("part").ttl(long).part(&1).await.map_err(told)?;
                tidelock
                    .store()
                    .commit(Commit::new().write(part))
                    .await
                    .unwrap()
                    .committed()
                    .unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("a rate's period", |tidelock, long| {
            async move { tidelock.claims().rate("rate", 3, long).take(1).await.map(drop).map_err(told) }
                .boxed()
        }),
        ("the ttl of a part of a compound", |tidelock, long| {
            async move {
                let claims = tidelock.claims();
                let key = claims.idempotency("compound").ttl(long);
                let quota = claims.quota("compound", 3);
                let won = claims
                    .claim_all()
                    .idempotency(&key)
                    .quota(&quota, 1)
                    .claim()
                    .await
                    .map_err(told)?;
                won.granted().unwrap().complete(&1).await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("the operation of a compound", |tidelock, long| {
            async move {
                let claims = tidelock.claims().operation_id("a").dedup_window(long);
                let quota = claims.quota("pledged", 3);
                let won = claims.claim_all().quota(&quota, 1).claim().await.map_err(told)?;
                won.granted().unwrap().complete(&1).await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("the operation of a quota", |tidelock, long| {
            async move {
                let claims = tidelock.claims().operation_id("a").dedup_window(long);
                claims.quota("taken", 3).take(1).await.map(drop).map_err(told)
            }
            .boxed()
        }),
        ("the operation of a reservation", |tidelock, long| {
            async move {
                let claims = tidelock.claims().operation_id("a").dedup_window(long);
                let reserved =
                    claims.quota("reserved", 3).reserve(1, Duration::from_secs(60)).await;
                reserved.map_err(told)?.granted().unwrap().confirm().await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("the operation of a lock", |tidelock, long| {
            async move {
                let claims = tidelock.claims().operation_id("a").dedup_window(long);
                let locked = claims.lock("door").acquire().await.map_err(told)?.granted().unwrap();
                locked.release().await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("the operation of a key", |tidelock, long| {
            async move {
                let claims = tidelock.claims().operation_id("a").dedup_window(long);
                let claim = claims.idempotency("operation").claim::<u32>().await.map_err(told)?;
                let IdempotencyClaim::Won(won) = claim else { panic!("it is taken") };
                won.complete(&1).await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("a scope's life", |tidelock, long| {
            async move {
                let scope = tidelock.scope::<i64>(ScopeKind::custom("brief").ttl(long), "ada");
                scope.increment("", 1).await.map(drop).map_err(told)
            }
            .boxed()
        }),
        ("a scope's operation", |tidelock, long| {
            async move {
                let scope = tidelock.scope::<i64>(ScopeKind::USER, "ada");
                let counted = scope.operation_id("a").dedup_window(long).increment("", 1).await;
                counted.map(drop).map_err(told)
            }
            .boxed()
        }),
        ("a decision's operation", |tidelock, long| {
            async move {
                let tally = tidelock.aggregate::<Tally>("kept");
                let decided = tally.operation_id("a").dedup_window(long).execute(tallied).await;
                decided.map(drop).map_err(told)
            }
            .boxed()
        }),
        ("a commit's id", |tidelock, long| {
            async move {
                let key = RecordKey::new("plain").unwrap();
                let write =
                    RecordWrite::put(&key, ExpectedRevision::Any, RawJson::new(&1).unwrap());
                let commit =
                    Commit::new().with_id(CommitId::fresh()).dedup_window(long).write(write);
                tidelock.store().commit(commit).await.map(drop).map_err(told)
            }
            .boxed()
        }),
        ("a run's retention", |tidelock, long| {
            async move {
                let run = tidelock.start("nothing", "kept", &()).version(1).retention(long).await;
                run.map_err(told)?.terminate("it was never to be driven").await.unwrap();
                Ok(())
            }
            .boxed()
        }),
        ("a run's deadline", |tidelock, long| {
            async move {
                let run = tidelock.start("nothing", "timed", &()).version(1).deadline(long).await;
                run.map_err(told)?.terminate("it was never to be driven").await.unwrap();
                Ok(())
            }
            .boxed()
        }),
    ];
    let tidelock = stage.tidelock().await;
    for (what, call) in calls {
        for long in [limits::HORIZON + Duration::from_nanos(1), Duration::MAX] {
            let before = written(&tidelock).await;
            let called = tokio::spawn(call(tidelock.clone(), long)).await;
            let refused = called.unwrap_or_else(|died| panic!("{what}, {long:?}: {died}"));
            let refused = refused.expect_err(&format!("{what} takes {long:?}"));
            assert!(refused.contains("the limit is 3153600000s"), "{what}, {long:?}: {refused}");
            let after = written(&tidelock).await;
            assert!(after.is_subset(&before), "{what}, {long:?}: {after:?}");
        }
        let held = tokio::spawn(call(tidelock.clone(), limits::HORIZON)).await;
        assert_eq!(held.unwrap(), Ok(()), "{what}, at the limit");
    }
}

/// The keys of all records.
async fn written(tidelock: &Tidelock) -> BTreeSet<RecordKey> {
    let (mut rows, mut keys) =
        (tidelock.store().rows(tidelock::store::RecordQuery::prefix("")), BTreeSet::new());
    while let Some(record) = rows.next().await.unwrap() {
        keys.insert(record.key);
    }
    keys
}

/// A counter.
#[derive(Debug, Default, Clone)]
struct Tally;

#[derive(Debug, Event)]
enum TallyEvent {
    Counted,
}

impl Aggregate for Tally {
    const KIND: &'static str = "tally";
    type Event = TallyEvent;

    fn apply(&mut self, _: &TallyEvent) {}
}

fn tallied(_: &Tally) -> Result<TallyEvent, String> {
    Ok(TallyEvent::Counted)
}

/// REACT-3, RUN-6, RUN-9. After the first failure, the target and the run wait; neither is blocked
/// or parked for it.
async fn a_pause_of_any_length_is_waited_for(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let long = [limits::HORIZON, limits::HORIZON + Duration::from_nanos(1), Duration::MAX];
    for (nth, long) in long.into_iter().enumerate() {
        let (stream, reaction) = (format!("stream-{nth}"), format!("fails-{nth}"));
        let source =
            on_any().in_streams(&stream).retry(Retry::default().backoff(Backoff::fixed(long)));
        let tries = move |ctx: RunCtx, (): ()| async move {
            let fail = |_: StepKey| async { Err::<(), _>(HandlerError::again("not yet")) };
            ctx.step("try", fail)
                .timeout(long)
                .retry(Retry::attempts(3).backoff(Backoff::fixed(long)))
                .await
        };
        let sleeps = move |ctx: RunCtx, (): ()| async move {
            let sleep = ctx.sleep("sleep", long);
            let wait = ctx.wait_for_signal::<u32>("never").within(long).into_future();
            let (slept, waited) = futures_util::future::join(sleep, wait).await;
            slept.and(waited).map(drop)
        };
        let app = tidelock.app().worker(brisk("one"));
        let app = app.workflow("tries", tries).workflow("sleeps", sleeps);
        let failing = |_: tidelock::store::StoredEvent, _: ReactionCtx| async {
            Err(HandlerError::again("not yet"))
        };
        let running = Running::start(app.reaction(&reaction, source, failing));
        tidelock_test_stage::note(&tidelock, &stream, "one").await;
        let runs = [("tries", format!("t-{nth}")), ("sleeps", format!("s-{nth}"))];
        for (workflow, run) in &runs {
            tidelock.start(*workflow, run, &()).await.unwrap();
        }
        until("the target waits", async || {
            let target = tidelock.reactions().target(&reaction, &stream).await.unwrap();
            target.is_some_and(|target| {
                target.failures == 1 && !target.blocked && target.hold.is_some()
            })
        })
        .await;
        for (_, run) in &runs {
            until("the run waits", async || {
                let standing = tidelock.runs().run(run).status().await.unwrap();
                matches!(standing, RunStatus::Waiting { .. })
            })
            .await;
        }
        running.stop().await;
    }
}

/// LIMIT-1. A lease that can never be granted is refused when the application is built, with the
/// limit.
async fn an_application_with_a_lease_that_no_store_grants_is_not_built(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let handler = |_: tidelock::store::StoredEvent, _: ReactionCtx| async { Ok(()) };
    let batch = |_: Vec<tidelock::store::StoredEvent>, _: ReactionCtx| async { Ok(()) };
    let flow = |change: &dyn Fn(WorkflowOptions<(), ()>) -> WorkflowOptions<(), ()>| {
        let nothing = async |_: RunCtx, (): ()| Ok::<(), StepError>(());
        tidelock.app().workflow(change(WorkflowOptions::named("w")), nothing)
    };
    for lease in
        [Duration::ZERO, Duration::from_nanos(1), limits::LEASE_DURATION * 2, Duration::MAX]
    {
        let refused = [
            (
                tidelock.app().reaction("r", on_any().lease(lease), handler),
                "reaction \"r\": a lease of ",
            ),
            (flow(&|options| options.lease(lease)), "workflow \"w\": a lease of "),
            (tidelock.app().route_lease(lease), "the lease on routes: a lease of "),
        ];
        for (app, problem) in refused {
            let refused = app.build().unwrap_err().to_string();
            assert!(refused.starts_with(problem), "{refused}");
            assert!(
                lease <= limits::LEASE_DURATION || refused.contains("the limit is 604800s"),
                "{refused}"
            );
        }
    }
    for retention in [limits::HORIZON + Duration::from_nanos(1), Duration::MAX] {
        let refused =
            flow(&|options| options.retention(retention)).build().unwrap_err().to_string();
        assert!(refused.starts_with("workflow \"w\": a retention of "), "{refused}");
        assert!(refused.ends_with("the limit is 3153600000s"), "{refused}");
    }
    let none = [
        (
            flow(&|options| options.stalled_after(Duration::ZERO)),
            "workflow \"w\": stalled after 0ns",
        ),
        (
            tidelock.app().reaction("r", on_any().max_concurrency(0), handler),
            "reaction \"r\": at most 0 targets",
        ),
        (
            tidelock.app().batch_reaction("r", on_any(), 0, batch),
            "reaction \"r\": batches of 0 events",
        ),
        (flow(&|options| options.max_concurrency(0)), "workflow \"w\": at most 0 runs"),
        (tidelock.app().max_concurrency(0), "the worker: a concurrency of 0"),
        (tidelock.app().lanes([""]), "lane "),
    ];
    for (app, problem) in none {
        let refused = app.build().unwrap_err().to_string();
        assert!(refused.starts_with(problem), "{refused}");
    }
    let longest = on_any().lease(limits::LEASE_DURATION);
    let app = flow(&|options| options.lease(Duration::from_micros(1)));
    app.reaction("r", longest, handler).build().expect("the limits themselves can be had");
}
