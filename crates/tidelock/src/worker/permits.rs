//! Permits: a limit of how many items are worked on at once, over all processes.
//!
//! A limit of `n` is a queue of `n` items, its permits. A worker leases a permit before it begins
//! with an item of the limited queue, and its leases are renewed with all others: so no two workers
//! have the same permit, and that of a dead process is free when its lease expires. Commits that
//! finish work are fenced by the permit, too, so a worker that has lost it finishes nothing.
//!
//! A permit is used again for the next item, without a call of the store, for as long as there is
//! work and other processes are not kept waiting for longer than [`TURN`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{
    Commit, ItemFilter, ItemQuery, LeaseRequest, QueueName, Result, Settlement, StoreError,
    StoreExt, Topic, Wake, When, limits,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::heartbeat::RenewalGuard;
use super::{LeasedTask, QueueOptions, WorkerShared, keys};

/// How long a worker uses a permit before it offers it to others.
const TURN: Duration = Duration::from_secs(1);

/// The highest global limit.
pub(crate) const MOST: u32 = 1_000;

/// A limit over all processes, for the options of a queue.
#[derive(Debug, Clone)]
pub(crate) struct GlobalLimit {
    queue: QueueName,
    permits: u32,
}

impl GlobalLimit {
    /// A limit of this name: of `permits` at once.
    pub(crate) fn new(name: &str, permits: u32) -> Result<Self> {
        if !(1..=MOST).contains(&permits) {
            return Err(StoreError::limit(format!(
                "a global concurrency of {permits}; it is between 1 and {MOST}"
            )));
        }
        let queue =
            keys::permits(name).map_err(|e| e.about("the name of a queue with a global limit"))?;
        Ok(Self { queue, permits })
    }
}

/// The permits of one queue that this worker has leased.
pub(super) struct Permits {
    shared: Arc<WorkerShared>,
    limit: GlobalLimit,
    /// The options of the permits' leases: as long as those of the limited items.
    options: QueueOptions,
    idle: Mutex<Vec<Leased>>,
    /// Notified when a permit is free again in this process.
    pub(super) returned: Notify,
}

/// A leased permit, which is renewed.
struct Leased {
    task: LeasedTask,
    since: Instant,
    _renewal: RenewalGuard,
}

/// A permit in use. Dropping it returns it.
pub(super) struct Permit {
    permits: Arc<Permits>,
    leased: Option<Leased>,
}

impl Permits {
    pub(super) fn new(
        shared: &Arc<WorkerShared>,
        limit: &GlobalLimit,
        options: &QueueOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: shared.clone(),
            limit: limit.clone(),
            options: options.clone(),
            idle: Mutex::default(),
            returned: Notify::new(),
        })
    }

    /// The topic of other processes that return permits.
    pub(super) fn topic(&self) -> Topic {
        Topic::Queue(self.limit.queue.clone())
    }

    /// Creates the permits that do not exist yet.
    pub(super) async fn prepare(&self) -> Result<()> {
        let store = &*self.shared.store;
        let query = ItemQuery::new(ItemFilter::queue(self.limit.queue.as_str()));
        let there = store.rows(query).all().await?;
        let is_ready = |nth: u32| {
            let permit = keys::permit(&self.limit.queue, nth);
            there.iter().any(|item| item.item == permit && !item.is_idle())
        };
        let missing = (1..=self.limit.permits).filter(|nth| !is_ready(*nth));
        let wakes: Vec<Wake> =
            missing.map(|nth| Wake::at(keys::permit(&self.limit.queue, nth), When::NOW)).collect();
        for wakes in wakes.chunks(limits::PARTS_PER_COMMIT) {
            let commit = wakes.iter().cloned().fold(Commit::new(), Commit::wake);
            let _woken = store.commit(commit.with_retry_id()).await?;
        }
        Ok(())
    }

    /// Takes idle permits of this process, at most this many.
    pub(super) fn take_idle(self: &Arc<Self>, most: usize) -> Vec<Permit> {
        let mut idle = self.lock();
        idle.retain(|leased| !leased.task.lost().is_cancelled());
        let from = idle.len().saturating_sub(most);
        let taken: Vec<Leased> = idle.drain(from..).collect();
        drop(idle);
        taken.into_iter().map(|leased| self.permit(leased)).collect()
    }

    /// Leases permits, at most this many.
    pub(super) async fn lease(self: &Arc<Self>, most: usize) -> Result<Vec<Permit>> {
        let most = most.min(limits::LEASES_PER_CALL);
        if most == 0 {
            return Ok(Vec::new());
        }
        let shared = &self.shared;
        let request = LeaseRequest::new(&self.limit.queue, &shared.name, self.options.lease, most);
        let leased = shared.store.lease(request).await?;
        let mut permits = Vec::new();
        let mut retired = Commit::new();
        for lease in leased.leases {
            let number = keys::number_of(&lease.item.key);
            if number.is_none_or(|nth| nth > self.limit.permits) {
                // The limit was lowered.
                retired = retired.settle(Settlement::finish(lease.token(), lease.mark, When::NOW));
                continue;
            }
            let task = LeasedTask::new(&shared.store, lease, &self.options, &shared.stopping, None);
            let renewal = shared.heartbeat.register(&task);
            permits.push(self.permit(Leased { task, since: Instant::now(), _renewal: renewal }));
        }
        if retired.parts() > 0 {
            let _retired = shared.store.commit(retired).await?;
        }
        Ok(permits)
    }

    /// Gives back permits that are not needed now.
    pub(super) async fn give_back(&self, permits: Vec<Permit>) {
        let mut leased: Vec<Leased> =
            permits.into_iter().filter_map(|mut permit| permit.leased.take()).collect();
        leased.append(&mut self.lock());
        self.release(leased).await;
    }

    async fn release(&self, leased: Vec<Leased>) {
        if leased.is_empty() {
            return;
        }
        let released = leased.iter().map(|leased| Settlement::release(leased.task.token()));
        let commit = released.fold(Commit::new(), Commit::settle);
        if let Err(error) = self.shared.store.commit(commit).await {
            tracing::warn!(queue = %self.limit.queue, %error, "permits could not be given back; they will expire");
        }
    }

    fn permit(self: &Arc<Self>, leased: Leased) -> Permit {
        Permit { permits: self.clone(), leased: Some(leased) }
    }

    /// Keeps a permit for the next item, or gives it back for another process.
    fn put_back(self: &Arc<Self>, leased: Leased) {
        let is_over = leased.since.elapsed() >= TURN || self.shared.stopping.is_cancelled();
        if leased.task.lost().is_cancelled() {
            return;
        }
        if !is_over {
            self.lock().push(leased);
            self.returned.notify_one();
            return;
        }
        let permits = self.clone();
        let release = async move {
            permits.release(vec![leased]).await;
            permits.returned.notify_one();
        };
        if tokio::runtime::Handle::try_current().is_ok() {
            self.shared.tasks.spawn(self.shared.dropped.clone().run_until_cancelled_owned(release));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Leased>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The lease that fences what is finished under it.
    pub(super) fn task(&self) -> Option<&LeasedTask> {
        self.leased.as_ref().map(|leased| &leased.task)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(leased) = self.leased.take() {
            self.permits.put_back(leased);
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("permits", &self.permits).finish_non_exhaustive()
    }
}
