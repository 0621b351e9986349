//! Short-lived work of every kind: typical for a service, and nothing of it should be left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidelock::HandlerError as Failed;
use tidelock::claims::IdempotencyClaim;
use tidelock::runs::{RunCtx, StepError, Workflow};
use tidelock::store::{RecordQuery, Store};
use tidelock::worker::Stopped;
use tidelock::{ScopeKind, Tidelock};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::aging_store::AgingStore;
use crate::failure::Failure;

/// Runs, keyed requests, queue items, operations and scopes.
pub(super) const KINDS: usize = 5;

/// How long results, operations and ended runs are kept.
const KEPT: Duration = Duration::from_secs(1);

/// Timeout of the removal of all runs.
const PATIENCE: Duration = Duration::from_secs(3600);

const WORKFLOW: Workflow<usize, usize> = Workflow::new("soak");

pub(super) struct Load {
    tidelock: Tidelock,
    count: usize,
    callers: usize,
    stop: CancellationToken,
    app: JoinHandle<tidelock::store::Result<Stopped>>,
}

async fn echo(ctx: RunCtx, n: usize) -> Result<usize, StepError> {
    ctx.step("echo", |_key| async move { Ok::<_, Failed>(n) }).await
}

impl Load {
    /// An application that drives the runs, and callers for the rest.
    pub(super) async fn start(
        tidelock: &Tidelock,
        count: usize,
        callers: usize,
    ) -> Result<Self, Failure> {
        let options = WORKFLOW.options().retention(KEPT);
        let app = tidelock.app().workflow(options, echo).build().map_err(wrong)?;
        let stop = CancellationToken::new();
        let app = tokio::spawn(app.run_until(stop.clone().cancelled_owned()));
        let load = Self { tidelock: tidelock.clone(), count, callers, stop, app };
        // One-time records are created before the empty store is counted.
        load.operation(usize::MAX).await?;
        Ok(load)
    }

    /// Runs one of so many slices; returns the number of operations.
    pub(super) async fn slice(&self, nth: usize, of: usize) -> Result<usize, Failure> {
        let range = (self.count * nth / of)..(self.count * (nth + 1) / of);
        let (next, end) = (Arc::new(AtomicUsize::new(range.start)), range.end);
        let mut callers: JoinSet<Result<(), Failure>> = JoinSet::new();
        for _ in 0..self.callers {
            let (caller, next) = (Caller { tidelock: self.tidelock.clone() }, next.clone());
            callers.spawn(async move {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= end {
                        return Ok(());
                    }
                    caller.one_of_each(nth).await?;
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.map_err(wrong)??;
        }
        Ok(range.len() * KINDS)
    }

    async fn operation(&self, nth: usize) -> Result<(), Failure> {
        Caller { tidelock: self.tidelock.clone() }.operation(nth).await
    }

    /// Waits until the worker has removed all runs that are past their retention.
    pub(super) async fn until_runs_are_removed(
        &self,
        aging_store: &AgingStore,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let store = aging_store.store();
        while has_runs(&*store).await? {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Answer(
                    "runs past their retention were not removed".to_owned(),
                ));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        let _stopped = self.app.await.map_err(wrong)??;
        Ok(())
    }
}

async fn has_runs(store: &dyn Store) -> Result<bool, Failure> {
    let page = store.scan(RecordQuery::prefix("~run/").limit(1)).await?;
    Ok(!page.records.is_empty() || page.next.is_some())
}

#[derive(Clone)]
struct Caller {
    tidelock: Tidelock,
}

impl Caller {
    async fn one_of_each(&self, nth: usize) -> Result<(), Failure> {
        self.run(nth).await?;
        self.keyed_request(nth).await?;
        self.queue_item(nth).await?;
        self.operation(nth).await?;
        self.scope(nth).await
    }

    async fn run(&self, nth: usize) -> Result<(), Failure> {
        let run = self.tidelock.start(WORKFLOW, format!("run-{nth}"), &nth).await.map_err(wrong)?;
        let result = run.result().await.map_err(wrong)?;
        if result == nth { Ok(()) } else { Err(wrong(format!("run {nth} came to {result}"))) }
    }

    async fn keyed_request(&self, nth: usize) -> Result<(), Failure> {
        let key = self.tidelock.claims().idempotency(format!("pay-{nth}")).ttl(KEPT);
        match key.claim::<usize>().await.map_err(wrong)? {
            IdempotencyClaim::Won(won) => won.complete(&nth).await.map(drop).map_err(wrong),
            other => Err(wrong(format!("key {nth} is not free: {other:?}"))),
        }
    }

    /// Enqueues an item, and handles one, which may be another caller's.
    async fn queue_item(&self, nth: usize) -> Result<(), Failure> {
        let queue = self.tidelock.queue("mail");
        queue.enqueue(format!("letter-{nth}")).data(&json!({ "nth": nth })).await?;
        let taken = queue.lease("soak").within(Duration::from_secs(60)).await?;
        queue.settle(taken.iter().map(|taken| taken.lease.ack()).collect()).await?;
        Ok(())
    }

    async fn operation(&self, nth: usize) -> Result<(), Failure> {
        let points = self.tidelock.scope::<Value>(ScopeKind::USER, &format!("user-{}", nth % 8));
        let operation = points.operation_id(format!("order-{nth}")).dedup_window(KEPT);
        operation.increment("points", 1).await.map(drop).map_err(wrong)
    }

    async fn scope(&self, nth: usize) -> Result<(), Failure> {
        let session = self.tidelock.scope::<Value>(ScopeKind::SESSION, &format!("session-{nth}"));
        session.patch(json!({ "page": nth })).await.map_err(wrong)?;
        session.delete().await.map(drop).map_err(wrong)
    }
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Answer(error.to_string())
}
