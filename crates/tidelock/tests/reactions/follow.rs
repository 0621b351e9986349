//! Delivery: every event, in order per target, targets concurrently.

use std::sync::Arc;

use tidelock::prelude::*;
use tidelock::store::StoredEvent;
use tidelock_test_stage::{
    Observed, Running, TestStore, append, brisk, note, on_every_store, text, until,
};
use tokio::sync::{Barrier, Semaphore};

use crate::stage::{target, until_quiet};

on_every_store!(
    every_event_is_handled_in_the_order_of_its_stream,
    targets_are_handled_side_by_side,
    a_slow_target_does_not_delay_other_acks,
    a_reaction_gets_the_types_and_streams_that_it_asks_for,
    typed_events_come_as_their_type,
    a_new_reaction_begins_at_the_beginning_or_now_and_remembers,
    an_event_committed_by_another_handle_is_handled,
    two_processes_share_the_targets_and_handle_each_event_once,
    a_handler_that_outlives_its_lease_four_times_runs_once_at_a_time,
    a_shutdown_waits_for_running_work_and_does_not_release_it,
    a_lane_is_served_by_its_workers_only,
);

/// REACT-1.
async fn every_event_is_handled_in_the_order_of_its_stream(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for nth in 1..=3 {
        note(&tidelock, "diary-ada", &format!("ada {nth}")).await;
    }
    let noted = seen.clone();
    let app = tidelock.app().worker(brisk("one")).reaction(
        "copy",
        on_any(),
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(text(&event));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    seen.until(3).await;
    for nth in 4..=6 {
        note(&tidelock, "diary-ada", &format!("ada {nth}")).await;
    }
    seen.until(6).await;
    until_quiet(&tidelock, "copy").await;
    running.stop().await;
    let expected: Vec<String> = (1..=6).map(|nth| format!("ada {nth}")).collect();
    assert_eq!(seen.lines(), expected);
    let target = target(&tidelock, "copy", "diary-ada").await.unwrap();
    assert_eq!((target.lag(), target.failures, target.blocked), (0, 0, false));
}

/// REACT-2. Without concurrency, no handler would pass the barrier.
async fn targets_are_handled_side_by_side(stage: TestStore) {
    let (tidelock, seen, together) =
        (stage.tidelock().await, Observed::default(), Arc::new(Barrier::new(5)));
    for name in ["a", "b", "c", "d", "e"] {
        note(&tidelock, name, name).await;
    }
    let noted = seen.clone();
    let app = tidelock.app().worker(brisk("one")).reaction(
        "meet",
        on_any(),
        move |event: StoredEvent, _| {
            let (noted, together) = (noted.clone(), together.clone());
            async move {
                together.wait().await;
                noted.note(text(&event));
                Ok(())
            }
        },
    );
    let _running = Running::start(app);
    seen.until(5).await;
}

/// REACT-7.
async fn a_slow_target_does_not_delay_other_acks(stage: TestStore) {
    let (tidelock, gate) = (stage.tidelock().await, Arc::new(Semaphore::new(0)));
    for name in ["slow", "quick-1", "quick-2"] {
        note(&tidelock, name, name).await;
    }
    let closed = gate.clone();
    let app = tidelock.app().worker(brisk("one")).reaction(
        "mixed",
        on_any(),
        move |event: StoredEvent, _| {
            let gate = closed.clone();
            async move {
                if text(&event) == "slow" {
                    gate.acquire().await?.forget();
                }
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    for quick in ["quick-1", "quick-2"] {
        let acked = async || target(&tidelock, "mixed", quick).await.is_some_and(|t| t.lag() == 0);
        until(&format!("{quick} is acked"), acked).await;
    }
    let slow = target(&tidelock, "mixed", "slow").await.unwrap();
    assert_eq!(slow.lag(), 1, "and the slow one still runs");
    gate.add_permits(1);
    until_quiet(&tidelock, "mixed").await;
    running.stop().await;
}

async fn a_reaction_gets_the_types_and_streams_that_it_asks_for(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for (stream, event_type) in
        [("order-1", "placed"), ("order-1", "paid"), ("cart-1", "paid"), ("order-2", "paid")]
    {
        append(&tidelock, stream, event_type, &serde_json::json!({ "text": event_type })).await;
    }
    let noted = seen.clone();
    let source = on_any().in_streams("order-").of_types(["paid"]);
    let app = tidelock.app().worker(brisk("one")).reaction(
        "paid",
        source,
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(format!("{} {}", event.stream, event.event_type));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    seen.until(2).await;
    until_quiet(&tidelock, "paid").await;
    running.stop().await;
    let mut lines = seen.lines();
    lines.sort();
    assert_eq!(lines, ["order-1 paid", "order-2 paid"]);
    assert!(target(&tidelock, "paid", "cart-1").await.is_none(), "no reaction follows it");
}

#[derive(Debug, Event)]
enum Shop {
    Sold { units: i64 },
}

async fn typed_events_come_as_their_type(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    append(&tidelock, "shop-1", "sold", &serde_json::json!({ "units": 3 })).await;
    append(&tidelock, "shop-1", "closed", &serde_json::json!({})).await;
    let noted = seen.clone();
    let app =
        tidelock.app().worker(brisk("one")).reaction("sales", on::<Shop>(), move |sale, _| {
            let noted = noted.clone();
            async move {
                let Shop::Sold { units } = sale.event;
                noted.note(format!("{} sold {units} at version {}", sale.stream, sale.version));
                Ok(())
            }
        });
    let running = Running::start(app);
    seen.until(1).await;
    until_quiet(&tidelock, "sales").await;
    running.stop().await;
    assert_eq!(seen.lines(), ["shop-1 sold 3 at version 1"]);
}

/// REACT-12.
async fn a_new_reaction_begins_at_the_beginning_or_now_and_remembers(stage: TestStore) {
    let (tidelock, old, new) = (stage.tidelock().await, Observed::default(), Observed::default());
    for nth in 1..=3 {
        note(&tidelock, "diary", &format!("before {nth}")).await;
    }
    let app = |now: bool| {
        let (old, new) = (old.clone(), new.clone());
        let start = if now { on_any().from_now() } else { on_any() };
        let app = tidelock.app().worker(brisk("one"));
        let app = app.reaction("all", on_any(), move |event: StoredEvent, _| {
            let old = old.clone();
            async move {
                old.note(text(&event));
                Ok(())
            }
        });
        app.reaction("fresh", start, move |event: StoredEvent, _| {
            let new = new.clone();
            async move {
                new.note(text(&event));
                Ok(())
            }
        })
    };
    let running = Running::start(app(true));
    old.until(3).await;
    let registered = async || tidelock.reactions().routes().await.unwrap().len() == 2;
    until("both are registered", registered).await;
    running.stop().await;
    note(&tidelock, "diary", "while stopped").await;

    // The start was decided at registration: a later option changes nothing.
    let running = Running::start(app(false));
    new.until(1).await;
    note(&tidelock, "diary", "after").await;
    new.until(2).await;
    old.until(5).await;
    until_quiet(&tidelock, "fresh").await;
    running.stop().await;
    assert_eq!(new.lines(), ["while stopped", "after"]);
    assert_eq!(old.count(), 5);
}

async fn an_event_committed_by_another_handle_is_handled(stage: TestStore) {
    let (tidelock, other, seen) =
        (stage.tidelock().await, stage.tidelock().await, Observed::default());
    let noted = seen.clone();
    let app = tidelock.app().worker(brisk("one")).reaction(
        "copy",
        on_any(),
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(text(&event));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    note(&other, "diary", "from elsewhere").await;
    seen.until(1).await;
    running.stop().await;
}

/// Schedule 29. REACT-2: while a worker holds a target, no other gets a later event of it.
async fn two_processes_share_the_targets_and_handle_each_event_once(stage: TestStore) {
    let (one, two, seen) = (stage.tidelock().await, stage.tidelock().await, Observed::default());
    let app = |tidelock: &Tidelock, name: &str| {
        let seen = seen.clone();
        let worker = brisk(name);
        tidelock.app().worker(worker).max_concurrency(4).reaction(
            "count",
            on_any(),
            move |event: StoredEvent, _| {
                let seen = seen.clone();
                async move {
                    tokio::task::yield_now().await;
                    seen.note(format!("{} {}", event.stream, event.version));
                    Ok(())
                }
            },
        )
    };
    let (first, second) = (Running::start(app(&one, "one")), Running::start(app(&two, "two")));
    for nth in 0..120 {
        note(&one, &format!("stream-{}", nth % 12), "x").await;
    }
    seen.until(120).await;
    until_quiet(&one, "count").await;
    first.stop().await;
    second.stop().await;
    for stream in 0..12 {
        let prefix = format!("stream-{stream} ");
        let mine: Vec<String> =
            seen.lines().into_iter().filter(|line| line.starts_with(&prefix)).collect();
        let expected: Vec<String> = (1..=10).map(|version| format!("{prefix}{version}")).collect();
        assert_eq!(mine, expected, "once each, and in order");
    }
}

/// Schedule 87. REACT-6: the lease is renewed, and the other worker never gets the target.
async fn a_handler_that_outlives_its_lease_four_times_runs_once_at_a_time(stage: TestStore) {
    let (one, two, seen) = (stage.tidelock().await, stage.tidelock().await, Observed::default());
    let lease = stage.lease();
    let app = |tidelock: &Tidelock, name: &str| {
        let seen = seen.clone();
        let source = on_any().lease(lease);
        tidelock.app().worker(brisk(name)).reaction(
            "slow",
            source,
            move |_: StoredEvent, ctx: ReactionCtx| {
                let seen = seen.clone();
                async move {
                    seen.note("begun");
                    tokio::time::sleep(lease * 4).await;
                    assert!(!ctx.lost().is_cancelled(), "the lease is not lost");
                    seen.note("ended");
                    Ok(())
                }
            },
        )
    };
    let (first, second) = (Running::start(app(&one, "one")), Running::start(app(&two, "two")));
    note(&one, "diary", "x").await;
    seen.until(2).await;
    until_quiet(&one, "slow").await;
    first.stop().await;
    second.stop().await;
    assert_eq!(seen.lines(), ["begun", "ended"]);
    let target = target(&one, "slow", "diary").await.unwrap();
    assert_eq!((target.expiries, target.at.get()), (0, 1));
}

/// Schedule 33. REACT-8.
async fn a_shutdown_waits_for_running_work_and_does_not_release_it(stage: TestStore) {
    let (tidelock, seen, gate) =
        (stage.tidelock().await, Observed::default(), Arc::new(Semaphore::new(0)));
    let lease = stage.lease();
    let (noted, closed) = (seen.clone(), gate.clone());
    let source = on_any().lease(lease);
    let app =
        tidelock.app().worker(brisk("one")).reaction("slow", source, move |_: StoredEvent, _| {
            let (noted, gate) = (noted.clone(), closed.clone());
            async move {
                noted.note("begun");
                gate.acquire().await?.forget();
                Ok(())
            }
        });
    note(&tidelock, "diary", "x").await;
    let running = Running::start(app);
    seen.until(1).await;
    let before = target(&tidelock, "slow", "diary").await.unwrap().holder.unwrap();
    running.tell();
    note(&tidelock, "other", "not begun any more").await;

    // It is renewed past its first deadline, so the worker is still alive.
    let renewed = async || {
        let holder = target(&tidelock, "slow", "diary").await.unwrap().holder;
        holder.is_some_and(|holder| {
            holder.since == before.since && holder.deadline > before.deadline.plus(lease)
        })
    };
    until("the lease was renewed during the shutdown", renewed).await;
    gate.add_permits(1);
    let stopped = running.stop().await;
    assert_eq!(stopped.still_running, 0);
    let target = target(&tidelock, "slow", "diary").await.unwrap();
    assert_eq!((target.lag(), target.attempts, seen.count()), (0, 0, 1), "acked, once");
}

/// REACT-10.
async fn a_lane_is_served_by_its_workers_only(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let app = |name: &'static str, lane: &str| {
        let seen = seen.clone();
        let app = tidelock.app().worker(brisk(name)).lanes([lane]);
        app.reaction("mail", on_any().lane("slow"), move |_: StoredEvent, _| {
            let seen = seen.clone();
            async move {
                seen.note(name);
                Ok(())
            }
        })
    };
    let quick = Running::start(app("quick", "default"));
    note(&tidelock, "letter", "x").await;
    let routed = async || target(&tidelock, "mail", "letter").await.is_some();
    until("it is routed", routed).await;
    let slow = Running::start(app("slow", "slow"));
    seen.until(1).await;
    until_quiet(&tidelock, "mail").await;
    quick.stop().await;
    slow.stop().await;
    assert_eq!(seen.lines(), ["slow"]);
}
