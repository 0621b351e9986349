//! The roles of worker processes.
//!
//! A worker opens its store through the public API and has several calls in flight. It does not
//! know which faults will be injected.

mod booker;
mod changer;
mod claimant;
mod closer;
mod committer;
mod consumer;
mod countdown;
mod follower;
mod reactor;
mod runner;
mod starter;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tidelock::store::Store;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::broken::Broken;
use crate::caller::{Backoff, Bug, Caller};
use crate::journal::Journal;
use crate::pipe::{self, Orders, Report, report};
use crate::trouble::Trouble;
use crate::worker_spec::{Role, WorkerSpec};

pub(crate) use committer::WATERMARK;
pub(crate) use consumer::Drained;

/// The argument that makes this binary a worker.
pub(crate) const WORKER: &str = "--as-worker";

/// How often a worker reports its progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for a signal before polling again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs the worker whose spec comes on standard input.
pub(crate) fn run() -> ExitCode {
    match try_to_run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(bug) => {
            report(&Report::Failed(bug.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn try_to_run() -> Result<(), Bug> {
    die_with_the_supervisor()?;
    let broken_off = |e: io::Error| Bug(format!("the worker cannot start: {e}"));
    let spec = pipe::read::<WorkerSpec>(&mut io::stdin().lock()).map_err(broken_off)?;
    let spec = spec.ok_or_else(|| Bug("the worker was not told its part".to_owned()))?;
    let journal = Journal::begin(&spec.journal).map_err(broken_off)?;
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(broken_off)?;
    runtime.block_on(work(Arc::new(spec), Arc::new(journal)))
}

/// A stopped worker cannot notice that its supervisor was killed.
fn die_with_the_supervisor() -> Result<(), Bug> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
        .map_err(|e| Bug(format!("the kernel does not take the worker's last will: {e}")))?;
    Ok(())
}

async fn work(spec: Arc<WorkerSpec>, journal: Arc<Journal>) -> Result<(), Bug> {
    let orders = Orders::listen();
    let caller = Caller::new(open(&spec).await?, journal, spec.load.patience);
    report(&Report::Ready);
    let reporter = tokio::spawn(report_progress(caller.clone()));
    match spec.role {
        Role::Committer => committer::work(&spec, &caller, &orders).await?,
        Role::Consumer(holds) => consumer::work(&spec, holds, &caller, &orders).await?,
        Role::Reactor(holds) => reactor::work(&spec, holds, &caller, &orders).await?,
        Role::Starter => starter::work(&spec, &caller, &orders).await?,
        Role::Runner(holds) => runner::work(&spec, holds, &caller, &orders).await?,
        Role::Claimant(holds) => claimant::work(&spec, holds, &caller, &orders).await?,
        Role::Changer => changer::work(&spec, &caller, &orders).await?,
        Role::Booker => booker::work(&spec, &caller, &orders).await?,
        Role::Closer => closer::work(&spec, &caller, &orders).await?,
        Role::Follower => follower::work(&spec, &caller, &orders).await?,
    }
    reporter.abort();
    caller.insist("close", || caller.store.close()).await
}

/// Opens the store, also during a restart of its server.
async fn open(spec: &WorkerSpec) -> Result<Arc<dyn Store>, Bug> {
    let mut backoff = Backoff::new();
    loop {
        match tidelock::open(&spec.url).await {
            Ok(store) => {
                return Ok(spec
                    .flaw
                    .map_or(store.clone(), |flaw| Arc::new(Broken::new(store, flaw))));
            }
            Err(error) => backoff.after(&Trouble::from(error)).await?,
        }
    }
}

async fn report_progress(caller: Caller) {
    let mut ticks = tokio::time::interval(REPORT_EVERY);
    loop {
        ticks.tick().await;
        report(&Report::Counts(caller.counts()));
    }
}

/// Waits for all callers of a worker; the first error ends the others.
async fn join(mut callers: JoinSet<Result<(), Bug>>) -> Result<(), Bug> {
    while let Some(ended) = callers.join_next().await {
        ended.map_err(|e| Bug(format!("a caller panicked: {e}")))??;
    }
    Ok(())
}
