//! The time from a commit's answer to the handler of its event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidelock::ExpectedVersion;
use tidelock::reactions::on_any;
use tidelock::store::{NewEvent, Store, StoreExt, StoredEvent, StreamName};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::over;
use crate::args::ReactionsArgs;
use crate::failure::Failure;
use crate::target::Target;

/// The handle that commits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Via {
    /// The process that reacts, through the same handle.
    OneProcess,
    /// Another handle with its own connections, as in another process.
    AnotherHandle,
}

impl Via {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneProcess => "latency, one process",
            Self::AnotherHandle => "latency, another handle",
        }
    }
}

/// Times, sorted.
#[derive(Debug)]
pub(super) struct Latency(Vec<Duration>);

impl Latency {
    /// The quantile at this share.
    pub(super) fn at(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }
}

pub(super) async fn measure(
    store: Arc<dyn Store>,
    target: &Target,
    args: &ReactionsArgs,
    via: Via,
) -> Result<Latency, Failure> {
    let committer = match (via, target) {
        // A second handle in memory would be another store.
        (Via::OneProcess, _) | (_, Target::Memory) => store.clone(),
        (Via::AnotherHandle, _) => target.open().await?,
    };
    let (handled, mut times) = mpsc::unbounded_channel();
    let app = over(&store).app().reaction("latency", on_any(), move |_: StoredEvent, _| {
        let _no_receiver = handled.send(Instant::now());
        async { Ok(()) }
    });
    let app = app.build().map_err(|e| Failure::Answer(e.to_string()))?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(app.run_until(stop.clone().cancelled_owned()));
    let mut taken = Vec::new();
    for nth in 0..args.size.events.min(500) {
        let stream = StreamName::new(format!("stream-{}", nth % args.size.targets))?;
        let event = NewEvent::of("happened", &json!({}))?;
        let outcome = committer.append(&stream, ExpectedVersion::Any, vec![event]).await?;
        let committed = Instant::now();
        outcome
            .committed()
            .map_err(|conflict| Failure::Answer(format!("a commit was refused: {conflict}")))?;
        let handled =
            times.recv().await.ok_or_else(|| Failure::Answer("the reaction ended".to_owned()))?;
        taken.push(handled.saturating_duration_since(committed));
    }
    stop.cancel();
    running.await.map_err(|e| Failure::Answer(e.to_string()))??;
    taken.sort();
    Ok(Latency(taken))
}
