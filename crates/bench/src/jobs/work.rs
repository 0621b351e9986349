//! The job that is measured, and a process that works a backlog off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tidelock::jobs::JobOptions;
use tidelock::prelude::*;
use tidelock::store::Store;
use tokio::task::block_in_place;

use crate::args::JobsWorkerArgs;
use crate::child::{be_told, say_ready};
use crate::clock;
use crate::failure::Failure;
use crate::report::write_line;
use crate::runs::Driven;

/// More than any process has slots: the limit is there, and never reached.
const PERMITS: u32 = 1_000;

/// A job whose payload has 200 bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Work {
    note: String,
}

/// The same job under a limit over all processes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LimitedWork(Work);

impl Work {
    pub(super) fn new() -> Self {
        Self { note: "x".repeat(189) }
    }
}

impl LimitedWork {
    pub(super) fn new() -> Self {
        Self(Work::new())
    }
}

impl Job for Work {
    const QUEUE: &'static str = "work";
}

impl Job for LimitedWork {
    const QUEUE: &'static str = "limited-work";

    fn options() -> JobOptions {
        JobOptions::new().global_concurrency(PERMITS)
    }
}

/// What a process has done so far. Times are in microseconds since 1970.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Counted {
    pub(super) done: u64,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Counts jobs: all that their handler does.
#[derive(Debug)]
struct Counter {
    done: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

impl Counter {
    fn new() -> Arc<Self> {
        let (done, first, last) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Arc::new(Self { done, first, last })
    }

    fn count_one(&self) {
        let now = clock::now();
        self.first.fetch_min(now, Ordering::Relaxed);
        self.last.fetch_max(now, Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn counted(&self) -> Counted {
        Counted {
            done: self.done.load(Ordering::Relaxed),
            first: self.first.load(Ordering::Relaxed),
            last: self.last.load(Ordering::Relaxed),
        }
    }
}

/// An application that works jobs off, in the background.
pub(super) struct Working {
    counter: Arc<Counter>,
    driven: Driven,
}

impl Working {
    pub(super) fn start(
        store: &Arc<dyn Store>,
        slots: usize,
        limited: bool,
    ) -> Result<Self, Failure> {
        let (counter, tidelock) = (Counter::new(), Tidelock::over(store.clone()));
        let counting = counter.clone();
        let count = move || {
            counting.count_one();
            std::future::ready(Ok(()))
        };
        let app = tidelock.app().max_concurrency(slots);
        let app = match limited {
            true => app.job(move |_: LimitedWork, _| count()),
            false => app.job(move |_: Work, _| count()),
        };
        Ok(Self { counter, driven: Driven::start(app)? })
    }

    pub(super) fn counted(&self) -> Counted {
        self.counter.counted()
    }

    /// Returns when everything that was begun is settled.
    pub(super) async fn stop(self) -> Result<Counted, Failure> {
        self.driven.stop().await?;
        Ok(self.counter.counted())
    }
}

/// Runs the process: it reads the URL of the store, and then `work`, `count` and `stop`.
pub(crate) async fn serve(args: &JobsWorkerArgs) -> Result<(), Failure> {
    let url = block_in_place(be_told)?.unwrap_or_default();
    let store = tidelock::open(&url).await?;
    say_ready()?;
    let mut working = None;
    while let Some(line) = block_in_place(be_told)? {
        match (line.as_str(), working.take()) {
            ("work", None) => {
                working = Some(Working::start(&store, args.slots, args.limited)?);
                write_line("working")?;
            }
            ("count", Some(at_work)) => {
                say(at_work.counted())?;
                working = Some(at_work);
            }
            ("stop", Some(at_work)) => {
                say(at_work.stop().await?)?;
                break;
            }
            (other, _) => return Err(Failure::Answer(format!("told {other:?} at a wrong time"))),
        }
    }
    Ok(store.close().await?)
}

fn say(counted: Counted) -> Result<(), Failure> {
    Ok(write_line(&serde_json::to_string(&counted).expect("numbers are JSON"))?)
}
