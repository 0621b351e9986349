//! The queue handler of a workflow: reads the leased runs and drives each of them.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tidelock_store::{Commit, ExpectedVersion, Result, Settlement, Slot, Version, When, limits};
use tracing::Instrument;

use super::activation::Activation;
use super::driver::Driver;
use super::history::{self, Entry, TakenOver};
use super::summary::Summarized;
use super::{Definition, RunId, keys};
use crate::handle::Tidelock;
use crate::telemetry;
use crate::trace_context::scoped;
use crate::worker::{LeasedTask, QueueHandler, QueueOptions, TaskFuture, TaskOutcome, is_loss};

/// The summaries of all runs that were leased together, read in one call.
type Summaries = Shared<BoxFuture<'static, Result<Arc<Vec<Slot>>>>>;

/// The queue handler of one workflow. Clones share the same state.
#[derive(Debug, Clone)]
pub(crate) struct RunWork {
    tidelock: Tidelock,
    workflow: Arc<Definition>,
}

impl QueueHandler for RunWork {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        let summaries = self.summaries(&tasks);
        let handle = |(nth, task): (usize, LeasedTask)| {
            let (work, summaries) = (self.clone(), summaries.clone());
            async move { work.work(task, nth, summaries).await }.boxed()
        };
        tasks.into_iter().enumerate().map(handle).collect()
    }
}

impl RunWork {
    /// The worker's options for the queue of a workflow. Crashes are counted per run, not by the
    /// worker.
    pub(crate) fn served(tidelock: &Tidelock, workflow: &Arc<Definition>) -> QueueOptions {
        let work = Self { tidelock: tidelock.clone(), workflow: workflow.clone() };
        let settings = workflow.settings;
        let queue = keys::queue(workflow.known_name(), settings.version);
        let served =
            QueueOptions::new(&queue, Arc::new(work)).lease(settings.lease).max_crashes(u32::MAX);
        let served = served.timeout(settings.stall).minding_its_time();
        let served = served.limited(workflow.global_limit().ok().flatten());
        settings.limit.map_or(served.clone(), |limit| served.max_concurrency(limit))
    }

    /// Read after the leases were granted: a later change of a summary is refused, or ends the run.
    fn summaries(&self, tasks: &[LeasedTask]) -> Summaries {
        let keys: Vec<_> = tasks.iter().map(|task| keys::summary(&run_of(task))).collect();
        let store = self.tidelock.store().clone();
        async move { Ok(Arc::new(store.get(&keys).await?)) }.boxed().shared()
    }

    async fn work(self, task: LeasedTask, nth: usize, summaries: Summaries) -> Result<TaskOutcome> {
        let run = run_of(&task);
        let _driving = self.tidelock.active().lock(&run, &task).await;
        let there = Summarized::of(&run, &summaries.await?[nth])?;
        match there.filter(|there| !there.summary.state.is_ended()) {
            Some(there) => self.drive(task, there).await,
            // It has ended, or never existed: the wake-up was outdated.
            None => task.settle(finished(&task)).await,
        }
    }

    async fn drive(&self, task: LeasedTask, there: Summarized) -> Result<TaskOutcome> {
        let mut loaded = history::load(&**task.store(), &there.run, there.summary.begins).await?;
        let (Some(mut version), Some(input)) = (loaded.version, loaded.replay.input().cloned())
        else {
            let error = "its history is missing; it was not deleted by Tidelock";
            return task.settle(Settlement::block(task.token(), error)).await;
        };
        if loaded.replay.outcome().is_some() {
            return task.settle(finished(&task)).await;
        }
        if task.lease().expiries > 0 {
            let crashes = loaded.replay.crashes();
            if crashes >= self.workflow.settings.max_crashes {
                return block(&task, crashes).await;
            }
            match take_over(&task, &there.run, version).await? {
                Some(noted) => version = noted,
                None => return self.again(task, there).await,
            }
        }
        // The turn is part of the trace that started the run, and what it does of the current one.
        let trace = loaded.metadata.trace.take();
        let span = telemetry::run_span(&there.run, &there.summary.workflow, trace.as_ref());
        let activation =
            Activation::new(&self.tidelock, &task, there, loaded.replay, loaded.metadata);
        let driver = Driver::new(activation, version, self.workflow.settings.stall);
        scoped(trace, driver.drive(&*self.workflow.code, input)).instrument(span).await
    }

    /// Starts over: a signal came during the takeover, or the lease is lost, which the next attempt
    /// finds.
    fn again(&self, task: LeasedTask, there: Summarized) -> BoxFuture<'_, Result<TaskOutcome>> {
        async move {
            match task.lost().is_cancelled() {
                true => Ok(TaskOutcome::Lost),
                false => self.drive(task, there).await,
            }
        }
        .boxed()
    }
}

/// Records that an earlier holder died, before anything else: if this holder dies, too, the count
/// is known.
async fn take_over(task: &LeasedTask, run: &RunId, version: Version) -> Result<Option<Version>> {
    let entry = Entry::from(TakenOver { fence: task.lease().fence }).encode()?;
    let commit = Commit::new()
        .append(&keys::stream(run), ExpectedVersion::Exact(version), [entry])
        .fenced_by(task.token());
    match task.commit(commit).await?.committed() {
        Ok(_) => Ok(Some(version.plus(1))),
        Err(conflict) => {
            if is_loss(&conflict) {
                task.lost().cancel();
            }
            Ok(None)
        }
    }
}

async fn block(task: &LeasedTask, crashes: u32) -> Result<TaskOutcome> {
    let error = format!(
        "{crashes} processes in a row died or hung over this run without recording anything; find out why, then resume it"
    );
    task.settle(Settlement::block(task.token(), error)).await
}

/// Settles the item of a run that has ended or does not exist.
fn finished(task: &LeasedTask) -> Settlement {
    Settlement::finish(task.token(), task.lease().mark, When::In(limits::ITEM_MEMORY))
}

/// The run of an item.
fn run_of(task: &LeasedTask) -> RunId {
    RunId::stored(task.lease().item.key.as_str())
}
