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

use super::acquire::{Acquire, Bidding, bid};
use super::claim_attempt::ClaimAttempt;
use super::held_claim::{HeldClaim, Holding};
use super::lock::{Line, NobodyWaits, Turn};
use super::quota::{Draw, shared_end};
use super::term::{self, Term};
use super::wait_policy::{WaitPolicy, Waiting};
use super::{ClaimError, ClaimKey, Claims, Idempotency, Lock, Quota, Singleton};
use crate::telemetry;

pub use guard::CompoundGuard;
pub use refusal::{Refusal, RefusalReason};

/// Number of attempts while quota windows end or room is made in them.
const ATTEMPTS: u32 = 32;
/// The default lease if only quotas are held.
const LEASE: Duration = Duration::from_secs(30);

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
    patience: WaitPolicy,
    lease: Option<Duration>,
}

/// Outcome of a compound claim.
#[derive(Debug)]
#[must_use = "what is won together is given back, or runs out, together"]
pub enum CompoundOutcome {
    /// All claims are acquired.
    Won(CompoundGuard),
    /// None is acquired; these claims were refused.
    Refused(Vec<Refusal>),
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
            patience: WaitPolicy::none(),
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
    pub fn patience(mut self, patience: WaitPolicy) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the lease of all parts: how long they stay held after their holder died. The default is
    /// the shortest lease of the parts, or 30 seconds if there are only quotas. The lease is
    /// renewed while the guard lives, so it need not be as long as the work.
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
    /// use tidelock::claims::{CompoundOutcome, RefusalReason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let claims = tidelock.claims();
    /// let (lock, quota) = (claims.lock("till"), claims.quota("tickets", 2));
    /// let both = claims.compound().lock(&lock).quota(&quota, 2);
    ///
    /// let mut held = both.claim().await?.won()?;
    /// held.complete(&()).await?;
    ///
    /// let CompoundOutcome::Refused(refusals) = both.claim().await? else { panic!("all are taken") };
    /// assert!(matches!(refusals[0].why, RefusalReason::Exceeded(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim(&self) -> Result<CompoundOutcome, ClaimError> {
        let mut waiting = self.patience.begin();
        let refusals = match self.attempt(self.unless_others_wait()?, Commit::new()).await? {
            CompoundOutcome::Refused(refusals) => refusals,
            won => return Ok(won),
        };
        if self.patience.deadline.is_zero() || !refusal::are_locks(&refusals) {
            return Ok(CompoundOutcome::Refused(refusals));
        }
        for refusal in &refusals {
            refusal.tell(&self.claims.by, 1);
        }
        let lines = self.locks.iter().map(|lock| Line::new(&self.claims, lock.key()));
        let mut lines = lines.collect::<Stored<Vec<_>>>()?;
        let outcome = self.in_line(&mut lines, &mut waiting).await;
        for line in lines {
            line.leave().await?;
        }
        outcome
    }

    /// Waits in the queue of every lock until this compound is first in all of them and everything
    /// can be acquired, or until the wait policy's deadline.
    async fn in_line(
        &self,
        lines: &mut [Line],
        waiting: &mut Waiting,
    ) -> Result<CompoundOutcome, ClaimError> {
        Line::draw(lines).await?;
        loop {
            let (refusals, wait_for) = match turn(lines).await? {
                Turns::First(leave) => match self.attempt(Vec::new(), leave).await {
                    Ok(CompoundOutcome::Refused(refusals)) => {
                        match refusal::lock_to_wait_for(&refusals)? {
                            Some(record) => (refusals, record),
                            None => return Ok(CompoundOutcome::Refused(refusals)),
                        }
                    }
                    Ok(won) => {
                        lines.iter_mut().for_each(Line::left);
                        return Ok(won);
                    }
                    // A queue entry expired meanwhile; the queue number is kept.
                    Err(ClaimError::Refused { conflict, .. })
                        if lines.iter().any(|line| line.has_lost(&conflict)) =>
                    {
                        lines
                            .iter_mut()
                            .filter(|line| line.has_lost(&conflict))
                            .for_each(Line::left);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                Turns::Behind(refusal, place) => (vec![refusal], place),
            };
            for refusal in &refusals {
                refusal.tell(&self.claims.by, waiting.looks + 1);
            }
            let mut signal = self.claims.store().signal(Topic::Record(wait_for));
            if !waiting.next(&mut signal, self.claims.tidelock.random()).await {
                return Ok(CompoundOutcome::Refused(refusals));
            }
        }
    }

    /// Tries to acquire everything, under these conditions and with these writes in the commit.
    async fn attempt(
        &self,
        mut alone: Vec<NobodyWaits>,
        leave: Commit,
    ) -> Result<CompoundOutcome, ClaimError> {
        let mut stakes = self.stakes().await?;
        self.check(&stakes)?;
        let mut draws = self.draws().await?;
        let first = stakes.first().map(|stake| &stake.key).or(draws.first().map(Acquire::key));
        let Some(first) = first.cloned() else {
            return Err(StoreError::invalid("a compound of nothing was claimed").into());
        };
        let lease = self.shared_lease(&first, &stakes)?;
        let with = leave.writes.into_iter().fold(self.with.clone(), Commit::write);
        for _ in 0..ATTEMPTS {
            self.set_end(&mut stakes, &mut draws, lease).await?;
            let bids = stakes.iter_mut().map(|stake| stake as &mut dyn Acquire);
            let bids = bids.chain(draws.iter_mut().map(|draw| draw as &mut dyn Acquire));
            let mut bids: Vec<_> =
                bids.chain(alone.iter_mut().map(|alone| alone as &mut dyn Acquire)).collect();
            if let Bidding::Won(at) = bid(&self.claims, &mut bids, with.clone()).await? {
                let all = self.all_of(&first, stakes, draws, at, lease).await?;
                telemetry::claimed(&first, &self.claims.by, "won");
                return Ok(CompoundOutcome::Won(all));
            }
            let mut refusals = self.refusals(&mut stakes, &mut draws).await?;
            refusals.extend(self.those_who_wait(&mut alone).await?);
            if !refusals.is_empty() {
                telemetry::claimed(&first, &self.claims.by, "refused");
                return Ok(CompoundOutcome::Refused(refusals));
            }
        }
        Err(ClaimError::Contended { key: first, attempts: ATTEMPTS })
    }

    /// Rejects a claim that is listed twice.
    fn check(&self, stakes: &[ClaimAttempt]) -> Stored<()> {
        let stakes = stakes.iter().map(|stake| stake.key.clone());
        let mut keys = HashSet::new();
        for key in stakes.chain(self.quotas.iter().map(|(quota, _)| quota.key())) {
            if let Some(twice) = keys.replace(key) {
                return Err(StoreError::invalid(format!(
                    "claim {twice:?}: it is there twice in one compound; ask for it once"
                )));
            }
        }
        Ok(())
    }

    /// Creates the guard of the acquired claims.
    async fn all_of(
        &self,
        first: &ClaimKey,
        stakes: Vec<ClaimAttempt>,
        draws: Vec<Draw>,
        at: Timestamp,
        lease: Duration,
    ) -> Result<CompoundGuard, ClaimError> {
        let mut holds = Vec::new();
        for mut stake in stakes {
            // Under an operation id, a part that was acquired before may have been released since.
            let revision =
                stake.won_under().ok_or_else(|| ClaimError::Settled { key: stake.key.clone() })?;
            holds.push(HeldClaim::new(&stake, revision, at));
        }
        let mut pledges = Vec::new();
        for (draw, (quota, _)) in draws.into_iter().zip(&self.quotas) {
            pledges.push(draw.into_pledge(quota).await?);
        }
        Ok(CompoundGuard::new(Holding::keep_all(&self.claims, first, holds, pledges, lease)))
    }

    /// Returns the common lease.
    fn shared_lease(&self, key: &ClaimKey, stakes: &[ClaimAttempt]) -> Stored<Duration> {
        let shortest = stakes.iter().filter_map(|stake| stake.lease).min();
        let lease = self.lease.or(shortest).unwrap_or(LEASE);
        term::check(key, "lease", lease)?;
        Ok(lease)
    }

    /// Sets the common end of all leases and reservations.
    async fn set_end(
        &self,
        stakes: &mut [ClaimAttempt],
        draws: &mut [Draw],
        lease: Duration,
    ) -> Result<(), ClaimError> {
        let term = match draws.is_empty() {
            true => Term::lasting(lease),
            false => {
                let now = self.claims.store().now().await?;
                let end = shared_end(now, lease);
                for (draw, (quota, _)) in draws.iter_mut().zip(&self.quotas) {
                    draw.reserve_until(quota, end).await?;
                }
                Term::until(end, now)
            }
        };
        for stake in stakes {
            stake.lease = Some(lease);
            stake.term = Some(term);
        }
        Ok(())
    }

    /// Conditions that the wait queues of the locks are empty.
    fn unless_others_wait(&self) -> Stored<Vec<NobodyWaits>> {
        self.locks.iter().map(|lock| NobodyWaits::new(lock.key())).collect()
    }

    /// Returns refusals for the locks with waiters. Conditions on queues that have become empty are
    /// dropped.
    async fn those_who_wait(
        &self,
        alone: &mut Vec<NobodyWaits>,
    ) -> Result<Vec<Refusal>, ClaimError> {
        let mut refusals = Vec::new();
        for alone in alone.iter().filter(|alone| alone.met) {
            if let Some(by) = Line::new(&self.claims, &alone.key)?.first().await? {
                refusals.push(Refusal::behind(&alone.key, by));
            }
        }
        alone.retain(|alone| !alone.met);
        Ok(refusals)
    }

    async fn stakes(&self) -> Result<Vec<ClaimAttempt>, ClaimError> {
        let mut stakes = Vec::new();
        for idempotency in &self.idempotencies {
            stakes.push(idempotency.stake()?);
        }
        if !self.singletons.is_empty() {
            let now = self.claims.store().now().await?;
            for singleton in &self.singletons {
                stakes.push(singleton.stake(now)?);
            }
        }
        for lock in &self.locks {
            stakes.push(lock.stake()?);
        }
        Ok(stakes)
    }

    async fn draws(&self) -> Result<Vec<Draw>, ClaimError> {
        let mut draws = Vec::new();
        for (quota, units) in &self.quotas {
            draws.push(quota.pledge(*units).await?);
        }
        Ok(draws)
    }

    /// Returns all refusals; empty if the obstacles are gone.
    async fn refusals(
        &self,
        stakes: &mut [ClaimAttempt],
        draws: &mut [Draw],
    ) -> Result<Vec<Refusal>, ClaimError> {
        let mut refusals: Vec<Refusal> = stakes.iter_mut().filter_map(Refusal::of).collect();
        for ((quota, _), draw) in self.quotas.iter().zip(draws) {
            match quota.make_room(draw).await {
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
enum Turns {
    /// First in all of them; this commit leaves them.
    First(Commit),
    /// Behind another waiter in one of them, at this entry.
    Behind(Refusal, RecordKey),
}

/// Joins or keeps the place in every queue, and returns the position.
async fn turn(lines: &mut [Line]) -> Stored<Turns> {
    let (mut leave, mut behind) = (Commit::new(), None);
    for line in lines {
        match line.turn().await? {
            Turn::First(left) => leave.writes.extend(left.writes),
            Turn::Behind(ahead) => {
                behind.get_or_insert((Refusal::behind(&line.key, ahead.by), ahead.place));
            }
        }
    }
    Ok(behind.map_or(Turns::First(leave), |(refusal, place)| Turns::Behind(refusal, place)))
}

impl CompoundOutcome {
    /// Returns the guard, or the first refusal as an error.
    ///
    /// # Errors
    /// The first [`Refusal`].
    pub fn won(self) -> Result<CompoundGuard, Refusal> {
        match self {
            Self::Won(all) => Ok(all),
            Self::Refused(refusals) => {
                Err(refusals.into_iter().next().expect("something was in the way"))
            }
        }
    }
}

/// Names of several claims, for display.
pub(super) fn names<'a>(keys: impl Iterator<Item = &'a ClaimKey>) -> String {
    keys.map(ClaimKey::as_str).collect::<Vec<_>>().join(", ")
}
