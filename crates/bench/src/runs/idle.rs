//! The cost of an idle worker: with no runs, and with many that sleep for a month.
//!
//! One run is driven until it sleeps. The others are copies made in bulk: their records and their
//! items, without their histories, which are not read before they are due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::Tidelock;
use tidelock::runs::{RunCtx, StepError, Workflow};
use tidelock::store::{Commit, Store, limits};

use super::calls::Calls;
use super::counting_store::CountingStore;
use super::cpu;
use super::driven::{Driven, wrong};
use super::shape::Shape;
use crate::args::RunsArgs;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::progress::Progress;
use crate::target::Target;

const WORKFLOW: Workflow<(), ()> = Workflow::new("sleeper");
const NAP: Duration = Duration::from_secs(30 * 24 * 3600);

/// The time for a worker to start up.
const SETTLED_IN: Duration = Duration::from_secs(2);

/// The figures.
pub(super) struct Idle {
    pub(super) runs: usize,
    time: Duration,
    calls: Calls,
    /// CPU time of the worker's process, without that of a separate server.
    cpu: Option<Duration>,
}

impl Idle {
    #[allow(clippy::cast_precision_loss)] // a handful
    pub(super) fn calls_per_s(&self) -> f64 {
        self.calls.total() as f64 / self.time.as_secs_f64()
    }

    pub(super) fn cpu_percent(&self) -> Option<f64> {
        Some(100.0 * self.cpu?.as_secs_f64() / self.time.as_secs_f64())
    }
}

/// Measures without runs, and with all of them.
pub(super) async fn measure(
    target: &Target,
    args: &RunsArgs,
    progress: &Progress,
) -> Result<[Idle; 2], Failure> {
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let none = watch(&fixture.store, args.seconds, 0).await?;
    let shape = sample(&fixture.store).await?;
    fill(&*fixture.store, &shape, args.sleeping, progress).await?;
    let all = watch(&fixture.store, args.seconds, args.sleeping).await?;
    fixture.clear().await?;
    Ok([none, all])
}

async fn sleeper(ctx: RunCtx, (): ()) -> Result<(), StepError> {
    ctx.sleep("nap", NAP).await
}

/// Measures a worker for this long.
async fn watch(store: &Arc<dyn Store>, time: Duration, runs: usize) -> Result<Idle, Failure> {
    let counting_store = CountingStore::over(store);
    let app = Tidelock::over(counting_store.clone()).app();
    let driven = Driven::start(app.workflow(WORKFLOW, sleeper))?;
    tokio::time::sleep(SETTLED_IN.min(time)).await;
    let (calls, cpu, begun) = (counting_store.calls(), cpu::used(), Instant::now());
    tokio::time::sleep(time).await;
    let cpu = cpu::used().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let idle =
        Idle { runs, time: begun.elapsed(), calls: counting_store.calls().since(calls), cpu };
    driven.stop().await?;
    Ok(idle)
}

/// Records the commits of one run until it sleeps.
async fn sample(store: &Arc<dyn Store>) -> Result<Shape, Failure> {
    const RUN: &str = "run-x";
    let counting_store = CountingStore::over(store);
    let tidelock = Tidelock::over(counting_store.clone());
    let driven = Driven::start(tidelock.app().workflow(WORKFLOW, sleeper))?;
    counting_store.keep();
    tidelock.start(WORKFLOW, RUN, &()).await.map_err(wrong)?;
    counting_store.until_settled(0).await;
    driven.stop().await?;
    Shape::of(RUN, counting_store.take())
}

async fn fill(
    store: &dyn Store,
    shape: &Shape,
    runs: usize,
    progress: &Progress,
) -> Result<(), Failure> {
    let together = limits::PARTS_PER_COMMIT / shape.parts_at_rest();
    for first in (0..runs).step_by(together) {
        let end = runs.min(first + together);
        let mut commit = Commit::new();
        for number in first..end {
            commit = shape.at_rest(commit, &format!("run-{number:07}"))?;
        }
        store.commit(commit).await?.committed().map_err(wrong)?;
        progress.filled(end, runs, "runs");
    }
    Ok(())
}
