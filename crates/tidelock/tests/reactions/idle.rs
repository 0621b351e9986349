//! An idle application makes few calls, however many targets there are.
//!
//! In memory, with simulated time: calls are counted, and every store gets the same ones.

use std::time::Duration;

use tidelock::prelude::*;
use tidelock::store::{
    Commit, ItemFilter, ItemQuery, ItemRef, Mark, StoredEvent, Wake, WorkerName,
};
use tidelock::worker::WorkerOptions;
use tidelock_test_stage::{Observed, Running, Tally, TestStore, in_memory, note, until};

/// REACT-21. JOB-10.
#[test]
fn an_idle_application_makes_a_handful_of_calls_a_second_however_many_targets_and_reactions_there_are()
 {
    in_memory(|stage| async move {
        for (reactions, targets) in [(1, 10), (1, 100_000), (40, 10)] {
            let rate = idle_rate(&stage, reactions, targets).await;
            assert!(
                rate < 8.0,
                "{rate} calls a second with {reactions} reactions and {targets} targets"
            );
        }
    });
}

async fn idle_rate(stage: &TestStore, reactions: usize, targets: usize) -> f64 {
    let plain = stage.tidelock().await;
    for chunk in (0..targets).collect::<Vec<_>>().chunks(1_000) {
        let wake = |nth: &usize| {
            Wake::to_mark(
                ItemRef::parse("~reaction/idle-0", &format!("target-{nth}")).unwrap(),
                Mark::new(1).unwrap(),
            )
        };
        let commit = Commit { wakes: chunk.iter().map(wake).collect(), ..Commit::new() };
        plain.store().commit(commit).await.unwrap().committed().unwrap();
    }
    let (tally, seen) = (Tally::default(), Observed::default());
    let counting = Tidelock::over(tally.over(plain.store().clone()));
    let mut app = counting.app().worker(WorkerOptions::new(WorkerName::new("idle").unwrap()));
    for nth in 0..reactions {
        let noted = seen.clone();
        app = app.reaction(format!("idle-{nth}"), on_any(), move |_: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note("x");
                Ok(())
            }
        });
    }
    let running = Running::start(app);
    let filter = ItemFilter::queue("~reaction/idle-0").held(false);
    let quiet = async || {
        let page = plain.store().items(ItemQuery::new(filter.clone())).await.unwrap();
        page.items.iter().all(|item| item.due.is_none())
    };
    until("nothing is due", quiet).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = tally.calls();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let rate = (tally.calls() - before) as f64 / 600.0;
    // While work waits for the end of a pause, there are no more calls than before.
    for nth in 0..reactions {
        plain.reactions().pause(&format!("idle-{nth}"), "deploying").await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    note(&plain, "early", "x").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (before, handled) = (tally.calls(), seen.count());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let paused = (tally.calls() - before) as f64 / 600.0;
    assert!(paused <= rate, "{paused} calls a second while paused, {rate} before");
    assert_eq!(seen.count(), handled, "nothing was handled");
    for nth in 0..reactions {
        plain.reactions().resume(&format!("idle-{nth}")).await.unwrap();
    }
    seen.until(handled + reactions).await;
    let handled = seen.count();
    note(&plain, "fresh", "x").await;
    seen.until(handled + reactions).await;
    running.stop().await;
    rate
}
