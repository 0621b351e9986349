//! Compound: several rights at once. One commit takes them all, or none: there is nothing to clean up, no order to get wrong, and
//! nobody who has one waits for somebody who has the other.

mod all_of;
mod refusal;

use tidelock_store::{Commit, StoreError, Topic};

use super::bid::{Bid, Bidding, bid};
use super::holding::{Hold, Holding};
use super::patience::Patience;
use super::quota::Draw;
use super::stake::{Stake, Standing};
use super::{ClaimError, ClaimKey, Claims, Idempotency, Lock, Quota, Singleton};
use crate::telemetry;

pub use all_of::AllOf;
pub use refusal::{Refusal, Why};

/// How often a quota's period may end, or room be made in it, between two tries.
const ATTEMPTS: u32 = 8;

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
    patience: Patience,
}

/// What came of claiming several rights.
#[derive(Debug)]
#[must_use = "what is won together is given back, or runs out, together"]
pub enum Compounding {
    /// All of them are yours.
    Won(AllOf),
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
            patience: Patience::none(),
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

    /// And this lock. Those who stand in line for it are not waited for.
    pub fn lock(mut self, lock: &Lock) -> Self {
        self.locks.push(lock.clone());
        self
    }

    /// And so much of this quota.
    pub fn quota(mut self, quota: &Quota, units: u32) -> Self {
        self.quotas.push((quota.clone(), units));
        self
    }

    /// And what is in this commit, which lands with the claims or not at all.
    pub fn with(mut self, commit: Commit) -> Self {
        self.with = commit;
        self
    }

    /// How long to wait while nothing but locks is in the way; not at all unless this says otherwise.
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Claims all of them, in one commit; or says what was in the way.
    ///
    /// # Errors
    /// `Refused` if some part of the commit that was to land with them does not hold.
    pub async fn claim(&self) -> Result<Compounding, ClaimError> {
        let mut waiting = self.patience.begin();
        loop {
            let refusals = match self.attempt().await? {
                Compounding::Refused(refusals) => refusals,
                won => return Ok(won),
            };
            let Some(record) = refusal::lock_to_wait_for(&refusals)? else {
                return Ok(Compounding::Refused(refusals));
            };
            for refusal in &refusals {
                refusal.tell(&self.claims.by, waiting.looks + 1);
            }
            let mut signal = self.claims.store().signal(Topic::Record(record));
            if !waiting.next(&mut signal, self.claims.tidelock.random()).await {
                return Ok(Compounding::Refused(refusals));
            }
        }
    }

    async fn attempt(&self) -> Result<Compounding, ClaimError> {
        let (mut stakes, mut draws) = (self.stakes().await?, self.draws().await?);
        let first = stakes.first().map(|stake| &stake.key).or(draws.first().map(Bid::key));
        let Some(first) = first.cloned() else {
            return Err(StoreError::invalid("a compound of nothing was claimed").into());
        };
        for _ in 0..ATTEMPTS {
            let bids = stakes.iter_mut().map(|stake| stake as &mut dyn Bid);
            let mut bids: Vec<_> = bids.chain(draws.iter_mut().map(|draw| draw as &mut dyn Bid)).collect();
            if let Bidding::Won(at) = bid(&self.claims, &mut bids, self.with.clone()).await? {
                let holds = stakes.iter_mut().map(|stake| match stake.standing() {
                    Standing::Won(revision) => Hold::new(stake, revision, at),
                    _ => unreachable!("what was won is had"),
                });
                let holding = Holding::keep(&self.claims, &first, holds.collect());
                let grants = draws.iter().map(|draw| (draw.key().clone(), draw.grant()));
                telemetry::claimed(&first, &self.claims.by, "won");
                return Ok(Compounding::Won(AllOf::new(holding, grants.collect())));
            }
            let refusals = self.refusals(&mut stakes, &mut draws).await?;
            if !refusals.is_empty() {
                telemetry::claimed(&first, &self.claims.by, "refused");
                return Ok(Compounding::Refused(refusals));
            }
        }
        Err(ClaimError::Contended { key: first, attempts: ATTEMPTS })
    }

    async fn stakes(&self) -> Result<Vec<Stake>, ClaimError> {
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
            draws.push(quota.bid(*units).await?);
        }
        Ok(draws)
    }

    /// Everything that is in the way; nothing if what was is out of it now.
    async fn refusals(&self, stakes: &mut [Stake], draws: &mut [Draw]) -> Result<Vec<Refusal>, ClaimError> {
        let mut refusals: Vec<Refusal> = stakes.iter_mut().filter_map(Refusal::of).collect();
        for ((quota, _), draw) in self.quotas.iter().zip(draws) {
            if let Some(exceeded) = quota.make_room(draw).await? {
                refusals.push(Refusal { key: exceeded.key.clone(), why: Why::Exceeded(Box::new(exceeded)) });
            }
        }
        Ok(refusals)
    }
}

impl Compounding {
    /// All of them, or what was in the way as an error, for callers to whom it is one.
    ///
    /// # Errors
    /// The first [`Refusal`].
    pub fn won(self) -> Result<AllOf, Refusal> {
        match self {
            Self::Won(all) => Ok(all),
            Self::Refused(refusals) => Err(refusals.into_iter().next().expect("something was in the way")),
        }
    }
}

/// The names of several claims, for people.
pub(super) fn names<'a>(keys: impl Iterator<Item = &'a ClaimKey>) -> String {
    keys.map(ClaimKey::as_str).collect::<Vec<_>>().join(", ")
}
