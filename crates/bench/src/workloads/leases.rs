//! Leasing and settling, among many items that are idle.
//!
//! The items that have work lie evenly among those that have none, so that no operation gains from
//! neighbours.

mod churn;
mod growth;

use std::sync::Arc;
use std::time::Duration;

use indicatif::HumanCount;
use tidelock::{
    Commit, ItemKey, ItemRef, Lease, LeaseRequest, Mark, QueueName, Store, Wake, WorkerName,
};

use super::{Bench, committed};
use crate::bare;
use crate::failure::Failure;
use crate::measure::{self, Caller, Callers, Comparison, Measured};
use crate::progress::Progress;
use crate::rows;
use crate::site::Fixture;
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
    let site = Fixture::filled(bench.target, async |store| fill(store, idle, bench.progress).await)
        .await?;
    measure_at(site, bench).await
}

pub(super) async fn measure_churned(bench: &Bench<'_>, idle: usize) -> Result<Measured, Failure> {
    let site = Fixture::filled(bench.target, async |store| fill(store, idle, bench.progress).await)
        .await?;
    let before = Size::of(&site).await?;
    churn::churn(&*site.store, idle + WORKING, bench.churn, bench.progress).await?;
    let after = Size::of(&site).await?;
    let mut measured = measure_at(site, bench).await?;
    measured.remarks.push(format!(
        "after {} leases: {}",
        HumanCount(bench.churn as u64),
        before.to(&after)
    ));
    Ok(measured)
}

/// Leasing here takes turns with leasing among few idle items: what the disk does, it does to both.
async fn measure_at(site: Fixture, bench: &Bench<'_>) -> Result<Measured, Failure> {
    let few = bench.target.another("few");
    let few =
        Fixture::filled(&few, async |store| fill(store, FEW_IDLE, bench.progress).await).await?;
    let contest = Comparison::of(worker(&site)?)
        .compared_with(worker(&few)?)
        .against(bare::leases(&site, AT_ONCE, DURATION).await?);
    let measured = measure::measure(contest, bench.time, bench.progress).await?;
    site.clear().await?;
    few.clear().await?;
    Ok(measured)
}

fn worker(site: &Fixture) -> Result<Callers<Worker>, Failure> {
    Ok(Callers(vec![Worker { store: site.store.clone(), request: request(AT_ONCE)? }]))
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

/// Every item has work once, and does it; then some have work again.
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
