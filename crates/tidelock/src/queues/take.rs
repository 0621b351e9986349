//! Leasing what is due, and waiting for it.
//!
//! Whoever stops waiting leaves no lease behind: the asking is done by a task of its own, which
//! comes to its end, and what it was granted is given back if nobody is there to have it.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{
    ChangeHint, Commit, LaneName, Lease, LeaseRequest, Leased, QueueName, RawJson, Result,
    Settlement, Store, StoreError, Topic, WorkerName,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::keys;
use crate::deadline;
use crate::handle::Tidelock;

/// How long a lease is, unless something else is asked for.
const LEASE: Duration = Duration::from_secs(30);

/// How often it is looked without being told, at first and later: a signal may be lost, and some
/// never come from another process.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Leases of what is due: await it.
///
/// # Cancel safety
/// Whoever stops waiting has leased nothing: what was granted meanwhile is given back at once. Only
/// its attempt stays counted.
#[derive(Debug)]
#[must_use = "nothing is leased before this is awaited"]
pub struct LeaseItems {
    store: Arc<dyn Store>,
    request: Result<LeaseRequest>,
    within: Duration,
}

/// An item that was leased, and what was written beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedItems {
    /// The lease: its item, its fence, its deadline.
    pub lease: Lease,
    /// What whoever put it in wrote beside it: that of the put that woke it, or of a later one.
    pub data: Option<RawJson>,
}

impl LeaseItems {
    pub(super) fn new(tidelock: &Tidelock, queue: Result<QueueName>, worker: &str) -> Self {
        let request = queue
            .and_then(|queue| Ok(LeaseRequest::new(&queue, &WorkerName::new(worker)?, LEASE, 1)));
        Self { store: tidelock.store().clone(), request, within: Duration::ZERO }
    }

    /// The same, for so long; half a minute unless this says otherwise.
    pub fn lease(self, duration: Duration) -> Self {
        self.with(|request| request.duration = duration)
    }

    /// The same, up to so many; one unless this says otherwise.
    pub fn limit(self, limit: usize) -> Self {
        self.with(|request| request.limit = limit)
    }

    /// The same, from this lane only.
    pub fn lane(self, lane: LaneName) -> Self {
        self.with(|request| request.lane = Some(lane))
    }

    /// The same, waiting so long for something to be due; not at all unless this says otherwise.
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

    async fn take(self) -> Result<Vec<LeasedItems>> {
        let (store, request) = (self.store, self.request?);
        request.check()?;
        let (give, have) = oneshot::channel();
        tokio::spawn(ask(store.clone(), request, self.within, give));
        let granted =
            have.await.map_err(|_| StoreError::corrupt("whoever asked for leases has died"))??;
        let leases = with_data(&*store, granted.leases()).await?;
        granted.keep();
        Ok(leases)
    }
}

impl IntoFuture for LeaseItems {
    type Output = Result<Vec<LeasedItems>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.take().boxed()
    }
}

/// Asks until something is granted, the time is over, or nobody waits for it any more.
async fn ask(
    store: Arc<dyn Store>,
    request: LeaseRequest,
    within: Duration,
    mut give: oneshot::Sender<Result<Granted>>,
) {
    // Taken before the first look, so that nothing is missed between them.
    let mut signal = store.signal(Topic::Queue(request.queue.clone()));
    let (until, mut pause) = (deadline::after(within), PAUSES.0);
    let answer = loop {
        let leased = match store.lease(request.clone()).await {
            Ok(leased) => leased,
            Err(error) => break Err(error),
        };
        let left = until.saturating_duration_since(Instant::now());
        if !leased.leases.is_empty() || left.is_zero() {
            break Ok(Granted::new(&store, leased.leases));
        }
        tokio::select! {
            () = wait(&mut signal, pause.min(left).min(next(&leased))) => {}
            () = give.closed() => return,
        }
        pause = (pause * 2).min(PAUSES.1);
    };
    // If nobody is there to have it, it is given back by going away.
    let _had_or_given_back = give.send(answer);
}

async fn wait(signal: &mut ChangeHint, pause: Duration) {
    let _told_or_not = tokio::time::timeout(pause, signal.wait()).await;
}

/// How long until something is due by itself. Not nothing, though what is due already was somebody
/// else's a moment ago.
fn next(leased: &Leased) -> Duration {
    let due = leased.next_due.map_or(Duration::MAX, |due| due.since(leased.at));
    due.max(Duration::from_millis(1))
}

/// Leases that go back if they go away before somebody has them.
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
                tracing::warn!(%error, "leases that nobody has were not given back; they run out");
            }
        });
    }
}

async fn with_data(store: &dyn Store, leases: &[Lease]) -> Result<Vec<LeasedItems>> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<_> = leases.iter().map(|lease| keys::data(&lease.item)).collect();
    let data =
        store.get(&keys).await?.into_iter().map(|slot| slot.into_live().map(|record| record.value));
    Ok(leases.iter().cloned().zip(data).map(|(lease, data)| LeasedItems { lease, data }).collect())
}
