//! Handlers that take too long, or never end.

use std::future::pending;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock::doctor::{Doctor, FindingKind, Thresholds};
use tidelock::prelude::*;
use tidelock::store::{Mark, RecordKey, StoreExt, StoredEvent};
use tidelock_test_stage::{
    Observed, PATIENCE, Running, TestStore, brisk, for_real, note, on_every_store, text, until,
};

use crate::stage::{target, until_blocked, until_quiet};

on_every_store!(
    a_handler_that_never_ends_is_timed_out_as_often_as_it_may_fail_and_then_blocked,
    a_batch_that_never_ends_is_timed_out_and_the_next_try_lands,
    handlers_that_never_end_do_not_block_others,
    the_doctor_names_a_handler_that_hangs_while_it_does,
);

const SHORT: Duration = Duration::from_millis(50);

fn at_once() -> Backoff {
    Backoff::fixed(Duration::from_millis(1))
}

/// Schedules 25 and 107. REACT-24: attempts are counted when a lease is granted, failures when a
/// call times out.
async fn a_handler_that_never_ends_is_timed_out_as_often_as_it_may_fail_and_then_blocked(
    stage: TestStore,
) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let record = RecordKey::new("written").unwrap();
    note(&tidelock, "diary", "x").await;
    note(&tidelock, "diary", "y").await;
    let (noted, key) = (seen.clone(), record.clone());
    let source = on_any().timeout(SHORT).retry(Retry::attempts(3).backoff(at_once()));
    let app = tidelock.app().worker(brisk("one"));
    let running = Running::start(app.reaction(
        "stuck",
        source,
        move |event: StoredEvent, ctx: ReactionCtx| {
            let (noted, key) = (noted.clone(), key.clone());
            async move {
                noted.note(text(&event));
                ctx.put(&key, "by a call that timed out")?;
                pending().await
            }
        },
    ));
    let blocked = until_blocked(&tidelock, "stuck", "diary").await;
    running.stop().await;
    assert_eq!(blocked.error.as_deref(), Some("the handler timed out after 50ms"));
    assert_eq!((blocked.attempts, blocked.failures, blocked.expiries), (3, 2, 0));
    assert_eq!(
        seen.lines(),
        ["x", "x", "x"],
        "tried, retried twice, and nothing behind it is begun"
    );
    let slot = tidelock.store().get_one(&record).await.unwrap();
    assert!(slot.live().is_none(), "nothing that it staged is written");
}

/// Schedule 107. REACT-24.
async fn a_batch_that_never_ends_is_timed_out_and_the_next_try_lands(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for nth in 1..=3 {
        note(&tidelock, "diary", &nth.to_string()).await;
    }
    let noted = seen.clone();
    let source = on_any().timeout(SHORT).retry(Retry::default().backoff(at_once()));
    let app = tidelock.app().worker(brisk("one"));
    let running = Running::start(app.batch_reaction(
        "stuck",
        source,
        3,
        move |events: Vec<StoredEvent>, _| {
            let noted = noted.clone();
            async move {
                noted.note(format!("{} of them", events.len()));
                if noted.count() == 1 { pending().await } else { Ok(()) }
            }
        },
    ));
    seen.until(2).await;
    until_quiet(&tidelock, "stuck").await;
    running.stop().await;
    assert_eq!(target(&tidelock, "stuck", "diary").await.unwrap().at.get(), 3);
}

/// Schedule 107. REACT-24: the slot is free again.
async fn handlers_that_never_end_do_not_block_others(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for nth in 0..4 {
        note(&tidelock, &format!("bad-{nth}"), "bad").await;
    }
    note(&tidelock, "good", "good").await;
    let noted = seen.clone();
    let source = on_any().timeout(SHORT).retry(Retry::never());
    let app = tidelock.app().worker(brisk("one")).max_concurrency(2);
    let running = Running::start(app.reaction("mixed", source, move |event: StoredEvent, _| {
        let noted = noted.clone();
        async move {
            if text(&event) == "bad" {
                return pending().await;
            }
            noted.note(text(&event));
            Ok(())
        }
    }));
    seen.until(1).await;
    let filter = ReactionFilter::named("mixed").blocked(true);
    let all = async || tidelock.reactions().list(&filter).all().await.unwrap().len() == 4;
    until("all that hang are known for it", all).await;
    running.stop().await;
}

/// Schedule 107. CMD-5.
async fn the_doctor_names_a_handler_that_hangs_while_it_does(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "diary", "x").await;
    let noted = seen.clone();
    let app = tidelock.app().worker(brisk("one"));
    let running = Running::start(app.reaction(
        "stuck",
        on_any().timeout(PATIENCE),
        move |_: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note("begun");
                pending().await
            }
        },
    ));
    seen.until(1).await;
    let examine = async |hung: Duration| {
        let bounds = Thresholds { hung, ..Thresholds::default() };
        let found =
            Doctor::over(stage.store().await).within(bounds).examine().await.unwrap().findings;
        found
            .into_iter()
            .filter(|finding| finding.kind == FindingKind::Hung)
            .map(|f| f.subject.to_string())
            .collect()
    };
    let named: Vec<String> = examine(Duration::ZERO).await;
    assert_eq!(named, [r#"reaction "stuck", target "diary""#]);
    let named: Vec<String> = examine(Thresholds::default().hung).await;
    assert!(named.is_empty(), "it may take its time: {named:?}");
    drop(running);
}

/// Schedule 107. REACT-24: a handler that never yields cannot be dropped; its lease is not renewed,
/// and its expiries are counted.
async fn a_handler_that_blocks_its_thread_loses_its_lease_and_is_counted(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let (release, blocks) = mpsc::channel::<()>();
    let blocks = Arc::new(Mutex::new(blocks));
    note(&tidelock, "diary", "x").await;
    let noted = seen.clone();
    let source = on_any().timeout(SHORT).lease(stage.lease()).max_crashes(1);
    let app = tidelock.app().worker(brisk("one"));
    let running = Running::start(app.reaction("stuck", source, move |_: StoredEvent, _| {
        let (noted, blocks) = (noted.clone(), blocks.clone());
        async move {
            // Tasks that this one has woken must not be stuck behind it.
            tokio::task::yield_now().await;
            noted.note("begun");
            let _released = blocks.lock().unwrap().recv();
            Ok(())
        }
    }));
    let blocked = until_blocked(&tidelock, "stuck", "diary").await;
    assert_eq!((blocked.expiries, blocked.failures, seen.count()), (1, 0, 1));
    drop(release);
    running.stop().await;
    assert_eq!(
        target(&tidelock, "stuck", "diary").await.unwrap().at,
        Mark::ZERO,
        "it came too late"
    );
}

#[test]
fn on_sqlite_a_handler_that_blocks_its_thread_loses_its_lease_and_is_counted() {
    for_real(TestStore::sqlite(), a_handler_that_blocks_its_thread_loses_its_lease_and_is_counted);
}

#[test]
fn on_postgres_a_handler_that_blocks_its_thread_loses_its_lease_and_is_counted() {
    for_real(
        TestStore::postgres(),
        a_handler_that_blocks_its_thread_loses_its_lease_and_is_counted,
    );
}

/// CMD-5: unstaged progress of a target is acked after a minute, so a longer lease without progress
/// means a hang.
#[test]
fn calls_that_stage_nothing_are_acked_after_a_minute() {
    tidelock_test_stage::in_memory(|stage| async move {
        let (tidelock, seen) = (stage.tidelock().await, Observed::default());
        for nth in 0..4 {
            note(&tidelock, "diary", &nth.to_string()).await;
        }
        let noted = seen.clone();
        let app = tidelock.app().worker(brisk("one"));
        let running = Running::start(app.reaction("slow", on_any(), move |_: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                // Simulated time.
                tokio::time::sleep(Duration::from_secs(40)).await;
                noted.note("done");
                Ok(())
            }
        }));
        seen.until(1).await;
        seen.until(2).await;
        let acked = async || target(&tidelock, "slow", "diary").await.unwrap().at.get() == 2;
        until("two of four are acked", acked).await;
        assert_eq!(seen.count(), 2);
        drop(running);
    });
}

#[test]
fn a_retry_policy_with_a_time_limit_is_refused() {
    tidelock_test_stage::in_memory(|stage| async move {
        let limited = on_any().retry(Retry::attempts(3).within(SHORT));
        let app = stage.tidelock().await.app();
        let app = app.reaction("limited", limited, |_: StoredEvent, _| async { Ok(()) });
        assert!(app.build().unwrap_err().to_string().contains("a time limit"));

        let unlimited = on_any().retry(Retry::unlimited());
        let app = stage.tidelock().await.app();
        let app = app.reaction("unlimited", unlimited, |_: StoredEvent, _| async { Ok(()) });
        assert!(app.build().is_ok());
    });
}

#[test]
fn a_timeout_of_zero_is_refused() {
    tidelock_test_stage::in_memory(|stage| async move {
        let app = stage.tidelock().await.app();
        let app =
            app.reaction("hasty", on_any().timeout(Duration::ZERO), |_: StoredEvent, _| async {
                Ok(())
            });
        assert!(app.build().unwrap_err().to_string().contains("a timeout of zero"));
    });
}
