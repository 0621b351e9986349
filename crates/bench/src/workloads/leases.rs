//! Leasing and settling, among many idle items.
//!
//! The items with work are spread evenly among those without, so that no operation profits from
//! locality.

mod churn;
mod growth;

use std::sync::Arc;
use std::time::Duration;

use indicatif::HumanCount;
use tidelock::store::{
    Commit, ItemKey, ItemRef, Lease, LeaseRequest, Mark, QueueName, Store, Wake, WorkerName,
};

use super::{Bench, committed};
use crate::baseline;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Caller, Callers, Comparison, Measured};
use crate::progress::Progress;
use crate::rows;
use growth::Size;

/// Items that always have work.
const WORKING: usize = 100;
/// Idle items of the queue that the others are compared with.
const FEW_IDLE: usize = 1_000;
const AT_ONCE: usize = 10;
/// As many as one call may take.
const FILL_AT_ONCE: usize = 1_000;
const DURATION: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &Bench<'_>, idle: usize) -> Result<Measured, Failure> {
    let fixture =
        Fixture::filled(bench.target, async |store| fill(store, idle, bench.progress).await)
            .await?;
    measure_at(fixture, bench).await
}

pub(super) async fn measure_churned(bench: &Bench<'_>, idle: usize) -> Result<Measured, Failure> {
    let fixture =
        Fixture::filled(bench.target, async |store| fill(store, idle, bench.progress).await)
            .await?;
    let before = Size::of(&fixture).await?;
    churn::churn(&*fixture.store, idle + WORKING, bench.churn, bench.progress).await?;
    let after = Size::of(&fixture).await?;
    let mut measured = measure_at(fixture, bench).await?;
    measured.remarks.push(format!(
        "after {} leases: {}",
        HumanCount(bench.churn as u64),
        before.to(&after)
    ));
    Ok(measured)
}

/// Alternates with leasing among few idle items, so that noise of the disk affects both.
async fn measure_at(fixture: Fixture, bench: &Bench<'_>) -> Result<Measured, Failure> {
    let few = bench.target.another("few");
    let few =
        Fixture::filled(&few, async |store| fill(store, FEW_IDLE, bench.progress).await).await?;
    let comparison = Comparison::of(worker(&fixture)?)
        .compared_with(worker(&few)?)
        .against(baseline::leases(&fixture, AT_ONCE, DURATION).await?);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    few.clear().await?;
    Ok(measured)
}

fn worker(fixture: &Fixture) -> Result<Callers<Worker>, Failure> {
    Ok(Callers(vec![Worker { store: fixture.store.clone(), request: request(AT_ONCE)? }]))
}

struct Worker {
    store: Arc<dyn Store>,
    request: LeaseRequest,
}

impl Caller for Worker {
    async fn call(&mut self) -> Result<u64, Failure> {
        let leases = self.store.lease(self.request.clone()).await?.leases;
        if leases.len() != AT_ONCE {
            return Err(Failure::Answer(format!(
                "{} of {AT_ONCE} items were leased",
                leases.len()
            )));
        }
        let commit = leases.iter().fold(Commit::new(), |commit, lease| {
            acked(commit, lease).wake(Wake::to_mark(lease.item.clone(), lease.mark.plus(1)))
        });
        committed(self.store.commit(commit).await?)?;
        Ok(1)
    }
}

/// Every item gets work once, and is settled; then some get work again.
async fn fill(store: &dyn Store, idle: usize, progress: &Progress) -> Result<(), Failure> {
    let all = idle + WORKING;
    for from in (0..all).step_by(FILL_AT_ONCE) {
        let batch = from..all.min(from + FILL_AT_ONCE);
        wake(store, batch.clone(), Mark::new(1)?).await?;
        let leases = store.lease(request(FILL_AT_ONCE)?).await?.leases;
        committed(store.commit(leases.iter().fold(Commit::new(), acked)).await?)?;
        progress.filled(batch.end, all, "items filled");
    }
    wake_working(store, all, Mark::new(2)?).await
}

async fn wake_working(store: &dyn Store, all: usize, mark: Mark) -> Result<(), Failure> {
    wake(store, (0..all).step_by(all / WORKING).take(WORKING), mark).await
}

async fn wake(
    store: &dyn Store,
    items: impl Iterator<Item = usize>,
    mark: Mark,
) -> Result<(), Failure> {
    let mut commit = Commit::new();
    for number in items {
        commit = commit.wake(Wake::to_mark(item(number)?, mark));
    }
    committed(store.commit(commit).await?)?;
    Ok(())
}

fn acked(commit: Commit, lease: &Lease) -> Commit {
    commit.settle(lease.ack())
}

fn request(limit: usize) -> Result<LeaseRequest, Failure> {
    let worker = WorkerName::new(rows::WORKER)?;
    Ok(LeaseRequest::new(&QueueName::new(rows::QUEUE)?, &worker, DURATION, limit))
}

fn item(number: usize) -> Result<ItemRef, Failure> {
    let queue = QueueName::new(rows::QUEUE)?;
    Ok(ItemRef { queue, key: ItemKey::new(rows::item_key(number))? })
}
