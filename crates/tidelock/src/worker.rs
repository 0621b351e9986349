//! A worker: leases what is due, keeps the leases alive, has the work done, and never leaves it
//! half settled.
//!
//! It serves *queues*, each with a [`QueueHandler`] that knows what an item means; the worker
//! itself does not. All queues share one pool of slots, and a queue can have a limit of its own.
//! Items leased together are worked on side by side, and each is settled by itself: a slow one
//! holds back nobody's ack.
//!
//! It waits for signals, and polls slowly because signals are hints. The more queues it serves, the
//! more slowly it polls each, so that an idle worker makes a handful of store calls a second.

mod heartbeat;
mod poll_interval;
mod poller;
mod polls;
mod queue_options;
mod slots;
mod task;
mod timeout;
mod work;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Result, Store, WorkerName};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use heartbeat::Heartbeat;
use poller::Poller;
use slots::Slots;

pub(crate) use poller::panic_message;
pub(crate) use task::is_loss;
pub(crate) use timeout::{timed_out, within};

pub use poll_interval::PollInterval;
pub use queue_options::QueueOptions;
pub use task::LeasedTask;
pub use timeout::TIMEOUT;
pub use work::{QueueHandler, TaskFuture, TaskOutcome, each};

/// How a worker goes about it.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The name that others see on its leases.
    pub name: WorkerName,
    /// Items worked on at the same time, over all queues.
    pub slots: usize,
    /// How long handlers may take to end after a shutdown began, before the worker stops waiting
    /// for them.
    pub patience: Duration,
    /// How long a handler whose lease is lost has to end by itself before it is dropped.
    pub grace: Duration,
    /// How often it looks without being told.
    pub pace: PollInterval,
}

impl WorkerOptions {
    /// Under this name, with 64 slots, 30 seconds of patience and 5 of grace.
    pub fn new(name: WorkerName) -> Self {
        Self {
            name,
            slots: 64,
            patience: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            pace: PollInterval::default(),
        }
    }
}

/// Serves queues until it is told to stop.
pub struct Worker {
    store: Arc<dyn Store>,
    options: WorkerOptions,
    queues: Vec<QueueOptions>,
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Handlers that still ran when its patience was over. It has neither released nor acked what
    /// they work on: their leases run out, unless they still end well before anybody else takes the
    /// item.
    pub still_running: usize,
}

impl Worker {
    /// A worker on this store that serves nothing yet.
    pub fn new(store: Arc<dyn Store>, options: WorkerOptions) -> Self {
        Self { store, options, queues: Vec::new() }
    }

    /// And this queue.
    #[must_use]
    pub fn serve(mut self, served: QueueOptions) -> Self {
        self.queues.push(served);
        self
    }

    /// Serves until `shutdown` is ready; then leases no more, lets what runs come to its end
    /// (renewing its leases meanwhile) and gives back what was leased and not begun.
    ///
    /// When this future is dropped or aborted, the worker stops where it is: nothing more is
    /// leased, renewed or settled, and what was being worked on is dropped. Its leases run out, and
    /// others go on.
    ///
    /// # Errors
    /// If a queue's lease is one that no store grants. What a store refuses later is logged and
    /// tried again.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<Stopped> {
        self.queues.iter().try_for_each(QueueOptions::check)?;
        let crew = Arc::new(Crew::new(self.store, &self.options));
        let dropped = crew.dropped.clone().drop_guard();
        let _heart = AbortOnDropHandle::new(tokio::spawn(crew.heartbeat.clone().beat()));
        let pace = self.options.pace.over(self.queues.len());
        for served in self.queues {
            let server = Poller::new(&crew, served, pace).serve();
            crew.servers.spawn(crew.dropped.clone().run_until_cancelled_owned(server));
        }
        shutdown.await;
        let stopped = crew.stop(self.options.patience).await;
        // What outlasted the patience may still end well.
        dropped.disarm();
        Ok(stopped)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("options", &self.options)
            .field("queues", &self.queues)
            .finish()
    }
}

/// What all servers of a worker share.
#[derive(Debug)]
pub(crate) struct Crew {
    store: Arc<dyn Store>,
    name: WorkerName,
    grace: Duration,
    slots: Slots,
    heartbeat: Arc<Heartbeat>,
    /// Told when no more is to be leased.
    stopping: CancellationToken,
    /// Told when the worker's future is dropped: everything that was spawned for it is dropped,
    /// too.
    dropped: CancellationToken,
    servers: TaskTracker,
    tasks: TaskTracker,
}

impl Crew {
    fn new(store: Arc<dyn Store>, options: &WorkerOptions) -> Self {
        Self {
            heartbeat: Arc::new(Heartbeat::new(store.clone())),
            store,
            name: options.name.clone(),
            grace: options.grace,
            slots: Slots::new(options.slots),
            stopping: CancellationToken::new(),
            dropped: CancellationToken::new(),
            servers: TaskTracker::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Servers first: whatever they had leased is begun or given back before the tasks are counted.
    async fn stop(&self, patience: Duration) -> Stopped {
        self.stopping.cancel();
        self.servers.close();
        self.servers.wait().await;
        self.tasks.close();
        let _in_time = tokio::time::timeout(patience, self.tasks.wait()).await;
        let still_running = self.tasks.len();
        if still_running > 0 {
            tracing::warn!(still_running, "handlers still run; their leases are left to run out");
            self.heartbeat.tell_all();
        }
        Stopped { still_running }
    }
}
