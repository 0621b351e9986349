//! A queue that a worker serves, and how.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::plan::check_renewal;
use tidelock_store::{LaneName, Lease, LeaseRequest, QueueName, Result, WorkerName};
use tokio::sync::Semaphore;

use super::{QueueHandler, TIMEOUT};

/// A queue, or one lane of it, with the work that its items stand for.
#[derive(Clone)]
pub struct QueueOptions {
    pub(super) queue: QueueName,
    pub(super) work: Arc<dyn QueueHandler>,
    pub(super) lease: Duration,
    pub(super) timeout: Duration,
    /// Whether the worker ends work that takes longer; if not, the work sees to that itself.
    pub(super) cuts: bool,
    expiries: u32,
    lane: Option<LaneName>,
    pub(super) limit: Arc<Semaphore>,
    pub(super) pooled: bool,
}

impl QueueOptions {
    /// All lanes of this queue, leased for 30 seconds at a time, with [five minutes](TIMEOUT) for
    /// each item and as many of them at once as the worker has slots for; an item whose lease ran
    /// out three times is blocked.
    pub fn new(queue: &QueueName, work: Arc<dyn QueueHandler>) -> Self {
        Self {
            queue: queue.clone(),
            work,
            lease: Duration::from_secs(30),
            timeout: TIMEOUT,
            cuts: true,
            expiries: 3,
            lane: None,
            limit: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            pooled: true,
        }
    }

    /// The same, from this lane only.
    #[must_use]
    pub fn in_lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// The same, leased for this long at a time. The worker renews at a third of it.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The same, with this much time for an item. Work that takes longer is dropped where it waits,
    /// and counts as failed: it is retried a second later, and its slot is free. Work that blocks
    /// its thread cannot be dropped: its lease is renewed no more, and runs out, which
    /// [`expiries`](Self::max_crashes) counts. The default is [five minutes](TIMEOUT).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same; the work ends in time by itself, and only a thread that it blocks for longer is
    /// the worker's affair.
    #[must_use]
    pub(crate) fn minding_its_time(mut self) -> Self {
        self.cuts = false;
        self
    }

    /// The same, with this many items at once at most. Lanes of one queue that are served with
    /// clones share the limit.
    #[must_use]
    pub fn max_concurrency(mut self, limit: usize) -> Self {
        self.limit = Arc::new(Semaphore::new(limit.clamp(1, Semaphore::MAX_PERMITS)));
        self
    }

    /// The same, blocked after this many leases ran out without progress.
    #[must_use]
    pub fn max_crashes(mut self, budget: u32) -> Self {
        self.expiries = budget;
        self
    }

    /// The same, outside the worker's pool of slots: for an item that is held for as long as the
    /// worker lives.
    #[must_use]
    pub(crate) fn outside_the_pool(mut self) -> Self {
        self.pooled = false;
        self
    }

    /// Refuses a lease that no store grants.
    pub(super) fn check(&self) -> Result<()> {
        check_renewal(&[], self.lease)
            .map_err(|e| e.about(format_args!("queue {:?}", self.queue.as_str())))
    }

    /// Whether too many holders of this item died over it.
    pub(super) fn is_spent(&self, lease: &Lease) -> bool {
        lease.expiries >= self.expiries.max(1)
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
        f.debug_struct("Served")
            .field("queue", &self.queue)
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}
