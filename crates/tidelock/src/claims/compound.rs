//! Compound: several rights at once. One commit takes them all, or none: there is nothing to clean
//! up, no order to get wrong, and nobody who has one waits for somebody who has the other.
//!
//! All of them have one lease, which ends at one moment for all parts: what is drawn of quotas is a
//! reservation until then, and is confirmed when the compound is completed. Whoever wants locks
//! that others stand in line for stands in all those lines, with numbers that are drawn in one
//! commit; so the order is the same in every line, and no two wait for each other.

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

/// How often a quota's period may end, or room be made in it, between two tries.
const ATTEMPTS: u32 = 32;
/// How long a holder that has died keeps others waiting, if nothing but quotas is held.
const LEASE: Duration = Duration::from_secs(30);

/// Several rights, to be had together.
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

/// What came of claiming several rights.
#[derive(Debug)]
#[must_use = "what is won together is given back, or runs out, together"]
pub enum CompoundOutcome {
    /// All of them are yours.
    Won(CompoundGuard),
    /// None of them is; these were in the way.
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

    /// And this key.
    pub fn idempotency(mut self, idempotency: &Idempotency) -> Self {
        self.idempotencies.push(idempotency.clone());
        self
    }

    /// And this singleton.
    pub fn singleton(mut self, singleton: &Singleton) -> Self {
        self.singletons.push(singleton.clone());
        self
    }

    /// And this lock, behind those who stand in line for it.
    pub fn lock(mut self, lock: &Lock) -> Self {
        self.locks.push(lock.clone());
        self
    }

    /// And so much of this quota: reserved for as long as the rest is held, and taken for good when
    /// that is completed.
    pub fn quota(mut self, quota: &Quota, units: u32) -> Self {
        self.quotas.push((quota.clone(), units));
        self
    }

    /// And what is in this commit, which lands with the claims or not at all.
    pub fn with(mut self, commit: Commit) -> Self {
        self.with = commit;
        self
    }

    /// How long to wait while nothing but locks is in the way; not at all unless this says
    /// otherwise.
    pub fn patience(mut self, patience: WaitPolicy) -> Self {
        self.patience = patience;
        self
    }

    /// How long a holder that has died keeps others waiting, for all parts; the shortest of their
    /// leases unless this says otherwise, or half a minute if there are only quotas. The lease of
    /// one that lives is renewed, so it need not be as long as the work.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Claims all of them, in one commit; or says what was in the way.
    ///
    /// # Errors
    /// `Refused` if some part of the commit that was to land with them does not hold.
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

    /// Stands in line for every lock until it is this one's turn in all of them and everything can
    /// be had, or until patience is over.
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
                    // A place was lost meanwhile; the numbers were not.
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

    /// Tries to have all of them, on these conditions, and with this in the commit.
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

    /// Refuses the same right twice, before anything is written.
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

    /// What was won, held from now on.
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
            // Under an operation, a part of what was won before may have been given back since.
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

    /// One lease for all of them.
    fn shared_lease(&self, key: &ClaimKey, stakes: &[ClaimAttempt]) -> Stored<Duration> {
        let shortest = stakes.iter().filter_map(|stake| stake.lease).min();
        let lease = self.lease.or(shortest).unwrap_or(LEASE);
        term::check(key, "lease", lease)?;
        Ok(lease)
    }

    /// Has everything end at one moment, if it is not renewed.
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

    /// The condition that nobody stands in line for any of the locks.
    fn unless_others_wait(&self) -> Stored<Vec<NobodyWaits>> {
        self.locks.iter().map(|lock| NobodyWaits::new(lock.key())).collect()
    }

    /// Those who stand in line. A line in which nobody is left is no longer looked at.
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

    /// Everything that is in the way; nothing if what was is out of it now.
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
                // What came of the rest says more.
                Err(ClaimError::Settled { .. }) if !refusals.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(refusals)
    }
}

/// Whose turn it is in several lines.
enum Turns {
    /// One's own in all of them: with this in the commit, the places are given up.
    First(Commit),
    /// Somebody else's in one of them, who stands there.
    Behind(Refusal, RecordKey),
}

/// Takes or keeps a place in every line, and looks whose turn it is.
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
    /// All of them, or what was in the way as an error, for callers to whom it is one.
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

/// The names of several claims, for people.
pub(super) fn names<'a>(keys: impl Iterator<Item = &'a ClaimKey>) -> String {
    keys.map(ClaimKey::as_str).collect::<Vec<_>>().join(", ")
}
