//! A leased task: a lease in the hands of its handler.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Conflict, Lease, LeaseToken, Result, RetryAdvice, Settle, Settlement,
    Store, Timestamp, ViolationKind,
};
use tokio_util::sync::CancellationToken;

use super::timeout::Polls;
use super::{QueueOptions, TaskOutcome};
use crate::events::submit::Submission;

/// Initial and maximum backoff of a commit that the store could not take.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A leased item with access to its lease and the worker's state. Clones share the same task.
#[derive(Debug, Clone)]
pub struct LeasedTask {
    shared: Arc<TaskState>,
}

#[derive(Debug)]
struct TaskState {
    store: Arc<dyn Store>,
    lease: Lease,
    duration: Duration,
    timeout: Duration,
    polls: Polls,
    lost: CancellationToken,
    stopping: CancellationToken,
    /// The permit of a global limit that the task is worked on under.
    permit: Option<LeaseToken>,
}

impl LeasedTask {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        lease: Lease,
        options: &QueueOptions,
        stopping: &CancellationToken,
        permit: Option<LeaseToken>,
    ) -> Self {
        let (store, polls) = (store.clone(), Polls::default());
        let (duration, timeout) = (options.lease, options.timeout);
        let (lost, stopping) = (CancellationToken::new(), stopping.clone());
        Self {
            shared: Arc::new(TaskState {
                store,
                lease,
                duration,
                timeout,
                polls,
                lost,
                stopping,
                permit,
            }),
        }
    }

    /// Returns the lease as it was granted.
    pub fn lease(&self) -> &Lease {
        &self.shared.lease
    }

    /// Returns the lease token (fence) for commits.
    pub fn token(&self) -> LeaseToken {
        self.shared.lease.token()
    }

    /// Fences a commit by the permit of the task, if it has one: what is finished without a permit
    /// does not land. A task can be given up without one.
    pub(crate) fn under_permit(&self, commit: Commit) -> Commit {
        let finishes = |settlement: &Settlement| matches!(settlement.exit, Settle::Ack { .. });
        match &self.shared.permit {
            Some(permit)
                if commit.settlements.iter().all(finishes) && !commit.fences.contains(permit) =>
            {
                commit.fenced_by(permit.clone())
            }
            _ => commit,
        }
    }

    /// Returns the store of the item.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Returns a token that is cancelled when the lease is lost. Later commits under the lease are
    /// refused.
    pub fn lost(&self) -> &CancellationToken {
        &self.shared.lost
    }

    /// Returns a token that is cancelled when the worker shuts down. A handler may stop early then,
    /// but need not.
    pub fn stopping(&self) -> &CancellationToken {
        &self.shared.stopping
    }

    /// When the lease was granted, by the store's clock.
    pub(crate) fn granted_at(&self) -> Timestamp {
        let micros = i64::try_from(self.shared.duration.as_micros()).unwrap_or(i64::MAX);
        let granted = self.shared.lease.deadline.micros().saturating_sub(micros);
        Timestamp::from_micros(granted).unwrap_or(self.shared.lease.deadline)
    }

    /// The lease duration of each renewal.
    pub(super) fn duration(&self) -> Duration {
        self.shared.duration
    }

    /// Runs the task's work and records its polls.
    pub(super) async fn tracking_polls<T>(&self, work: impl Future<Output = T>) -> T {
        self.shared.polls.track(work).await
    }

    /// By how much the work has blocked its thread beyond the timeout, if it has. Its lease is not
    /// renewed then.
    pub(super) fn stuck_for(&self) -> Option<Duration> {
        self.shared.polls.overdue(self.shared.timeout)
    }

    /// Settles the lease in a commit of its own.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn settle(&self, settlement: Settlement) -> Result<TaskOutcome> {
        let settled = TaskOutcome::by(&settlement.exit);
        let outcome = self.commit(Commit::new().settle(settlement)).await?;
        Ok(outcome.committed().map_or(TaskOutcome::Lost, |_| settled))
    }

    /// Commits, with retries while the store is unavailable and the lease is held.
    ///
    /// The commit must carry this task's fence or settlement.
    ///
    /// # Errors
    /// Returns errors that a retry cannot resolve, and the last error once the lease is lost.
    pub async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let commit = with_retry_id(self.under_permit(commit));
        let mut submission = Submission::new(&*self.shared.store, &commit);
        let mut backoff = BACKOFF.0;
        loop {
            let error = match submission.send().await {
                Err(error) if error.advice() != RetryAdvice::Never => error,
                outcome => return outcome,
            };
            tracing::warn!(item = %self.shared.lease.item, %error, "a commit failed; retrying");
            tokio::select! {
                biased;
                () = self.shared.lost.cancelled() => return Err(error),
                () = tokio::time::sleep(backoff) => backoff = (backoff * 2).min(BACKOFF.1),
            }
        }
    }
}

/// Appends and settlements can be repeated as they are. Other parts need a commit id, so that a
/// retry is recognized.
fn with_retry_id(commit: Commit) -> Commit {
    let safe = commit.writes.is_empty()
        && commit.wakes.is_empty()
        && commit.trims.is_empty()
        && commit.restores.is_empty();
    if safe || commit.id.is_some() { commit } else { commit.with_retry_id() }
}

/// Whether the conflict means that the lease was lost.
pub(crate) fn is_loss(conflict: &Conflict) -> bool {
    conflict.has(ViolationKind::LeaseLost)
}
