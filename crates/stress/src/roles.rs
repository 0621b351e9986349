//! The parts that worker processes play.
//!
//! A worker opens the store that it is told to, through the public API like anybody, and has
//! several calls under way at once. It does not know what will be done to it.

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

use tidelock::Store;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::broken::Broken;
use crate::caller::{Backoff, Bug, Caller};
use crate::journal::Journal;
use crate::part::{Role, WorkerSpec};
use crate::pipe::{self, Orders, Report, report};
use crate::trouble::Trouble;

pub(crate) use committer::WATERMARK;
pub(crate) use consumer::Drained;

/// The argument that makes this binary a worker.
pub(crate) const WORKER: &str = "--as-worker";

/// How often a worker says how much it has done.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for a signal before looking again, as everybody should.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Plays the part that comes on standard input.
pub(crate) fn play() -> ExitCode {
    match try_to_play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(bug) => {
            report(&Report::Failed(bug.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn try_to_play() -> Result<(), Bug> {
    die_with_the_supervisor()?;
    let broken_off = |e: io::Error| Bug(format!("the worker cannot start: {e}"));
    let part = pipe::read::<WorkerSpec>(&mut io::stdin().lock()).map_err(broken_off)?;
    let part = part.ok_or_else(|| Bug("the worker was not told its part".to_owned()))?;
    let journal = Journal::begin(&part.journal).map_err(broken_off)?;
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(broken_off)?;
    runtime.block_on(work(Arc::new(part), Arc::new(journal)))
}

/// A worker that is stopped when its supervisor is killed cannot notice that by itself.
fn die_with_the_supervisor() -> Result<(), Bug> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
        .map_err(|e| Bug(format!("the kernel does not take the worker's last will: {e}")))?;
    Ok(())
}

async fn work(part: Arc<WorkerSpec>, journal: Arc<Journal>) -> Result<(), Bug> {
    let orders = Orders::listen();
    let caller = Caller::new(open(&part).await?, journal, part.load.patience);
    report(&Report::Ready);
    let reporter = tokio::spawn(report_progress(caller.clone()));
    match part.role {
        Role::Committer => committer::work(&part, &caller, &orders).await?,
        Role::Consumer(holds) => consumer::work(&part, holds, &caller, &orders).await?,
        Role::Reactor(holds) => reactor::work(&part, holds, &caller, &orders).await?,
        Role::Starter => starter::work(&part, &caller, &orders).await?,
        Role::Runner(holds) => runner::work(&part, holds, &caller, &orders).await?,
        Role::Claimant(holds) => claimant::work(&part, holds, &caller, &orders).await?,
        Role::Changer => changer::work(&part, &caller, &orders).await?,
        Role::Booker => booker::work(&part, &caller, &orders).await?,
        Role::Closer => closer::work(&part, &caller, &orders).await?,
        Role::Follower => follower::work(&part, &caller, &orders).await?,
    }
    reporter.abort();
    caller.insist("close", || caller.store.close()).await
}

/// Opens the store, also when its server is just being restarted.
async fn open(part: &WorkerSpec) -> Result<Arc<dyn Store>, Bug> {
    let mut backoff = Backoff::new();
    loop {
        match tidelock::open(&part.url).await {
            Ok(store) => {
                return Ok(part
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
        report(&Report::Did(caller.did()));
    }
}

/// Waits for all callers of a worker; the first that cannot go on ends the others.
async fn join(mut callers: JoinSet<Result<(), Bug>>) -> Result<(), Bug> {
    while let Some(ended) = callers.join_next().await {
        ended.map_err(|e| Bug(format!("a caller panicked: {e}")))??;
    }
    Ok(())
}
