//! Draws, singletons and completions of claims as parts of a unit of work.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, ExpectedRevision, RawJson, RecordWrite};

use super::quota::ProposedDraw;
use super::{
    AttachedKey, ClaimGuard, Grant, Quota, QuotaExceeded, RateExceeded, RateLimit, RateUsage,
    Reservation, Singleton, SingletonTaken,
};
use crate::error::Result;
use crate::outcome::Outcome;
use crate::staging::{Landing, Tx, twice};

impl Tx {
    /// Takes units of a quota, if so many are left. Several calls for one quota add up. The grant
    /// can be refunded once this unit of work is committed.
    ///
    /// # Errors
    /// The store's errors; an exceeded quota is an outcome.
    ///
    /// # Examples
    /// ```
    /// use tidelock::ErrorKind;
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.quota("seats", 5);
    /// let booked = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.take(&seats, 3).await?.granted()?;
    ///     tx.take(&seats, 3).await?.granted()?;
    ///     Ok(())
    /// });
    /// assert_eq!(booked.await.unwrap_err().kind(), ErrorKind::Exceeded);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(&self, quota: &Quota, units: u32) -> Result<Outcome<Grant, QuotaExceeded>> {
        self.check_store(quota.tidelock())?;
        let (counter, landing) = (quota.counter()?, Landing::default());
        loop {
            let before = self.staged(|staged| staged.added_to(&counter))?;
            let ProposedDraw { parts, unless, grant } =
                match quota.propose(units, before, &landing).await? {
                    Outcome::Granted(proposed) => proposed,
                    Outcome::Refused((exceeded, guards)) => {
                        self.pin(guards)?;
                        return Ok(Outcome::Refused(exceeded));
                    }
                };
            // A concurrent call may have staged units meanwhile.
            if self.staged(|staged| {
                let is_current = staged.added_to(&counter) == before;
                if is_current {
                    staged.add(&counter, parts);
                    staged.unless.extend(unless);
                    staged.landings.push(landing.clone());
                }
                is_current
            })? {
                return Ok(Outcome::Granted(grant));
            }
        }
    }

    /// Takes units of a rate limit, if so many are available. Several calls for one rate limit add
    /// up.
    ///
    /// # Errors
    /// The store's errors; an exceeded rate limit is an outcome.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let api = tidelock.rate("api", 10, std::time::Duration::from_secs(60)).of("alice");
    /// let call = async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.take_rate(&api, 1).await?.granted()?;
    ///     tx.add("calls", 1, ..)
    /// };
    /// tidelock.transact(call).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take_rate(
        &self,
        rate: &RateLimit,
        units: u32,
    ) -> Result<Outcome<RateUsage, RateExceeded>> {
        self.check_store(rate.tidelock())?;
        let record = rate.record()?;
        loop {
            let before = self.staged(|staged| staged.drawn_from(&record))?;
            let (write, usage) = match rate.propose(units, before).await? {
                Outcome::Granted(proposed) => proposed,
                Outcome::Refused((exceeded, guard)) => {
                    self.pin([guard])?;
                    return Ok(Outcome::Refused(exceeded));
                }
            };
            // A concurrent call may have staged units meanwhile.
            let staged = self.staged(|staged| {
                (staged.drawn_from(&record) == before).then(|| staged.draw(write))
            })?;
            if let Some(staged) = staged {
                staged?;
                return Ok(Outcome::Granted(usage));
            }
        }
    }

    /// Takes a singleton, with details for later claimants.
    ///
    /// # Errors
    /// The store's errors; `Invalid` for a second claim of the singleton. A singleton that is taken
    /// is an outcome.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let welcome = tidelock.singleton("welcome").of("alice");
    /// let greet = async |tx: Tx| -> tidelock::Result<bool> {
    ///     let is_first = tx.claim(&welcome, "at the door").await?.is_granted();
    ///     if is_first {
    ///         tx.enqueue_item(tx.tidelock().queue("mail").enqueue("alice"))?;
    ///     }
    ///     Ok(is_first)
    /// };
    /// assert!(tidelock.transact(greet).await?);
    /// assert!(!tidelock.transact(greet).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim(
        &self,
        singleton: &Singleton,
        details: &(impl Serialize + ?Sized),
    ) -> Result<Outcome<(), SingletonTaken>> {
        self.check_store(singleton.tidelock())?;
        let parts = match singleton.propose(details).await? {
            Outcome::Granted(parts) => parts,
            Outcome::Refused((taken, guards)) => {
                self.pin(guards)?;
                return Ok(Outcome::Refused(taken));
            }
        };
        let key = parts.writes[0].key.clone();
        let is_first = self.staged(|staged| {
            let is_first = staged.writes_to(&key).is_none();
            if is_first {
                staged.derive(parts);
            }
            is_first
        })?;
        if is_first { Ok(Outcome::Granted(())) } else { Err(twice("claim", &key).into()) }
    }

    /// Stages the completion of a claim with its result.
    ///
    /// # Errors
    /// `Invalid` if the value cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let payment = tidelock.idempotency("pay:42");
    /// let IdempotencyClaim::Won(claim) = payment.claim::<String>().await? else { panic!("it is new") };
    /// tidelock
    ///     .transact(async |tx: Tx| {
    ///         tx.put("payments/42", &700)?;
    ///         tx.complete(&claim, &"receipt 1".to_owned())
    ///     })
    ///     .await?; // the payment and the answer to every repetition, or neither
    /// assert!(matches!(payment.claim::<String>().await?, IdempotencyClaim::Done(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete<T: Serialize + DeserializeOwned>(
        &self,
        claim: &ClaimGuard<T>,
        value: &T,
    ) -> Result<()> {
        let write = claim.completion(value)?;
        self.fenced_parts([write.key.clone()], Commit::new().write(write))
    }

    /// Stages the completion of a claim that is continued by its fence.
    ///
    /// # Errors
    /// `LeaseLost` if it is no longer held under this fence.
    pub async fn complete_attached(
        &self,
        claim: &AttachedKey,
        value: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        self.check_store(claim.tidelock())?;
        let write = claim.completion(RawJson::new(value)?).await?;
        self.fenced_parts([write.key.clone()], Commit::new().write(write))
    }

    /// Stages the confirmation of a reservation.
    ///
    /// # Errors
    /// The errors of [`Reservation::confirmation`].
    pub fn confirm(&self, reservation: &Reservation) -> Result<()> {
        let writes = reservation.confirmation()?;
        let is_pinned =
            |write: &&RecordWrite| matches!(write.expected, ExpectedRevision::Revision(_));
        let keys: Vec<_> = writes.iter().filter(is_pinned).map(|write| write.key.clone()).collect();
        self.fenced_parts(keys, writes.into_iter().fold(Commit::new(), Commit::write))
    }
}
