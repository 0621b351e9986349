//! How handling ends: ack, retry, block; and what is kept of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::reactions::OnExhausted;
use tidelock::reactions::ReactionFilter;
use tidelock::store::{LeaseRequest, QueueName, RecordKey, StoreExt, StoredEvent, WorkerName};
use tidelock_test_stage::{Observed, Running, TestStore, brisk, note, on_every_store, text, until};
use tokio::time::Instant;

use crate::stage::{target, until_blocked, until_quiet};

on_every_store!(
    a_failure_is_retried_with_the_backoff_until_it_passes,
    the_lease_is_free_while_a_retry_waits,
    a_lasting_failure_blocks_after_its_retries_and_unblocking_resumes_at_the_same_event,
    a_fatal_failure_blocks_at_once,
    with_keep_trying_nothing_is_ever_blocked_or_skipped,
    progress_before_the_failure_is_kept,
    a_panic_is_a_failure_of_its_handler_and_of_nothing_else,
    a_page_full_of_failures_is_no_hot_loop_and_others_proceed,
    a_lease_that_ran_out_is_no_failure_and_has_its_own_budget,
    a_handler_that_lost_its_lease_is_told_and_writes_nothing,
);

fn at_once() -> Backoff {
    Backoff::fixed(Duration::from_millis(1))
}

/// REACT-3.
async fn a_failure_is_retried_with_the_backoff_until_it_passes(stage: TestStore) {
    let (tidelock, tries) = (stage.tidelock().await, Arc::new(AtomicU32::new(0)));
    let wait = Duration::from_millis(100);
    note(&tidelock, "diary", "x").await;
    let (counted, begun) = (tries.clone(), Instant::now());
    let source = on_any().retry(Retry::default().backoff(Backoff::linear(wait, wait * 10)));
    let app =
        tidelock.app().worker(brisk("one")).reaction("flaky", source, move |_: StoredEvent, _| {
            let counted = counted.clone();
            async move {
                match counted.fetch_add(1, Ordering::SeqCst) {
                    0..3 => Err(HandlerError::again("not yet")),
                    _ => Ok(()),
                }
            }
        });
    let running = Running::start(app);
    until("the fourth try", async || tries.load(Ordering::SeqCst) == 4).await;
    assert!(begun.elapsed() >= wait * (1 + 2 + 3), "the waits were kept: {:?}", begun.elapsed());
    until_quiet(&tidelock, "flaky").await;
    running.stop().await;
    let target = target(&tidelock, "flaky", "diary").await.unwrap();
    assert_eq!(
        (target.failures, target.error, target.blocked),
        (0, None, false),
        "all is forgotten"
    );
}

/// REACT-3: the backoff is in the store, so other workers honor it too.
async fn the_lease_is_free_while_a_retry_waits(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "diary", "x").await;
    let app = |name: &str| {
        let seen = seen.clone();
        let source =
            on_any().retry(Retry::default().backoff(Backoff::fixed(Duration::from_secs(3_600))));
        tidelock.app().worker(brisk(name)).reaction("flaky", source, move |_: StoredEvent, _| {
            let seen = seen.clone();
            async move {
                seen.note("tried");
                Err(HandlerError::again("the printer is on fire"))
            }
        })
    };
    let (one, two) = (Running::start(app("one")), Running::start(app("two")));
    let waiting =
        async || target(&tidelock, "flaky", "diary").await.is_some_and(|t| t.failures == 1);
    until("it waits for its retry", waiting).await;
    let held = target(&tidelock, "flaky", "diary").await.unwrap();
    assert!(held.holder.is_none() && held.hold > held.due, "it is not held: {held:?}");
    assert_eq!(held.error.as_deref(), Some("the printer is on fire"));
    one.stop().await;
    two.stop().await;
    assert_eq!(seen.count(), 1);
}

/// Schedule 28. REACT-4.
async fn a_lasting_failure_blocks_after_its_retries_and_unblocking_resumes_at_the_same_event(
    stage: TestStore,
) {
    let (tidelock, seen, broken) =
        (stage.tidelock().await, Observed::default(), Arc::new(AtomicBool::new(true)));
    for nth in 1..=3 {
        note(&tidelock, "diary", &format!("event {nth}")).await;
    }
    let (noted, is_broken) = (seen.clone(), broken.clone());
    let source = on_any().retry(Retry::attempts(3).backoff(at_once()));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "strict",
        source,
        move |event: StoredEvent, _| {
            let (noted, is_broken) = (noted.clone(), is_broken.clone());
            async move {
                noted.note(text(&event));
                match text(&event) == "event 2" && is_broken.load(Ordering::SeqCst) {
                    true => Err(HandlerError::again("two is bad luck")),
                    false => Ok(()),
                }
            }
        },
    );
    let running = Running::start(app);
    let blocked = until_blocked(&tidelock, "strict", "diary").await;
    assert_eq!(blocked.error.as_deref(), Some("two is bad luck"));
    assert_eq!(
        (blocked.at.get(), blocked.lag()),
        (1, 2),
        "the first is done, the third is not begun"
    );
    assert_eq!(
        seen.lines(),
        ["event 1", "event 2", "event 2", "event 2"],
        "tried, and retried twice"
    );
    note(&tidelock, "diary", "event 4").await;

    broken.store(false, Ordering::SeqCst);
    let adjusted = tidelock
        .reactions()
        .unblock(&ReactionFilter::named("strict").target("diary"))
        .await
        .unwrap();
    assert_eq!((adjusted.matched, adjusted.changed), (1, 1));
    seen.until(7).await;
    until_quiet(&tidelock, "strict").await;
    running.stop().await;
    assert_eq!(seen.lines()[4..], ["event 2", "event 3", "event 4"]);
}

/// REACT-4.
async fn a_fatal_failure_blocks_at_once(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "diary", "x").await;
    let noted = seen.clone();
    let app = tidelock.app().worker(brisk("one")).reaction(
        "strict",
        on_any(),
        move |_: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note("tried");
                Err(HandlerError::fatal("no such address"))
            }
        },
    );
    let running = Running::start(app);
    let blocked = until_blocked(&tidelock, "strict", "diary").await;
    running.stop().await;
    assert_eq!((blocked.error.as_deref(), seen.count()), (Some("no such address"), 1));
}

/// REACT-4: without blocking, the event is neither dropped nor skipped.
async fn with_keep_trying_nothing_is_ever_blocked_or_skipped(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "diary", "x").await;
    note(&tidelock, "diary", "y").await;
    let noted = seen.clone();
    let source =
        on_any().retry(Retry::attempts(2).backoff(at_once())).on_exhausted(OnExhausted::KeepTrying);
    let app = tidelock.app().worker(brisk("one")).reaction(
        "stubborn",
        source,
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(text(&event));
                match noted.count() {
                    0..8 => Err(HandlerError::again("not yet")),
                    _ => Ok(()),
                }
            }
        },
    );
    let running = Running::start(app);
    seen.until(9).await;
    until_quiet(&tidelock, "stubborn").await;
    running.stop().await;
    assert_eq!(seen.lines()[7..], ["x", "y"]);
}

/// REACT-5.
async fn progress_before_the_failure_is_kept(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for nth in 1..=5 {
        note(&tidelock, "diary", &nth.to_string()).await;
    }
    let noted = seen.clone();
    let source = on_any().retry(Retry::never());
    let app = tidelock.app().worker(brisk("one")).reaction(
        "strict",
        source,
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(text(&event));
                if text(&event) == "4" { Err(HandlerError::again("four")) } else { Ok(()) }
            }
        },
    );
    let running = Running::start(app);
    let blocked = until_blocked(&tidelock, "strict", "diary").await;
    running.stop().await;
    assert_eq!(
        (blocked.at.get(), seen.lines()),
        (3, ["1", "2", "3", "4"].map(String::from).to_vec())
    );
}

/// REACT-9.
async fn a_panic_is_a_failure_of_its_handler_and_of_nothing_else(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "bad", "bad").await;
    note(&tidelock, "good", "good").await;
    let noted = seen.clone();
    let source = on_any().retry(Retry::attempts(2).backoff(at_once()));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "jumpy",
        source,
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                assert_ne!(text(&event), "bad", "I saw a mouse");
                noted.note(text(&event));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    let blocked = until_blocked(&tidelock, "jumpy", "bad").await;
    seen.until(1).await;
    note(&tidelock, "good", "still here").await;
    seen.until(2).await;
    running.stop().await;
    let error = blocked.error.unwrap();
    assert!(error.contains("panicked") && error.contains("I saw a mouse"), "{error}");
}

/// Schedule 98.
async fn a_page_full_of_failures_is_no_hot_loop_and_others_proceed(stage: TestStore) {
    let (tidelock, good, bad) =
        (stage.tidelock().await, Observed::default(), Arc::new(AtomicU32::new(0)));
    for nth in 0..100 {
        note(&tidelock, &format!("bad-{nth:03}"), "bad").await;
    }
    note(&tidelock, "good", "good").await;
    let (noted, counted) = (good.clone(), bad.clone());
    let source =
        on_any().retry(Retry::attempts(3).backoff(Backoff::fixed(Duration::from_millis(20))));
    let app = tidelock.app().worker(brisk("one")).max_concurrency(8);
    let app = app.reaction("mixed", source, move |event: StoredEvent, _| {
        let (noted, counted) = (noted.clone(), counted.clone());
        async move {
            if text(&event) == "bad" {
                counted.fetch_add(1, Ordering::SeqCst);
                return Err(HandlerError::again("poison"));
            }
            noted.note(text(&event));
            Ok(())
        }
    });
    let running = Running::start(app);
    good.until(1).await;
    let filter = ReactionFilter::named("mixed").blocked(true);
    let on_record = async || tidelock.reactions().list(&filter).all().await.unwrap().len() == 100;
    until("all of the poison is on record", on_record).await;
    assert_eq!(bad.load(Ordering::SeqCst), 300, "each was tried three times and never again");
    note(&tidelock, "good", "later").await;
    good.until(2).await;
    running.stop().await;
}

/// Schedule 24, without the processes. REACT-5.
async fn a_lease_that_ran_out_is_no_failure_and_has_its_own_budget(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let lease = Duration::from_millis(50);
    note(&tidelock, "diary", "x").await;
    let app = |calls: bool| {
        let seen = seen.clone();
        let source = on_any().lease(Duration::from_secs(30)).max_crashes(2);
        tidelock.app().worker(brisk("one")).reaction("deadly", source, move |_: StoredEvent, _| {
            let seen = seen.clone();
            async move {
                assert!(calls, "it was routed only");
                seen.note("handled");
                Ok(())
            }
        })
    };
    // A holder that dies: leased, never settled.
    let running = Running::start(app(true).lanes(["unserved"]));
    until("it is routed", async || target(&tidelock, "deadly", "diary").await.is_some()).await;
    running.stop().await;
    let (queue, dead) =
        (QueueName::new("~reaction/deadly").unwrap(), WorkerName::new("dead").unwrap());
    for expiries in 0..2 {
        let lease_it = async || {
            let request = LeaseRequest::new(&queue, &dead, lease, 1);
            let leases = tidelock.store().lease(request).await.unwrap().leases;
            leases.first().is_some_and(|lease| lease.expiries == expiries && lease.failures == 0)
        };
        until("the lease before ran out", lease_it).await;
    }
    let running = Running::start(app(true));
    let blocked = until_blocked(&tidelock, "deadly", "diary").await;
    running.stop().await;
    assert_eq!(
        (blocked.expiries, blocked.failures, seen.count()),
        (2, 0, 0),
        "the handler was not run again"
    );
    assert!(blocked.error.unwrap().contains("expired 2 times"));
}

/// REACT-6.
async fn a_handler_that_lost_its_lease_is_told_and_writes_nothing(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let record = RecordKey::new("written").unwrap();
    note(&tidelock, "diary", "x").await;
    let (noted, key) = (seen.clone(), record.clone());
    let source = on_any().lease(stage.lease());
    let app = tidelock.app().worker(brisk("one")).reaction(
        "slow",
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let (noted, key) = (noted.clone(), key.clone());
            async move {
                noted.note("begun");
                if noted.count() == 1 {
                    ctx.lost().cancelled().await;
                    noted.note("told");
                    ctx.put(&key, "by the one who lost")?;
                }
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    seen.until(1).await;
    // An operator's reset takes the lease away.
    let filter = ReactionFilter::named("slow");
    tidelock.reactions().reset(&filter, tidelock::reactions::ResetEffects::Keep).await.unwrap();
    let done = async || target(&tidelock, "slow", "diary").await.is_some_and(|t| t.lag() == 0);
    until("another worker did it", done).await;
    until("it was told", async || seen.lines().contains(&"told".to_owned())).await;
    running.stop().await;
    assert!(
        tidelock.store().get_one(&record).await.unwrap().live().is_none(),
        "and what it wrote is not there"
    );
}
