//! Compound claims: several claims acquired in one commit, all or none. There is nothing to clean
//! up, no lock order to respect, and no deadlock.
//!
//! All parts share one lease that ends at the same time. Units of quotas are reserved until then,
//! and confirmed when the compound is completed. If other claimants wait for some of the locks, the
//! compound joins all those wait queues with numbers assigned in one commit. The order is the same
//! in every queue, so two compounds never wait for each other.

mod guard;
mod refusal;

use std::collections::HashSet;
use std::time::Duration;

use tidelock_store::{Commit, RecordKey, Result as Stored, StoreError, Timestamp, Topic};

use super::acquire::{Acquire, AcquireOutcome, acquire};
use super::claim_attempt::ClaimAttempt;
use super::claim_set::{ClaimSet, Hold};
use super::claim_wait::ClaimWait;
use super::held_claim::CompoundKind;
use super::lease_term::{self, LeaseTerm};
use super::lock::{NoWaiters, QueuePosition, Waiter};
use super::quota::{Debit, shared_end};
use super::{ClaimError, ClaimKey, Claims, CompoundGuard, Idempotency, Lock, Quota, Singleton};
use crate::outcome::Outcome;
use crate::retry::Retry;
use crate::telemetry;

pub use refusal::{Refusal, RefusalReason, Refusals};

/// Number of attempts while quota windows end or room is made in them.
const ATTEMPTS: u32 = 32;
/// The default lease if only quotas are held.
const LEASE: Duration = Duration::from_secs(30);

type Acquired = Result<Outcome<CompoundGuard, Refusals>, ClaimError>;

/// Several claims to acquire together.
#[derive(Debug, Clone)]
#[must_use = "nothing is claimed until `claim` is called"]
pub struct Compound {
    claims: Claims,
    idempotencies: Vec<Idempotency>,
    singletons: Vec<Singleton>,
    locks: Vec<Lock>,
    quotas: Vec<(Quota, u32)>,
    with: Commit,
    retry: Retry,
    lease: Option<Duration>,
}

impl Compound {
    pub(super) fn new(claims: Claims) -> Self {
        Self {
            claims,
            idempotencies: Vec::new(),
            singletons: Vec::new(),
            locks: Vec::new(),
            quotas: Vec::new(),
            with: Commit::new(),
            retry: Retry::never(),
            lease: None,
        }
    }

    /// Adds an idempotency key.
    pub fn idempotency(mut self, idempotency: &Idempotency) -> Self {
        self.idempotencies.push(idempotency.clone());
        self
    }

    /// Adds a singleton.
    pub fn singleton(mut self, singleton: &Singleton) -> Self {
        self.singletons.push(singleton.clone());
        self
    }

    /// Adds a lock. Other waiters of the lock come first.
    pub fn lock(mut self, lock: &Lock) -> Self {
        self.locks.push(lock.clone());
        self
    }

    /// Adds units of a quota: reserved while the compound is held, and debited when it is
    /// completed.
    pub fn quota(mut self, quota: &Quota, units: u32) -> Self {
        self.quotas.push((quota.clone(), units));
        self
    }

    /// Adds the parts of a commit, which is committed with the claims or not at all.
    pub fn with(mut self, commit: Commit) -> Self {
        self.with = commit;
        self
    }

    /// Sets how long to wait if only locks are refused. By default it does not wait.
    pub fn within(self, limit: Duration) -> Self {
        self.retry(Retry::default().within(limit))
    }

    /// Sets the retry policy for refused locks.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the lease of all parts: how long they stay held after their holder died.
    ///
    /// The default is the shortest lease of the parts, or 30 seconds if there are only quotas. The
    /// lease is renewed while the guard lives, so it need not be as long as the work.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Acquires all claims in one commit, or returns which were refused.
    ///
    /// # Errors
    /// `Refused` if a part of the added commit is rejected; `Store` if the store failed.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    /// use tidelock::claims::RefusalReason;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let claims = tidelock.claims();
    /// let (lock, quota) = (claims.lock("till"), claims.quota("tickets", 2));
    /// let both = claims.claim_all().lock(&lock).quota(&quota, 2);
    ///
    /// let mut held = both.claim().await?.granted()?;
    /// held.complete(&()).await?;
    ///
    /// let Outcome::Refused(refusals) = both.claim().await? else { panic!("all are taken") };
    /// assert!(matches!(refusals[0].why, RefusalReason::Exceeded(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim(&self) -> Result<Outcome<CompoundGuard, Refusals>, ClaimError> {
        let mut waiting = ClaimWait::begin(self.retry);
        let refusals = match self.attempt(self.no_waiters()?, Commit::new()).await? {
            Outcome::Refused(refusals) => refusals,
            won => return Ok(won),
        };
        if !waiting.may_wait() || !refusals.are_locks() {
            return Ok(Outcome::Refused(refusals));
        }
        for refusal in refusals.iter() {
            refusal.report(&self.claims.by, 1);
        }
        let waiters = self.locks.iter().map(|lock| Waiter::new(&self.claims, lock.key()));
        let mut waiters = waiters.collect::<Stored<Vec<_>>>()?;
        let outcome = self.wait_in_queues(&mut waiters, &mut waiting).await;
        for waiter in waiters {
            waiter.leave().await?;
        }
        outcome
    }

    /// Waits in the queue of every lock until this compound is first in all of them and everything
    /// can be acquired, or until the time limit.
    async fn wait_in_queues(&self, waiters: &mut [Waiter], waiting: &mut ClaimWait) -> Acquired {
        Waiter::assign_numbers(waiters).await?;
        loop {
            let (refusals, wait_for) = match positions(waiters).await? {
                Positions::First(leave) => match self.attempt(Vec::new(), leave).await {
                    Ok(Outcome::Refused(refusals)) => match refusals.lock_to_wait_for()? {
                        Some(record) => (refusals, record),
                        None => return Ok(Outcome::Refused(refusals)),
                    },
                    Ok(won) => {
                        waiters.iter_mut().for_each(Waiter::forget_slot);
                        return Ok(won);
                    }
                    // A queue entry expired meanwhile; the queue number is kept.
                    Err(ClaimError::Refused { conflict, .. })
                        if waiters.iter().any(|waiter| waiter.has_lost_slot(&conflict)) =>
                    {
                        waiters
                            .iter_mut()
                            .filter(|waiter| waiter.has_lost_slot(&conflict))
                            .for_each(Waiter::forget_slot);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                Positions::Behind(refusal, slot) => (Refusals(vec![refusal]), slot),
            };
            for refusal in refusals.iter() {
                refusal.report(&self.claims.by, waiting.polls + 1);
            }
            let mut signal = self.claims.store().signal(Topic::Record(wait_for));
            if !waiting.next(&mut signal, self.claims.tidelock.random()).await {
                return Ok(Outcome::Refused(refusals));
            }
        }
    }

    /// Tries to acquire everything, under these conditions and with these writes in the commit.
    async fn attempt(&self, mut no_waiters: Vec<NoWaiters>, leave: Commit) -> Acquired {
        let mut attempts = self.attempts().await?;
        self.check(&attempts)?;
        let mut debits = self.debits().await?;
        let first =
            attempts.first().map(|attempt| &attempt.key).or(debits.first().map(Acquire::key));
        let Some(first) = first.cloned() else {
            return Err(StoreError::invalid("a compound of nothing was claimed").into());
        };
        let lease = self.shared_lease(&first, &attempts)?;
        let with = leave.writes.into_iter().fold(self.with.clone(), Commit::write);
        for _ in 0..ATTEMPTS {
            self.set_end(&mut attempts, &mut debits, lease).await?;
            let requests = attempts.iter_mut().map(|attempt| attempt as &mut dyn Acquire);
            let requests = requests.chain(debits.iter_mut().map(|debit| debit as &mut dyn Acquire));
            let mut requests: Vec<_> = requests
                .chain(no_waiters.iter_mut().map(|no_waiters| no_waiters as &mut dyn Acquire))
                .collect();
            if let AcquireOutcome::Won(at) =
                acquire(&self.claims, &mut requests, with.clone()).await?
            {
                let all = self.guard(&first, attempts, debits, at, lease).await?;
                telemetry::claimed(&first, &self.claims.by, "won");
                return Ok(Outcome::Granted(all));
            }
            let mut refusals = self.refusals(&mut attempts, &mut debits).await?;
            refusals.extend(self.refusals_by_waiters(&mut no_waiters).await?);
            if !refusals.is_empty() {
                telemetry::claimed(&first, &self.claims.by, "refused");
                return Ok(Outcome::Refused(Refusals(refusals)));
            }
        }
        Err(ClaimError::Contended { key: first, attempts: ATTEMPTS })
    }

    /// Rejects a claim that is listed twice.
    fn check(&self, attempts: &[ClaimAttempt]) -> Stored<()> {
        let attempts = attempts.iter().map(|attempt| attempt.key.clone());
        let mut keys = HashSet::new();
        for key in attempts.chain(self.quotas.iter().map(|(quota, _)| quota.key())) {
            if let Some(twice) = keys.replace(key) {
                return Err(StoreError::invalid(format!(
                    "claim {twice:?}: it is there twice in one compound; ask for it once"
                )));
            }
        }
        Ok(())
    }

    /// Creates the guard of the acquired claims.
    async fn guard(
        &self,
        first: &ClaimKey,
        attempts: Vec<ClaimAttempt>,
        debits: Vec<Debit>,
        at: Timestamp,
        lease: Duration,
    ) -> Result<CompoundGuard, ClaimError> {
        let mut holds = Vec::new();
        for mut attempt in attempts {
            // Under an operation id, a part that was acquired before may have been released since.
            let revision = attempt
                .won_under()
                .ok_or_else(|| ClaimError::Settled { key: attempt.key.clone() })?;
            holds.push(Hold::new(&attempt, revision, at));
        }
        let mut pledges = Vec::new();
        for (debit, (quota, _)) in debits.into_iter().zip(&self.quotas) {
            pledges.push(debit.into_pledge(quota).await?);
        }
        let set = ClaimSet::renewing_all(&self.claims, first, holds, pledges, lease);
        let kind = CompoundKind::of(&set);
        Ok(CompoundGuard::new(set, kind))
    }

    /// Returns the common lease.
    fn shared_lease(&self, key: &ClaimKey, attempts: &[ClaimAttempt]) -> Stored<Duration> {
        let shortest = attempts.iter().filter_map(|attempt| attempt.lease).min();
        let lease = self.lease.or(shortest).unwrap_or(LEASE);
        lease_term::check(key, "lease", lease)?;
        Ok(lease)
    }

    /// Sets the common end of all leases and reservations.
    async fn set_end(
        &self,
        attempts: &mut [ClaimAttempt],
        debits: &mut [Debit],
        lease: Duration,
    ) -> Result<(), ClaimError> {
        let term = match debits.is_empty() {
            true => LeaseTerm::lasting(lease),
            false => {
                let now = self.claims.store().now().await?;
                let end = shared_end(now, lease);
                for (debit, (quota, _)) in debits.iter_mut().zip(&self.quotas) {
                    debit.reserve_until(quota, end).await?;
                }
                LeaseTerm::until(end, now)
            }
        };
        for attempt in attempts {
            attempt.lease = Some(lease);
            attempt.term = Some(term);
        }
        Ok(())
    }

    /// Conditions that the wait queues of the locks are empty.
    fn no_waiters(&self) -> Stored<Vec<NoWaiters>> {
        self.locks.iter().map(|lock| NoWaiters::new(lock.key())).collect()
    }

    /// Returns refusals for the locks with waiters. Conditions on queues that have become empty are
    /// dropped.
    async fn refusals_by_waiters(
        &self,
        no_waiters: &mut Vec<NoWaiters>,
    ) -> Result<Vec<Refusal>, ClaimError> {
        let mut refusals = Vec::new();
        for no_waiters in no_waiters.iter().filter(|no_waiters| no_waiters.failed) {
            if let Some(by) = Waiter::new(&self.claims, &no_waiters.key)?.first().await? {
                refusals.push(Refusal::behind(&no_waiters.key, by));
            }
        }
        no_waiters.retain(|no_waiters| !no_waiters.failed);
        Ok(refusals)
    }

    async fn attempts(&self) -> Result<Vec<ClaimAttempt>, ClaimError> {
        let mut attempts = Vec::new();
        for idempotency in &self.idempotencies {
            attempts.push(idempotency.attempt()?);
        }
        if !self.singletons.is_empty() {
            let now = self.claims.store().now().await?;
            for singleton in &self.singletons {
                attempts.push(singleton.attempt(now)?);
            }
        }
        for lock in &self.locks {
            attempts.push(lock.attempt()?);
        }
        Ok(attempts)
    }

    async fn debits(&self) -> Result<Vec<Debit>, ClaimError> {
        let mut debits = Vec::new();
        for (quota, units) in &self.quotas {
            debits.push(quota.pledge(*units).await?);
        }
        Ok(debits)
    }

    /// Returns all refusals; empty if the obstacles are gone.
    async fn refusals(
        &self,
        attempts: &mut [ClaimAttempt],
        debits: &mut [Debit],
    ) -> Result<Vec<Refusal>, ClaimError> {
        let mut refusals: Vec<Refusal> = attempts.iter_mut().filter_map(Refusal::of).collect();
        for ((quota, _), debit) in self.quotas.iter().zip(debits) {
            match quota.make_room(debit).await {
                Ok(Some(exceeded)) => {
                    let key = exceeded.key.clone();
                    refusals
                        .push(Refusal { key, why: RefusalReason::Exceeded(Box::new(exceeded)) });
                }
                Ok(None) => {}
                // The other refusals are more specific.
                Err(ClaimError::Settled { .. }) if !refusals.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(refusals)
    }
}

/// Position in several wait queues.
enum Positions {
    /// First in all of them; this commit leaves them.
    First(Commit),
    /// Behind another waiter in one of them, at this entry.
    Behind(Refusal, RecordKey),
}

/// Takes or renews a slot in every queue, and returns the position.
async fn positions(waiters: &mut [Waiter]) -> Stored<Positions> {
    let (mut leave, mut behind) = (Commit::new(), None);
    for waiter in waiters {
        match waiter.position().await? {
            QueuePosition::First(left) => leave.writes.extend(left.writes),
            QueuePosition::Behind(ahead) => {
                behind.get_or_insert((Refusal::behind(&waiter.key, ahead.by), ahead.slot));
            }
        }
    }
    Ok(behind.map_or(Positions::First(leave), |(refusal, slot)| Positions::Behind(refusal, slot)))
}

/// Names of several claims, for display.
pub(super) fn names<'a>(keys: impl Iterator<Item = &'a ClaimKey>) -> String {
    keys.map(ClaimKey::as_str).collect::<Vec<_>>().join(", ")
}
