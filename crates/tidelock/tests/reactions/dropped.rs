//! An application whose future is dropped or aborted stops.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::store::{Mark, StoredEvent};
use tidelock::{App, AppBuilder};
use tidelock_test_stage::{
    Observed, Running, Tally, TestStore, brisk, note, on_every_store, text, until,
};
use tokio::sync::Semaphore;

use crate::stage::{target, until_quiet};

on_every_store!(
    an_application_that_is_dropped_stops,
    an_application_that_is_aborted_stops,
    an_application_that_loses_a_select_stops,
);

/// The polling interval of a future that is polled by hand.
const GLANCE: Duration = Duration::from_millis(2);

/// Notes that its handler was dropped early.
struct Unfinished(Observed, bool);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.1 {
            self.0.note("dropped");
        }
    }
}

/// An application whose handler waits for permits.
fn app(
    tidelock: &Tidelock,
    name: &str,
    stage: &TestStore,
    gate: &Arc<Semaphore>,
    seen: &Observed,
) -> AppBuilder {
    let (gate, seen) = (gate.clone(), seen.clone());
    let source = on_any().lease(stage.lease());
    let app = tidelock.app().worker(brisk(name)).route_lease(stage.lease());
    app.reaction("slow", source, move |event: StoredEvent, _| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            seen.note(format!("begun {}", text(&event)));
            let mut unfinished = Unfinished(seen.clone(), false);
            gate.acquire().await?.forget();
            unfinished.1 = true;
            seen.note(format!("done {}", text(&event)));
            Ok(())
        }
    })
}

/// Ends the application by `end` while its handler runs; its store gets no further calls, and
/// another application does the work.
async fn ended_by<F: Future<Output = ()>>(stage: TestStore, end: impl FnOnce(App, Observed) -> F) {
    let (plain, seen, tally) = (stage.tidelock().await, Observed::default(), Tally::default());
    let gate = Arc::new(Semaphore::new(0));
    note(&plain, "diary", "x").await;
    let counted = Tidelock::over(tally.over(stage.store().await));
    end(app(&counted, "one", &stage, &gate, &seen).build().unwrap(), seen.clone()).await;
    until("the handler is dropped", async || seen.lines() == ["begun x", "dropped"]).await;
    let held = target(&plain, "slow", "diary").await.unwrap();
    assert!(held.holder.is_some() && held.at == Mark::ZERO, "neither released nor acked: {held:?}");

    let calls = tally.calls();
    gate.add_permits(2);
    note(&plain, "later", "y").await;
    let two = Running::start(app(&stage.tidelock().await, "two", &stage, &gate, &seen));
    seen.until(6).await;
    until_quiet(&plain, "slow").await;
    two.stop().await;
    let mut lines = seen.lines().split_off(2);
    lines.sort();
    assert_eq!(
        lines,
        ["begun x", "begun y", "done x", "done y"],
        "each once more, and by the other"
    );
    assert_eq!(tally.calls(), calls, "the dropped one leases, renews and routes nothing");
}

/// Schedule 109. REACT-25.
async fn an_application_that_is_dropped_stops(stage: TestStore) {
    ended_by(stage, |app, seen| async move {
        let mut running = Box::pin(app.run());
        while seen.count() == 0 {
            let _pending = futures_util::poll!(&mut running);
            tokio::time::sleep(GLANCE).await;
        }
        drop(running);
    })
    .await;
}

/// Schedule 109. REACT-25.
async fn an_application_that_is_aborted_stops(stage: TestStore) {
    ended_by(stage, |app, seen| async move {
        let running = tokio::spawn(app.run_until(pending()));
        seen.until(1).await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
    })
    .await;
}

/// Schedule 109. REACT-25.
async fn an_application_that_loses_a_select_stops(stage: TestStore) {
    ended_by(stage, |app, seen| async move {
        tokio::select! {
            stopped = app.run() => panic!("{stopped:?}"),
            () = seen.until(1) => {}
        }
    })
    .await;
}
