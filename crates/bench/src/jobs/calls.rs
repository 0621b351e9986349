//! What a job costs in calls of the store: to be enqueued, and to be done.

use std::sync::Arc;
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::store::Store;

use super::work::{LimitedWork, Work, Working};
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::runs::{CountingStore, Each};
use crate::target::Target;

/// Jobs that are counted, at most.
const JOBS: usize = 10_000;
/// Jobs at once, as in a process by default.
const SLOTS: usize = 64;
const GLANCE: Duration = Duration::from_millis(1);

/// The calls for one job.
#[derive(Debug)]
pub(super) struct JobCalls {
    pub(super) what: &'static str,
    pub(super) each: Each,
}

pub(super) async fn measure(target: &Target, jobs: usize) -> Result<Vec<JobCalls>, Failure> {
    let jobs = jobs.min(JOBS);
    let fixture = Fixture::filled(target, async |_| Ok(())).await?;
    let store = CountingStore::over(&fixture.store);
    let tidelock = Tidelock::over(store.clone());
    let mut all = Vec::new();
    let before = store.calls();
    let mut add = |what, calls: crate::runs::Calls| {
        all.push(JobCalls { what, each: calls.each(jobs as u64) });
    };
    tidelock.enqueue_all((0..jobs).map(|_| Work::new())).await.map_err(|e| wrong(&e))?;
    add("a job of enqueue_all", store.calls().since(before));
    add("a job that is done", drain(&store, jobs, false).await?);
    tidelock.enqueue_all((0..jobs).map(|_| LimitedWork::new())).await.map_err(|e| wrong(&e))?;
    add("a job that is done under a global limit", drain(&store, jobs, true).await?);
    let before = store.calls();
    for _ in 0..jobs {
        tidelock.enqueue(&Work::new()).await.map_err(|e| wrong(&e))?;
    }
    add("a job that is enqueued alone", store.calls().since(before));
    fixture.clear().await?;
    Ok(all)
}

async fn drain(
    store: &Arc<CountingStore>,
    jobs: usize,
    limited: bool,
) -> Result<crate::runs::Calls, Failure> {
    let before = store.calls();
    let store_of_worker: Arc<dyn Store> = store.clone();
    let working = Working::start(&store_of_worker, SLOTS, limited)?;
    while working.counted().done < jobs as u64 {
        tokio::time::sleep(GLANCE).await;
    }
    working.stop().await?;
    Ok(store.calls().since(before))
}

fn wrong(error: &tidelock::Error) -> Failure {
    Failure::Answer(error.to_string())
}
