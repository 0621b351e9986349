//! Distributed lock: mutual exclusion across processes, FIFO, released when its guard is dropped.
//!
//! A free lock without waiters is acquired in one commit. Other claimants join a wait queue in the
//! store, so that the order holds across processes. A lock whose holder died is taken over by
//! compare-and-swap when its lease has expired.

mod contended_locks;
mod held;
mod wait_queue;

use std::fmt;
use std::time::Duration;

use tidelock_store::{Commit, Fence, StoreError, Timestamp, Topic, WorkerName};

use super::acquire::{Acquire, AcquireOutcome, acquire};
use super::claim_attempt::{ClaimAttempt, ClaimStatus, Contender};
use super::claim_set::{ClaimSet, Hold};
use super::claim_wait::ClaimWait;
use super::entry::Entry;
use super::held_claim::LockKind;
use super::{AttachedLock, ClaimError, ClaimKey, Claims, LockGuard, keys};
use crate::outcome::Outcome;
use crate::retry::Retry;
use crate::telemetry;

pub(super) use wait_queue::{NoWaiters, QueuePosition, Waiter};

pub(crate) use contended_locks::ContendedLocks;
pub use held::LockHolder;

/// The default lease.
const LEASE: Duration = Duration::from_secs(3);

/// A distributed lock with its options.
#[derive(Debug, Clone)]
#[must_use = "nothing is locked until `acquire` is called"]
pub struct Lock {
    claims: Claims,
    key: ClaimKey,
    lease: Duration,
    retry: Retry,
}

type Acquired = Result<Outcome<LockGuard, LockBusy>, ClaimError>;

/// Runs the acquisition in its own task, so that a commit in flight is never abandoned: if the
/// caller has gone, the guard is dropped and releases the lock.
async fn run_to_completion(
    acquisition: impl Future<Output = Acquired> + Send + 'static,
) -> Acquired {
    match tokio::spawn(acquisition).await {
        Ok(outcome) => outcome,
        Err(died) if died.is_panic() => std::panic::resume_unwind(died.into_panic()),
        Err(_) => {
            Err(StoreError::invalid("a lock was asked for while the runtime was shut down").into())
        }
    }
}

/// A lock that another claimant holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "claim {key:?}: {by:?} has it (attempts: {attempts}, in {waited:?}); wait longer, or try again later"
)]
pub struct LockBusy {
    /// The lock.
    pub key: ClaimKey,
    /// Its holder, or the first waiter.
    pub by: WorkerName,
    /// When it was acquired.
    pub since: Option<Timestamp>,
    /// When the lease expires, unless it is renewed.
    pub until: Option<Timestamp>,
    /// How long this call waited.
    pub waited: Duration,
    /// Number of attempts.
    pub attempts: u32,
}

impl Lock {
    pub(super) fn new(claims: Claims, name: &str) -> Self {
        let key = ClaimKey::new(keys::LOCK, &name);
        Self { claims, key, lease: LEASE, retry: Retry::default() }
    }

    /// Narrows the lock to a scope: one lock per scope.
    pub fn of(mut self, scope: impl fmt::Display) -> Self {
        self.key = self.key.part(&scope);
        self
    }

    /// Sets the lease: how long the lock stays held after its holder died.
    ///
    /// The default is three seconds. The lease is renewed while the guard lives, so it need not be
    /// as long as the work.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the retry policy: how long to wait for the lock, and how often to look meanwhile.
    ///
    /// The time limit counts from the call. A hint of the store wakes a waiter before its pause is
    /// over. The default is half a second; [`Retry::never`] does not wait.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how long to wait for the lock.
    pub fn within(mut self, limit: Duration) -> Self {
        self.retry = self.retry.within(limit);
        self
    }

    /// Returns the lock's name.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Acquires the lock, waiting in the queue if necessary.
    ///
    /// # Errors
    /// `Store` if the store fails, or the name is invalid.
    ///
    /// # Cancel safety
    /// A dropped future leaves the wait queue, at the latest when its entry expires, and holds no
    /// lock: one granted meanwhile is released at once. Under an [operation
    /// id](Claims::operation_id) it is kept for a repeat of the call, until its lease expires.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let till = tidelock.claims().lock("till").of("shop-7");
    /// let guard = till.acquire().await?.granted()?;
    ///
    /// let busy = till.clone().within(Duration::ZERO).acquire().await?;
    /// assert!(!busy.is_granted());
    ///
    /// guard.release().await?;
    /// assert!(till.acquire().await?.is_granted());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Outcome<LockGuard, LockBusy>, ClaimError> {
        let mut waiting = ClaimWait::begin(self.retry);
        let (lock, first) = (self.clone(), waiting);
        let outcome = match run_to_completion(async move { lock.try_acquire(&first).await }).await?
        {
            Outcome::Refused(_) if waiting.may_wait() => self.wait_in_queue(&mut waiting).await?,
            outcome => outcome,
        };
        let name = if outcome.is_granted() { "won" } else { "held" };
        telemetry::claimed(&self.key, &self.claims.by, name);
        Ok(outcome.map(|mut guard| {
            guard.kind.is_kept = false;
            guard
        }))
    }

    /// Continues a lock that was [detached](super::HeldClaim::detach), by its fence.
    pub fn attach(&self, fence: Fence) -> AttachedLock {
        AttachedLock::new(&self.claims, &self.key, fence)
    }

    /// Returns the holder; `None` if the lock is free or the holder's lease has expired.
    ///
    /// # Errors
    /// `Store` if the store fails, or the name is invalid.
    pub async fn holder(&self) -> Result<Option<LockHolder>, ClaimError> {
        LockHolder::of(&self.claims, &self.key).await
    }

    pub(super) fn attempt(&self) -> Result<ClaimAttempt, StoreError> {
        ClaimAttempt::new(self.key.clone(), Entry::pending(&self.claims, None), self.lease)
    }

    /// Acquires the lock if it is free and has no waiters.
    async fn try_acquire(&self, waiting: &ClaimWait) -> Acquired {
        let (mut attempt, mut waiter) = (self.attempt()?, NoWaiters::new(&self.key)?);
        let outcome =
            acquire(&self.claims, &mut [&mut attempt, &mut waiter], Commit::new()).await?;
        if outcome == AcquireOutcome::Refused && !attempt.has_status() {
            return match Waiter::new(&self.claims, &self.key)?.first().await? {
                Some(by) => Ok(Outcome::Refused(self.busy(waiting, by, None))),
                // The waiters are gone, and only their mark is left.
                None => self.acquire_with(waiting, Commit::new()).await,
            };
        }
        Ok(self.outcome(waiting, &mut attempt, outcome))
    }

    async fn acquire_with(&self, waiting: &ClaimWait, with: Commit) -> Acquired {
        let mut attempt = self.attempt()?;
        let outcome = acquire(&self.claims, &mut [&mut attempt as &mut dyn Acquire], with).await?;
        Ok(self.outcome(waiting, &mut attempt, outcome))
    }

    async fn acquire_in_queue(&self, waiting: ClaimWait, leave: Commit) -> Acquired {
        let lock = self.clone();
        run_to_completion(async move { lock.acquire_with(&waiting, leave).await }).await
    }

    /// Waits in the queue until this caller is first and the lock is free, or until the time limit.
    async fn wait_in_queue(&self, waiting: &mut ClaimWait) -> Acquired {
        let mut freed = self.claims.store().signal(Topic::Record(keys::record(&self.key)?));
        let mut waiter = Waiter::new(&self.claims, &self.key)?;
        loop {
            let (busy, ahead) = match waiter.position().await? {
                QueuePosition::First(leave) => match self.acquire_in_queue(*waiting, leave).await {
                    Ok(Outcome::Refused(busy)) => (busy, None),
                    Ok(Outcome::Granted(guard)) => {
                        waiter.forget_slot();
                        return Ok(Outcome::Granted(guard));
                    }
                    // The queue entry expired meanwhile; the queue number is kept.
                    Err(ClaimError::Refused { .. }) => {
                        waiter.forget_slot();
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                QueuePosition::Behind(ahead) => {
                    (self.busy(waiting, ahead.by, None), Some(ahead.slot))
                }
            };
            let mut ahead = ahead.map(|slot| self.claims.store().signal(Topic::Record(slot)));
            let signal = ahead.as_mut().unwrap_or(&mut freed);
            if !waiting.next(signal, self.claims.tidelock.random()).await {
                waiter.leave().await?;
                return Ok(Outcome::Refused(self.timed_out(busy, waiting)));
            }
        }
    }

    fn outcome(
        &self,
        waiting: &ClaimWait,
        attempt: &mut ClaimAttempt,
        outcome: AcquireOutcome,
    ) -> Outcome<LockGuard, LockBusy> {
        match (attempt.status(), outcome) {
            (ClaimStatus::Won(revision), AcquireOutcome::Won(at)) => {
                let hold = Hold::new(attempt, revision, at);
                let kind = LockKind { is_kept: self.claims.operation.is_some() };
                Outcome::Granted(LockGuard::new(ClaimSet::renewing(&self.claims, hold), kind))
            }
            (ClaimStatus::Held(contender), _) => {
                Outcome::Refused(self.busy(waiting, contender.by().clone(), Some(&contender)))
            }
            (ClaimStatus::Won(_) | ClaimStatus::Over(_), _) => unreachable!("a lock has no result"),
        }
    }

    fn busy(&self, waiting: &ClaimWait, by: WorkerName, contender: Option<&Contender>) -> LockBusy {
        telemetry::claim_contended(&self.key, &self.claims.by, &by, waiting.polls + 1);
        LockBusy {
            key: self.key.clone(),
            by,
            since: contender.and_then(|contender| contender.since),
            until: contender.and_then(|contender| contender.until),
            waited: waiting.waited(),
            attempts: waiting.polls + 1,
        }
    }

    fn timed_out(&self, busy: LockBusy, waiting: &ClaimWait) -> LockBusy {
        telemetry::claim_wait_timed_out(&self.key, &self.claims.by, &busy.by, waiting.polls + 1);
        LockBusy { waited: waiting.waited(), attempts: waiting.polls + 1, ..busy }
    }
}
