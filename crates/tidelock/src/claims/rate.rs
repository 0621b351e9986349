//! Rate limits: so many units in each span of time, replenished continuously.
//!
//! The store judges a take in the commit that makes it, by its own clock and by the generic cell
//! rate algorithm (GCRA): one record holds the moment at which everything taken will have been
//! replenished, and expires then. There is no window, and so no edge at which two limits can pass
//! one after the other.

mod draw;
mod outcome;

use std::fmt;
use std::time::Duration;

use tidelock_store::{
    Commit, ExpectedRevision, Guard, Rate, RecordKey, RecordWrite, Slot, StoreError, StoreExt,
    Timestamp,
};

use super::acquire::{AcquireOutcome, acquire};
use super::{ClaimError, ClaimKey, Claims, keys};
use crate::bounds;
use crate::handle::Tidelock;
use crate::outcome::Outcome;
use crate::telemetry;

use draw::Draw;

pub use outcome::{RateExceeded, RateUsage};

/// A rate limit with its options.
#[derive(Debug, Clone)]
#[must_use = "nothing is taken until `take` is called"]
pub struct RateLimit {
    claims: Claims,
    key: ClaimKey,
    limit: u32,
    every: Duration,
    burst: u32,
}

impl RateLimit {
    pub(super) fn new(claims: Claims, name: &str, limit: u32, every: Duration) -> Self {
        let key = ClaimKey::new(keys::RATE, &name);
        Self { claims, key, limit, every, burst: limit }
    }

    /// Narrows the rate limit to a scope: each scope has its own units.
    pub fn of(mut self, scope: impl fmt::Display) -> Self {
        self.key = self.key.part(&scope);
        self
    }

    /// Sets how many units can be taken at once, after a pause. The default is the limit; 1 spaces
    /// them evenly.
    pub fn burst(mut self, units: u32) -> Self {
        self.burst = units;
        self
    }

    /// Returns the rate limit's name.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Takes units if so many are available: checked and taken by the store, in one commit.
    ///
    /// # Errors
    /// `Store` if the store fails, the name is invalid, or so many units are never available.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let logins = tidelock.rate("logins", 2, Duration::from_secs(3600)).of("alice");
    /// logins.take(1).await?.granted()?;
    /// assert_eq!(logins.take(1).await?.granted()?.available, 0);
    ///
    /// let exceeded = logins.take(1).await?.granted().unwrap_err();
    /// assert!(exceeded.retry_after > Duration::from_secs(1700));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(&self, units: u32) -> Result<Outcome<RateUsage, RateExceeded>, ClaimError> {
        self.take_with(units, Commit::new()).await
    }

    /// Takes units together with the parts of a commit, all or none.
    ///
    /// # Errors
    /// As [`take`](Self::take); and `Refused` if a part of the commit is rejected.
    pub async fn take_with(
        &self,
        units: u32,
        with: Commit,
    ) -> Result<Outcome<RateUsage, RateExceeded>, ClaimError> {
        let mut draw = Draw::new(self, units)?;
        let outcome = acquire(&self.claims, &mut [&mut draw], with).await?;
        let taken = match (outcome, draw.possible_at) {
            (AcquireOutcome::Won(now), _) => match draw.full_at {
                Some(full_at) => Outcome::Granted(self.usage_of(full_at, now)?),
                // It was taken before, under the same operation id.
                None => Outcome::Granted(self.usage().await?),
            },
            (AcquireOutcome::Refused, possible_at) => {
                let now = self.claims.store().now().await?;
                Outcome::Refused(self.exceeded(units, possible_at.unwrap_or(now), now))
            }
        };
        let outcome = if taken.is_granted() { "won" } else { "exceeded" };
        telemetry::claimed(&self.key, &self.claims.by, outcome);
        Ok(taken)
    }

    /// Returns the units that are available, and when all of them will be.
    ///
    /// # Errors
    /// `Store` if the store fails.
    pub async fn usage(&self) -> Result<RateUsage, ClaimError> {
        let (_, full_at) = self.found().await?;
        Ok(self.usage_of(full_at, self.claims.store().now().await?)?)
    }

    pub(crate) fn tidelock(&self) -> &Tidelock {
        &self.claims.tidelock
    }

    /// Returns the record that holds when everything is replenished.
    pub(crate) fn record(&self) -> Result<RecordKey, StoreError> {
        keys::rate(&self.key)
    }

    /// Returns the write that takes the units after `staged` other draws; or that the rate is
    /// exceeded, with a guard on what this rests on.
    pub(crate) async fn propose(
        &self,
        units: u32,
        staged: Duration,
    ) -> Result<Outcome<(RecordWrite, RateUsage), (RateExceeded, Guard)>, ClaimError> {
        self.claims.refuse_operation()?;
        let (key, rate) = (self.record()?, self.draw(units)?);
        let total = Rate { cost: rate.cost + staged, ..rate };
        let (slot, full_at) = self.found().await?;
        let now = self.claims.store().now().await?;
        Ok(match total.draw(full_at, now) {
            Ok(full_at) => {
                let usage = self.usage_of(full_at.micros(), now)?;
                Outcome::Granted((RecordWrite::rate(&key, rate), usage))
            }
            Err(possible_at) => {
                let expected = slot.live().map_or(ExpectedRevision::Absent, |record| {
                    ExpectedRevision::Revision(record.revision)
                });
                let guard = Guard::Record { key, expected };
                Outcome::Refused((self.exceeded(units, possible_at, now), guard))
            }
        })
    }

    /// Returns the record, and when everything is replenished.
    async fn found(&self) -> Result<(Slot, i64), ClaimError> {
        let slot = self.claims.store().get_one(&self.record()?).await?;
        let full_at = slot.live().map(|record| record.value.to()).transpose()?.unwrap_or(0);
        Ok((slot, full_at))
    }

    fn exceeded(&self, requested: u32, possible_at: Timestamp, now: Timestamp) -> RateExceeded {
        let retry_after = possible_at.since(now);
        RateExceeded { key: self.key.clone(), requested, possible_at, retry_after }
    }

    fn usage_of(&self, full_at: i64, now: Timestamp) -> Result<RateUsage, StoreError> {
        let rate = self.draw(1)?;
        let full_at = Timestamp::from_micros(full_at.max(now.micros()))?;
        let left = rate.burst.saturating_sub(full_at.since(now));
        let available = left.as_micros() / rate.cost.as_micros();
        let available = u32::try_from(available).unwrap_or(u32::MAX);
        Ok(RateUsage { available, burst: self.burst, full_at })
    }

    /// Returns a draw of these units: each is replenished after its share of the time.
    fn draw(&self, units: u32) -> Result<Rate, StoreError> {
        bounds::keeps(format_args!("claim {:?}: a time", self.key), self.every)?;
        let time = u64::try_from(self.every.as_micros()).unwrap_or(u64::MAX);
        if self.limit == 0 || time < u64::from(self.limit) {
            return Err(self.invalid(format_args!(
                "a rate of {} in {:?}; use 1 or more, and at most one in a microsecond",
                self.limit, self.every
            )));
        }
        if units > self.burst {
            return Err(self.invalid(format_args!(
                "{units} units are never available at once; the burst is {}",
                self.burst
            )));
        }
        let unit = time.div_ceil(u64::from(self.limit));
        let last = |units: u32| Duration::from_micros(unit.saturating_mul(u64::from(units)));
        Ok(Rate { cost: last(units), burst: last(self.burst) })
    }

    fn invalid(&self, why: impl fmt::Display) -> StoreError {
        StoreError::invalid(format!("claim {:?}: {why}", self.key))
    }
}
