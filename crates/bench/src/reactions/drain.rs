//! Commits, and then a drain of the committed events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;
use tidelock::AppBuilder;
use tidelock::ExpectedVersion;
use tidelock::reactions::Subscription;
use tidelock::reactions::on_any;
use tidelock::store::{NewEvent, Store, StoreExt, StoredEvent, StreamName};
use tokio::sync::Notify;

use super::over;
use crate::args::ReactionsArgs;
use crate::failure::Failure;

/// Concurrent callers.
const CALLERS: usize = 32;

/// The targets of the events.
#[derive(Debug, Clone, Copy)]
pub(super) enum Route {
    /// To the target of their stream.
    Own,
    /// To a target computed from the event; as many as streams.
    Computed,
}

impl Route {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Own => "drain, own streams",
            Self::Computed => "drain, computed targets",
        }
    }

    fn source(self) -> Subscription<StoredEvent> {
        match self {
            Self::Own => on_any(),
            Self::Computed => {
                on_any().to(|event: &StoredEvent| format!("target-of-{}", event.stream))
            }
        }
    }
}

/// Events per second: committed, and drained.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drained {
    pub(super) commits: f64,
    pub(super) drained: f64,
}

impl Drained {
    pub(super) fn ratio(self) -> f64 {
        self.drained / self.commits
    }
}

pub(super) async fn measure(
    store: Arc<dyn Store>,
    args: &ReactionsArgs,
    route: Route,
) -> Result<Drained, Failure> {
    let begun = Instant::now();
    commit_all(&store, args).await?;
    let commits = args.size.events as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    drain_all(&store, args, route).await?;
    Ok(Drained { commits, drained: args.size.events as f64 / begun.elapsed().as_secs_f64() })
}

/// One event per commit, by concurrent callers.
async fn commit_all(store: &Arc<dyn Store>, args: &ReactionsArgs) -> Result<(), Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| tokio::spawn(commit_some(store.clone(), next.clone(), args.size)))
        .collect();
    for caller in callers {
        caller
            .await
            .map_err(|e| Failure::Answer(format!("a caller ended before its time: {e}")))??;
    }
    Ok(())
}

async fn commit_some(
    store: Arc<dyn Store>,
    next: Arc<AtomicUsize>,
    size: crate::args::DrainSize,
) -> Result<(), Failure> {
    loop {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= size.events {
            return Ok(());
        }
        let stream = StreamName::new(format!("stream-{}", nth % size.targets))?;
        let event = NewEvent::of("happened", &json!({ "text": "x".repeat(180) }))?;
        let outcome = store.append(&stream, ExpectedVersion::Any, vec![event]).await?;
        outcome
            .committed()
            .map_err(|conflict| Failure::Answer(format!("a commit was refused: {conflict}")))?;
    }
}

/// Runs until the last event is handled and acked: the application ends when nothing is left to
/// settle.
async fn drain_all(
    store: &Arc<dyn Store>,
    args: &ReactionsArgs,
    route: Route,
) -> Result<(), Failure> {
    let (handled, all, events) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()), args.size.events);
    let (counted, told) = (handled.clone(), all.clone());
    let app: AppBuilder =
        over(store).app().reaction("drain", route.source(), move |_: StoredEvent, _| {
            if counted.fetch_add(1, Ordering::Relaxed) + 1 == events {
                told.notify_one();
            }
            async { Ok(()) }
        });
    let app = app.build().map_err(|e| Failure::Answer(e.to_string()))?;
    app.run_until(async move { all.notified().await }).await?;
    match handled.load(Ordering::Relaxed) {
        count if count == events => Ok(()),
        count => Err(Failure::Answer(format!("{count} of {events} events were handled"))),
    }
}
