//! Worker: leases due items, renews the leases, runs the work, and settles every item.
//!
//! A worker serves *queues*, each with a [`QueueHandler`] that knows what an item means; the worker
//! does not. All queues share one pool of slots, and a queue can have its own concurrency limit.
//! Items leased together run concurrently, and each is settled separately: a slow one does not
//! delay the acks of the others.
//!
//! The worker waits for change hints, and polls slowly because hints may be lost. The more queues
//! it serves, the more slowly it polls each, so that an idle worker makes only a few store calls
//! per second.

mod heartbeat;
mod keys;
mod pace;
mod permits;
mod poll_interval;
mod poller;
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

use crate::pauses::Pauses;

pub(crate) use keys::limited_by;
pub(crate) use pace::GlobalRate;
pub(crate) use permits::GlobalLimit;
pub(crate) use poller::panic_message;
pub(crate) use task::is_loss;
pub(crate) use timeout::{timed_out, within};

pub use poll_interval::PollInterval;
pub use queue_options::QueueOptions;
pub use task::LeasedTask;
pub use timeout::TIMEOUT;
pub use work::{QueueHandler, TaskFuture, TaskOutcome, each};

/// How long a shutdown waits for handlers that give their leases back when its patience is over.
const RELEASE_TIME: Duration = Duration::from_secs(1);

/// Options of a [`Worker`].
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The worker's name, visible on its leases.
    pub name: WorkerName,
    /// Items processed concurrently, over all queues.
    pub max_concurrency: usize,
    /// How long a shutdown waits for running handlers.
    pub shutdown_timeout: Duration,
    /// How long a handler whose lease is lost may continue before it is dropped.
    pub grace: Duration,
    /// How often a queue is polled without a change hint.
    pub poll_interval: PollInterval,
}

impl WorkerOptions {
    /// Creates options with a concurrency of 64, a shutdown timeout of 30 seconds and a grace of 5
    /// seconds.
    pub fn new(name: WorkerName) -> Self {
        Self {
            name,
            max_concurrency: 64,
            shutdown_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            poll_interval: PollInterval::default(),
        }
    }
}

/// Serves queues until it is shut down.
///
/// Most programs use [`App`](crate::App), which contains a worker. A worker of its own
/// serves queues that neither reactions nor runs know.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use tidelock::prelude::*;
/// use tidelock::store::{Commit, ItemRef, QueueName, Wake, WorkerName};
/// use tidelock::When;
/// use tidelock::worker::{
///     LeasedTask, QueueHandler, QueueOptions, TaskFuture, Worker, WorkerOptions, each,
/// };
/// use tokio::sync::Notify;
///
/// struct Mail(Arc<Notify>);
///
/// impl QueueHandler for Mail {
///     fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
///         let sent = self.0.clone();
///         each(tasks, move |task| {
///             let sent = sent.clone();
///             async move {
///                 println!("send {}", task.lease().item.key);
///                 let outcome = task.settle(task.lease().ack()).await;
///                 sent.notify_one();
///                 outcome
///             }
///         })
///     }
/// }
///
/// let store = tidelock::open("memory:").await?;
/// let queue = QueueName::new("mail")?;
/// let item = ItemRef::parse("mail", "order-7")?;
/// store.commit(Commit::new().wake(Wake::at(item, When::NOW))).await?;
///
/// let sent = Arc::new(Notify::new());
/// let worker = Worker::new(store, WorkerOptions::new(WorkerName::new("mailer")?))
///     .serve(QueueOptions::new(&queue, Arc::new(Mail(sent.clone()))));
/// let stopped = worker.run_until(sent.notified()).await?;
/// assert_eq!(stopped.still_running, 0);
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    store: Arc<dyn Store>,
    options: WorkerOptions,
    queues: Vec<QueueOptions>,
    error_pause: Option<Duration>,
    pauses: Arc<Pauses>,
}

/// The result of a shutdown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Handlers that were still running when the shutdown timeout was over.
    ///
    /// Their items are neither released nor acknowledged. The leases expire, unless the handlers
    /// finish before another worker takes the items.
    pub still_running: usize,
}

impl Worker {
    /// Creates a worker on `store` without queues.
    pub fn new(store: Arc<dyn Store>, options: WorkerOptions) -> Self {
        let pauses = Arc::new(Pauses::new(store.clone()));
        Self { store, options, queues: Vec::new(), pauses, error_pause: None }
    }

    /// Shares the reading of what is paused with others.
    #[must_use]
    pub(crate) fn sharing(mut self, pauses: &Arc<Pauses>) -> Self {
        self.pauses = pauses.clone();
        self
    }

    /// Adds a queue.
    #[must_use]
    pub fn serve(mut self, options: QueueOptions) -> Self {
        self.queues.push(options);
        self
    }

    /// Sets the pause after a request for leases that failed, if it is not the poll interval.
    pub(crate) fn error_pause(mut self, pause: Option<Duration>) -> Self {
        self.error_pause = pause;
        self
    }

    /// The queues, in the order in which they were added.
    pub(crate) fn queues(&self) -> Vec<tidelock_store::QueueName> {
        self.queues.iter().map(|options| options.queue.clone()).collect()
    }

    /// Serves the queues until `shutdown` completes, then shuts down gracefully.
    ///
    /// During the shutdown, the worker leases nothing more, waits for running handlers (and renews
    /// their leases meanwhile), and releases items that it had leased and not started.
    ///
    /// When this future is dropped or aborted, the worker stops at once: it leases, renews and
    /// settles nothing more, and drops the running handlers. Their leases expire, and other workers
    /// take over.
    ///
    /// # Errors
    /// Returns an error if a queue's lease duration is outside of what stores grant. Later store
    /// errors are logged and retried.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<Stopped> {
        self.queues.iter().try_for_each(QueueOptions::check)?;
        let shared = Arc::new(WorkerShared::new(self.store, &self.options, self.pauses));
        let dropped = shared.dropped.clone().drop_guard();
        let _renewals = AbortOnDropHandle::new(tokio::spawn(shared.heartbeat.clone().run()));
        let pace = self.options.poll_interval.over(self.queues.len());
        for options in self.queues {
            let error_pause = self.error_pause.unwrap_or(pace);
            let poller = Poller::new(&shared, options, pace, error_pause).serve();
            shared.pollers.spawn(shared.dropped.clone().run_until_cancelled_owned(poller));
        }
        shutdown.await;
        let stopped = shared.stop(self.options.shutdown_timeout).await;
        // Handlers that outlast the timeout may still finish.
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

/// The state that all pollers of a worker share.
#[derive(Debug)]
pub(crate) struct WorkerShared {
    store: Arc<dyn Store>,
    name: WorkerName,
    grace: Duration,
    slots: Slots,
    pauses: Arc<Pauses>,
    heartbeat: Arc<Heartbeat>,
    /// Cancelled when the worker stops leasing.
    stopping: CancellationToken,
    /// Cancelled when the worker's future is dropped: every task spawned for it is dropped, too.
    dropped: CancellationToken,
    pollers: TaskTracker,
    tasks: TaskTracker,
}

impl WorkerShared {
    fn new(store: Arc<dyn Store>, options: &WorkerOptions, pauses: Arc<Pauses>) -> Self {
        Self {
            heartbeat: Arc::new(Heartbeat::new(store.clone())),
            store,
            name: options.name.clone(),
            grace: options.grace,
            slots: Slots::new(options.max_concurrency),
            pauses,
            stopping: CancellationToken::new(),
            dropped: CancellationToken::new(),
            pollers: TaskTracker::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Pollers stop first: what they leased is started or released before the tasks are counted.
    async fn stop(&self, limit: Duration) -> Stopped {
        self.stopping.cancel();
        self.pollers.close();
        self.pollers.wait().await;
        self.tasks.close();
        let _in_time = tokio::time::timeout(limit, self.tasks.wait()).await;
        let still_running = self.tasks.len();
        if still_running > 0 {
            tracing::warn!(still_running, "handlers are still running; their leases will expire");
            self.heartbeat.cancel_all();
            // Some handlers give their leases back.
            let _in_time = tokio::time::timeout(RELEASE_TIME, self.tasks.wait()).await;
        }
        Stopped { still_running }
    }
}
