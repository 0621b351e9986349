//! A leased item in the hands of its work.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Conflict, Lease, LeaseToken, Result, RetryAdvice, Settlement, Store,
    Timestamp, ViolationKind,
};
use tokio_util::sync::CancellationToken;

use super::polls::Polls;
use super::{QueueOptions, TaskOutcome};

/// The pauses between two tries of a commit that the store could not take.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A leased item: the lease, and what its work needs to know of the worker. Clones are handles on
/// the same.
#[derive(Debug, Clone)]
pub struct LeasedTask {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    lease: Lease,
    duration: Duration,
    timeout: Duration,
    polls: Polls,
    lost: CancellationToken,
    stopping: CancellationToken,
}

impl LeasedTask {
    pub(super) fn new(
        store: &Arc<dyn Store>,
        lease: Lease,
        served: &QueueOptions,
        stopping: &CancellationToken,
    ) -> Self {
        let (store, polls) = (store.clone(), Polls::default());
        let (duration, timeout) = (served.lease, served.timeout);
        let (lost, stopping) = (CancellationToken::new(), stopping.clone());
        Self { shared: Arc::new(Shared { store, lease, duration, timeout, polls, lost, stopping }) }
    }

    /// The lease, as it was granted.
    pub fn lease(&self) -> &Lease {
        &self.shared.lease
    }

    /// The proof to put into commits.
    pub fn token(&self) -> LeaseToken {
        self.shared.lease.token()
    }

    /// The store that the item is in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Cancelled when the lease was lost: whatever the work goes on to commit is refused.
    pub fn lost(&self) -> &CancellationToken {
        &self.shared.lost
    }

    /// Cancelled when the worker is being shut down: a good moment to stop early, and no need to.
    pub fn stopping(&self) -> &CancellationToken {
        &self.shared.stopping
    }

    /// When the lease was granted, by the store's clock.
    pub(crate) fn granted_at(&self) -> Timestamp {
        let micros = i64::try_from(self.shared.duration.as_micros()).unwrap_or(i64::MAX);
        let granted = self.shared.lease.deadline.micros().saturating_sub(micros);
        Timestamp::from_micros(granted).unwrap_or(self.shared.lease.deadline)
    }

    /// How long each renewal makes the lease last.
    pub(super) fn duration(&self) -> Duration {
        self.shared.duration
    }

    /// Drives the work of this task, and notes when it is polled.
    pub(super) async fn noting_polls<T>(&self, work: impl Future<Output = T>) -> T {
        self.shared.polls.note(work).await
    }

    /// How much longer than it may the work has blocked its thread; nothing if it does not. Its
    /// lease is not renewed then.
    pub(super) fn stuck_for(&self) -> Option<Duration> {
        self.shared.polls.overdue(self.shared.timeout)
    }

    /// Settles the lease and nothing else.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn settle(&self, settlement: Settlement) -> Result<TaskOutcome> {
        let settled = TaskOutcome::by(&settlement.exit);
        let outcome = self.commit(Commit::new().settle(settlement)).await?;
        Ok(outcome.committed().map_or(TaskOutcome::Lost, |_| settled))
    }

    /// Makes a commit, again and again while the store cannot take it, and stops trying only when
    /// the lease is lost. The commit must carry this task's fence or settlement.
    ///
    /// # Errors
    /// What trying again cannot help; and the last failure, once the lease is lost.
    pub async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let commit = repeatable(commit);
        let mut pause = PAUSES.0;
        loop {
            let error = match self.shared.store.commit(commit.clone()).await {
                Err(error) if error.advice() != RetryAdvice::Never => error,
                outcome => return outcome,
            };
            tracing::warn!(item = %self.shared.lease.item, %error, "a commit could not be made; trying again");
            tokio::select! {
                () = self.shared.lost.cancelled() => return Err(error),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSES.1),
            }
        }
    }
}

/// Appends and settlements can be sent twice as they are; other parts need an id to be told from a
/// second wish.
fn repeatable(commit: Commit) -> Commit {
    let safe = commit.writes.is_empty()
        && commit.wakes.is_empty()
        && commit.trims.is_empty()
        && commit.restores.is_empty();
    if safe || commit.id.is_some() { commit } else { commit.with_retry_id() }
}

/// Whether the conflict means that the lease is somebody else's now.
pub(crate) fn is_loss(conflict: &Conflict) -> bool {
    conflict.has(ViolationKind::LeaseLost)
}
