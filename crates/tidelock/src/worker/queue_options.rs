//! Queue options: a queue that a worker serves, its handler, and its limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::plan::check_renewal;
use tidelock_store::{LaneName, Lease, LeaseRequest, QueueName, Result, WorkerName};
use tokio::sync::Semaphore;

use super::{GlobalLimit, GlobalRate, QueueHandler, TIMEOUT};

/// A queue, or one lane of it, with its handler and limits.
#[derive(Clone)]
pub struct QueueOptions {
    pub(super) queue: QueueName,
    pub(super) work: Arc<dyn QueueHandler>,
    pub(super) lease: Duration,
    pub(super) timeout: Duration,
    /// Whether the worker enforces the timeout; otherwise the handler does.
    pub(super) enforce_timeout: bool,
    max_crashes: u32,
    lane: Option<LaneName>,
    pub(super) limit: Arc<Semaphore>,
    pub(super) pooled: bool,
    /// The limit over all processes.
    pub(super) global: Option<GlobalLimit>,
    /// The rate over all processes.
    pub(super) rate: Option<GlobalRate>,
}

impl QueueOptions {
    /// Serves all lanes of `queue` with the default limits.
    ///
    /// The lease lasts 30 seconds, the timeout of an item is [five minutes](TIMEOUT), and the
    /// concurrency is only limited by the worker's slots. An item whose lease expired three times
    /// is blocked.
    pub fn new(queue: &QueueName, work: Arc<dyn QueueHandler>) -> Self {
        Self {
            queue: queue.clone(),
            work,
            lease: Duration::from_secs(30),
            timeout: TIMEOUT,
            enforce_timeout: true,
            max_crashes: 3,
            lane: None,
            limit: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            pooled: true,
            global: None,
            rate: None,
        }
    }

    /// Serves only this lane.
    #[must_use]
    pub fn in_lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Sets the lease duration. The worker renews at a third of it.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the timeout of an item. The default is [five minutes](TIMEOUT).
    ///
    /// Work that takes longer is dropped at its next await and counts as failed: it is retried one
    /// second later, and its slot is free. Work that blocks its thread cannot be dropped: its lease
    /// is no longer renewed and expires, which counts towards [`max_crashes`](Self::max_crashes).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Leaves the timeout to the handler. The worker only acts on a thread that is blocked for
    /// longer.
    #[must_use]
    pub(crate) fn minding_its_time(mut self) -> Self {
        self.enforce_timeout = false;
        self
    }

    /// Sets the maximum number of items processed concurrently.
    ///
    /// Clones share the limit, so that several lanes of one queue can be limited together.
    #[must_use]
    pub fn max_concurrency(mut self, limit: usize) -> Self {
        self.limit = Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)));
        self
    }

    /// Sets after how many expired leases without progress an item is blocked. The default is 3.
    #[must_use]
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.max_crashes = crashes;
        self
    }

    /// Serves the queue outside of the worker's slots, for an item that is held as long as the
    /// worker lives.
    #[must_use]
    pub(crate) fn outside_the_pool(mut self) -> Self {
        self.pooled = false;
        self
    }

    /// Limits the items that are processed concurrently, over all processes.
    #[must_use]
    pub(crate) fn limited(mut self, limit: Option<GlobalLimit>) -> Self {
        self.global = limit;
        self
    }

    /// Limits the items that begin in a span of time, over all processes.
    #[must_use]
    pub(crate) fn paced(mut self, rate: Option<GlobalRate>) -> Self {
        self.rate = rate;
        self
    }

    /// Rejects a lease duration that no store grants.
    pub(super) fn check(&self) -> Result<()> {
        check_renewal(&[], self.lease)
            .map_err(|e| e.about(format_args!("queue {:?}", self.queue.as_str())))
    }

    /// Whether the leases of this item expired too often.
    pub(super) fn is_exhausted(&self, lease: &Lease) -> bool {
        lease.expiries >= self.max_crashes.max(1)
    }

    pub(super) fn request(&self, worker: &WorkerName, limit: usize) -> LeaseRequest {
        let request = LeaseRequest::new(&self.queue, worker, self.lease, limit);
        match &self.lane {
            Some(lane) => request.in_lane(lane),
            None => request,
        }
    }
}

impl fmt::Debug for QueueOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueOptions")
            .field("queue", &self.queue)
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}
