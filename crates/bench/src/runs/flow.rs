//! Runs of five trivial steps, each started and awaited, beside the commits of such a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock::HandlerError as Failed;
use tidelock::runs::{RunCtx, StepError, Workflow};
use tidelock::store::{
    Commit, ItemKey, ItemRef, LeaseRequest, LeaseToken, QueueName, Store, Wake, WorkerName,
};
use tidelock::{Tidelock, When};

use super::calls::Calls;
use super::counting_store::CountingStore;
use super::driven::{Driven, wrong};
use super::shape::Shape;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Baseline, Caller, Callers, Comparison, Figures};
use crate::progress::Progress;
use crate::rows;
use crate::target::Target;

const WORKFLOW: Workflow<(), u64> = Workflow::new("five");
const STEPS: u64 = 5;
/// The sum of the steps.
const SUM: u64 = 10;

/// Items of each baseline caller, leased together.
const ITEMS: usize = 10;
const DURATION: Duration = Duration::from_secs(60);

/// The figures.
pub(super) struct Flow {
    pub(super) callers: usize,
    pub(super) ours: Figures,
    /// One operation: all the commits of one run.
    pub(super) baseline: Figures,
    /// The number of runs, and their store calls.
    pub(super) runs: u64,
    pub(super) calls: Calls,
}

impl Flow {
    pub(super) fn ratio(&self) -> f64 {
        self.ours.ops_per_s / self.baseline.ops_per_s
    }

    #[allow(clippy::cast_precision_loss)] // five
    pub(super) fn steps_per_s(&self) -> f64 {
        self.ours.ops_per_s * STEPS as f64
    }
}

pub(super) async fn measure(
    target: &Target,
    time: Duration,
    callers: usize,
    progress: &Progress,
) -> Result<Flow, Failure> {
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let counting_store = CountingStore::over(&fixture.store);
    let tidelock = Tidelock::over(counting_store.clone());
    let driven = Driven::start(tidelock.app().workflow(WORKFLOW, five))?;
    let shape = Arc::new(sample(&counting_store, &tidelock).await?);
    let (ended, before) = (Arc::new(AtomicU64::new(0)), counting_store.calls());
    let starter =
        |caller| Starter { tidelock: tidelock.clone(), caller, next: 0, ended: ended.clone() };
    let ours = Callers((0..callers).map(starter).collect());
    let comparison =
        Comparison::of(ours).against(vec![baseline(&fixture.store, &shape, callers).await?]);
    let mut measured = measure::measure(comparison, time, progress).await?;
    let calls = counting_store.calls().since(before);
    driven.stop().await?;
    fixture.clear().await?;
    let (_, baseline) =
        measured.baseline.pop().ok_or_else(|| wrong("the baseline has no figures"))?;
    Ok(Flow { callers, ours: measured.ours, baseline, runs: ended.load(Ordering::SeqCst), calls })
}

async fn five(ctx: RunCtx, (): ()) -> Result<u64, StepError> {
    let mut sum = 0;
    for nth in 0..STEPS {
        sum += ctx.step(format!("step-{nth}"), |_| async move { Ok::<_, Failed>(nth) }).await?;
    }
    Ok(sum)
}

/// Records the commits of one run, while no other runs.
async fn sample(counting_store: &CountingStore, tidelock: &Tidelock) -> Result<Shape, Failure> {
    const RUN: &str = "run-999-000000000";
    let settled = counting_store.settled();
    counting_store.keep();
    let run = tidelock.start(WORKFLOW, RUN, &()).await.map_err(wrong)?;
    run.result().await.map_err(wrong)?;
    counting_store.until_settled(settled).await;
    Shape::of(RUN, counting_store.take())
}

/// Starts one run after the other, and waits for each.
struct Starter {
    tidelock: Tidelock,
    caller: usize,
    next: u64,
    ended: Arc<AtomicU64>,
}

impl Caller for Starter {
    async fn call(&mut self) -> Result<u64, Failure> {
        let id = format!("run-{:03}-{:09}", self.caller, self.next);
        self.next += 1;
        let run = self.tidelock.start(WORKFLOW, &id, &()).await.map_err(wrong)?;
        match run.result().await.map_err(wrong)? {
            SUM => self.ended.fetch_add(1, Ordering::SeqCst),
            other => return Err(wrong(format_args!("run {id:?}: expected {SUM}, found {other}"))),
        };
        Ok(1)
    }
}

async fn baseline(
    store: &Arc<dyn Store>,
    shape: &Arc<Shape>,
    callers: usize,
) -> Result<Baseline, Failure> {
    let mut committers = Vec::new();
    for caller in 0..callers {
        committers.push(Committer::new(store, shape, caller).await?);
    }
    Ok(Baseline { name: "commits", side: Box::new(Callers(committers)) })
}

/// Makes only the commits of one run after the other, and takes their leases ten at a time, in its
/// own queue.
struct Committer {
    store: Arc<dyn Store>,
    shape: Arc<Shape>,
    caller: usize,
    next: u64,
    request: LeaseRequest,
    /// Unsettled leases.
    leases: Vec<LeaseToken>,
}

impl Committer {
    /// Wakes its first items as the start of a run would.
    async fn new(
        store: &Arc<dyn Store>,
        shape: &Arc<Shape>,
        caller: usize,
    ) -> Result<Self, Failure> {
        let (queue, worker) =
            (QueueName::new(format!("baseline-{caller:03}"))?, WorkerName::new(rows::WORKER)?);
        let mut commit = Commit::new();
        for number in 0..ITEMS {
            let item = ItemRef { queue: queue.clone(), key: ItemKey::new(rows::item_key(number))? };
            commit = commit.wake(Wake::at(item, When::NOW));
        }
        store.commit(commit).await?.committed().map_err(wrong)?;
        let request = LeaseRequest::new(&queue, &worker, DURATION, ITEMS);
        Ok(Self {
            store: store.clone(),
            shape: shape.clone(),
            caller,
            next: 0,
            request,
            leases: Vec::new(),
        })
    }

    async fn next_lease(&mut self) -> Result<LeaseToken, Failure> {
        if self.leases.is_empty() {
            let leased = self.store.lease(self.request.clone()).await?;
            self.leases = leased.leases.iter().map(tidelock::store::Lease::token).collect();
        }
        self.leases.pop().ok_or_else(|| wrong("nothing to lease in a queue that is never idle"))
    }
}

impl Caller for Committer {
    async fn call(&mut self) -> Result<u64, Failure> {
        let lease = self.next_lease().await?;
        let run = format!("bar-{:03}-{:09}", self.caller, self.next);
        self.next += 1;
        for nth in 0..self.shape.len() {
            let commit = self.shape.commit(nth, &run, &self.request.queue, &lease)?;
            self.store.commit(commit).await?.committed().map_err(wrong)?;
        }
        Ok(1)
    }
}
