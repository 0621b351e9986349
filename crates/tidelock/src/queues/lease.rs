//! Leasing due items, and waiting for them.
//!
//! A cancelled call leaves no lease behind: the request runs in its own task to the end, and leases
//! without a receiver are released.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{
    ChangeHint, Commit, LaneName, Lease, LeaseRequest, Leased, QueueName, RawJson, Result,
    Settlement, Store, StoreError, Topic, WorkerName, limits,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::keys;
use crate::deadline;
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::pauses::{PauseSubject, Pauses};
use crate::telemetry;
use crate::trace_context::TraceContext;

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);

/// Poll intervals, first and maximum: a hint may be lost, and some stores send none across
/// processes.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A request for leases of due items: await it.
///
/// # Cancel safety
/// A dropped future leases nothing: items granted meanwhile are released at once. Only the attempt
/// stays counted.
#[derive(Debug)]
#[must_use = "nothing is leased until this is awaited"]
pub struct LeaseItems {
    store: Arc<dyn Store>,
    pauses: Arc<Pauses>,
    request: Result<LeaseRequest>,
    within: Duration,
}

/// A leased item and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedItem {
    /// The lease: its item, fence and deadline.
    pub lease: Lease,
    /// The data stored with the item: that of the enqueue that woke it, or of a later one.
    pub data: Option<RawJson>,
    /// The trace in which it was enqueued: that of the last enqueue that was part of one.
    pub trace: Option<TraceContext>,
}

impl LeaseItems {
    pub(super) fn new(tidelock: &Tidelock, queue: Result<QueueName>, worker: &str) -> Self {
        let request = queue
            .and_then(|queue| Ok(LeaseRequest::new(&queue, &WorkerName::new(worker)?, LEASE, 1)));
        let (store, pauses) = (tidelock.store().clone(), tidelock.known_pauses().clone());
        Self { store, pauses, request, within: Duration::ZERO }
    }

    /// Sets the duration of the lease. The default is 30 seconds.
    pub fn duration(self, duration: Duration) -> Self {
        self.with(|request| request.duration = duration)
    }

    /// Sets the maximum number of items. The default is one.
    pub fn limit(self, limit: usize) -> Self {
        self.with(|request| request.limit = limit)
    }

    /// Restricts the request to a lane.
    pub fn lane(self, lane: LaneName) -> Self {
        self.with(|request| request.lane = Some(lane))
    }

    /// Sets how long to wait for a due item. By default it does not wait.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut LeaseRequest)) -> Self {
        if let Ok(request) = &mut self.request {
            change(request);
        }
        self
    }

    async fn request(self) -> Result<Vec<LeasedItem>> {
        let (store, request) = (self.store, self.request?);
        request.check()?;
        let (sender, receiver) = oneshot::channel();
        let unpaused = Unpaused { store: store.clone(), pauses: self.pauses };
        tokio::spawn(request_leases(unpaused, request, self.within, sender));
        let granted = receiver
            .await
            .map_err(|_| StoreError::corrupt("the task that requested leases has panicked"))??;
        let leases = with_data(&*store, granted.leases()).await?;
        telemetry::leased_by_caller(granted.leases());
        granted.keep();
        Ok(leases)
    }
}

impl IntoFuture for LeaseItems {
    type Output = Result<Vec<LeasedItem>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.request().boxed()
    }
}

/// Leases items, unless their queue is paused: then there are none.
struct Unpaused {
    store: Arc<dyn Store>,
    pauses: Arc<Pauses>,
}

impl Unpaused {
    async fn lease(&self, request: &LeaseRequest) -> Result<Leased> {
        let is_paused = match PauseSubject::of(&request.queue) {
            Some(subject) => self.pauses.has(&subject).await?,
            None => false,
        };
        match is_paused {
            true => Ok(Leased { at: self.store.now().await?, leases: Vec::new(), next_due: None }),
            false => self.store.lease(request.clone()).await,
        }
    }
}

/// Requests leases until some are granted, the time is over, or the receiver is dropped.
async fn request_leases(
    unpaused: Unpaused,
    request: LeaseRequest,
    within: Duration,
    mut sender: oneshot::Sender<Result<Granted>>,
) {
    let store = unpaused.store.clone();
    // Subscribed before the first request, so that no hint is missed.
    let mut signal = store.signal(Topic::Queue(request.queue.clone()));
    let (until, mut pause) = (deadline::after(within), POLL_INTERVALS.0);
    let answer = loop {
        let leased = match unpaused.lease(&request).await {
            Ok(leased) => leased,
            Err(error) => break Err(error),
        };
        let left = until.saturating_duration_since(Instant::now());
        if !leased.leases.is_empty() || left.is_zero() {
            break Ok(Granted::new(&store, leased.leases));
        }
        tokio::select! {
            biased;
            () = sender.closed() => return,
            () = wait(&mut signal, pause.min(left).min(until_next_due(&leased))) => {}
        }
        pause = (pause * 2).min(POLL_INTERVALS.1);
    };
    // Without a receiver, dropping the answer releases the leases.
    let _had_or_given_back = sender.send(answer);
}

async fn wait(signal: &mut ChangeHint, pause: Duration) {
    let _told_or_not = tokio::time::timeout(pause, signal.wait()).await;
}

/// Time until the next item is due. At least a millisecond: an item that is due now was just leased
/// by another worker.
fn until_next_due(leased: &Leased) -> Duration {
    let due = leased.next_due.map_or(Duration::MAX, |due| due.since(leased.at));
    due.max(Duration::from_millis(1))
}

/// Leases that are released on drop, unless they were received.
#[derive(Debug)]
struct Granted {
    store: Arc<dyn Store>,
    leases: Vec<Lease>,
}

impl Granted {
    fn new(store: &Arc<dyn Store>, leases: Vec<Lease>) -> Self {
        Self { store: store.clone(), leases }
    }

    fn leases(&self) -> &[Lease] {
        &self.leases
    }

    fn keep(mut self) {
        self.leases.clear();
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.leases.is_empty() {
            return;
        }
        let released = self.leases.iter().map(|lease| Settlement::release(lease.token()));
        let (store, commit) = (self.store.clone(), released.fold(Commit::new(), Commit::settle));
        runtime.spawn(async move {
            if let Err(error) = store.commit(commit).await {
                tracing::warn!(%error, "leases without a receiver were not released; they will expire");
            }
        });
    }
}

async fn with_data(store: &dyn Store, leases: &[Lease]) -> Result<Vec<LeasedItem>> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let names = |lease: &Lease| [keys::data(&lease.item), keys::trace(&lease.item)];
    let mut items = Vec::with_capacity(leases.len());
    // Each item has two records, and a call reads as many as a call leases items.
    for leases in leases.chunks(limits::LEASES_PER_CALL / 2) {
        let keys: Vec<_> = leases.iter().flat_map(names).collect();
        let mut slots = store.get(&keys).await?.into_iter();
        let mut value = || slots.next().and_then(|slot| Some(slot.into_live()?.value));
        for lease in leases {
            let (data, trace) = (value(), value());
            let trace = trace.and_then(|trace| Metadata::from_json(&trace).trace);
            items.push(LeasedItem { lease: lease.clone(), data, trace });
        }
    }
    Ok(items)
}
