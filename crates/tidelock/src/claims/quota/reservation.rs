//! Reservations of a quota: confirmed, refunded, or expired.
//!
//! A reservation is a record that expires when it ends, so an expired one cannot be confirmed. Its
//! units are in the [bucket](super::ledger) of that time, which the next caller that needs them
//! credits.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Bounds, Commit, CommitOutcome, ExpectedRevision, RecordKey, RecordWrite, Result, Revision,
    Slot, Timestamp,
};

use super::super::acquire::found;
use super::super::{ClaimError, keys};
use super::booking::Booked;
use super::debit::Debit;
use super::{Grant, Quota, RefundOutcome};

/// Units of a quota reserved for a while: confirm them, refund them, or let them expire.
#[derive(Debug)]
#[must_use = "a reservation that is not confirmed runs out"]
pub struct Reservation {
    quota: Quota,
    booked: Booked,
    record: RecordKey,
    revision: Revision,
}

impl Reservation {
    /// Creates it from a debit, new or recorded under the same operation id.
    pub(super) async fn of(quota: Quota, debit: Debit) -> Result<Self, ClaimError> {
        match (debit.booking.and_then(|booking| booking.made), debit.recorded) {
            (Some((booked, revision)), None) => Ok(Self::new(quota, booked, revision)?),
            (_, Some(recorded)) => Self::again(quota, &recorded).await,
            (None, None) => Err(gone(&quota)),
        }
    }

    /// Reads one that was made before, if it still exists.
    async fn again(quota: Quota, grant: &Grant) -> Result<Self, ClaimError> {
        let record = keys::reservation(&grant.quota, grant.id)?;
        let slots = quota.claims.store().get(&[record]).await?;
        match slots.first().and_then(Slot::live) {
            Some(there) => Ok(Self::new(quota, there.value.to()?, there.revision)?),
            None => Err(gone(&quota)),
        }
    }

    fn new(quota: Quota, booked: Booked, revision: Revision) -> Result<Self> {
        let record = keys::reservation(&booked.grant.quota, booked.grant.id)?;
        Ok(Self { quota, booked, record, revision })
    }

    pub(super) fn resumed(quota: Quota, token: &ReservationToken) -> Result<Self> {
        let ReservationToken { grant, revision, until } = token.clone();
        Self::new(quota, Booked { grant, end: until }, revision)
    }

    /// Returns the token with which the reservation can be continued elsewhere: see
    /// [`Quota::attach`].
    pub fn token(&self) -> ReservationToken {
        let Booked { grant, end } = self.booked.clone();
        ReservationToken { grant, revision: self.revision, until: end }
    }

    /// Returns when it expires: after the requested duration, or up to a 64th of it later while
    /// many reservations exist.
    pub fn until(&self) -> Timestamp {
        self.booked.end
    }

    /// Returns the number of units.
    pub fn units(&self) -> i64 {
        self.booked.grant.units
    }

    /// Confirms the reservation: its units are taken permanently.
    ///
    /// # Errors
    /// `Settled` if it was confirmed or refunded before, or has expired.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.quota("seats", 5);
    /// let held = seats.reserve(3, Duration::from_secs(60)).await?.granted()?;
    /// // A minute to pay; afterwards the seats are free again.
    /// let grant = held.confirm().await?;
    /// assert_eq!(grant.units, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn confirm(&self) -> Result<Grant, ClaimError> {
        let window = self.quota.window_of(&self.booked.grant).await?;
        match self.settle(Commit::new()).await? {
            CommitOutcome::Committed(_) => Ok(self.booked.grant.confirmed(window.as_ref())),
            CommitOutcome::Conflict(_) => Err(gone(&self.quota)),
        }
    }

    /// Returns the parts of a commit that confirm it, for a commit made elsewhere.
    ///
    /// They are rejected once it has expired.
    ///
    /// # Errors
    /// `Store` if the name of the quota is invalid.
    pub fn confirmation(&self) -> Result<[RecordWrite; 2], ClaimError> {
        Ok(self.booked.settle(&self.record, self.revision)?)
    }

    /// Refunds the reservation, once, to the window it was taken from.
    ///
    /// # Errors
    /// `Store` if the store fails.
    pub async fn refund(&self) -> Result<RefundOutcome, ClaimError> {
        let (key, grant) = (self.quota.key(), &self.booked.grant);
        let window = keys::window(&key)?;
        let back = Commit::new()
            .guard_record(&window, ExpectedRevision::Revision(grant.window))
            .write(RecordWrite::add(&keys::taken(&key)?, -grant.units, Bounds::at_least(0)));
        let conflict = match self.settle(back).await? {
            CommitOutcome::Committed(_) => return Ok(RefundOutcome::Refunded),
            CommitOutcome::Conflict(conflict) => conflict,
        };
        if found(&conflict, &self.record).is_some() || found(&conflict, &window).is_none() {
            return Ok(RefundOutcome::Already);
        }
        // Only the window is over: the reservation is removed, and no counter changes.
        let _gone = self.settle(Commit::new()).await?;
        Ok(RefundOutcome::Over)
    }

    async fn settle(&self, commit: Commit) -> Result<CommitOutcome, ClaimError> {
        let commit = self.confirmation()?.into_iter().fold(commit, Commit::write);
        let commit = self.quota.claims.ensure_retry_id(commit);
        Ok(self.quota.claims.send(&commit).await?)
    }
}

fn gone(quota: &Quota) -> ClaimError {
    ClaimError::Settled { key: quota.key() }
}

/// Serializable token of a reservation, to continue it later, in this process or another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationToken {
    pub(super) grant: Grant,
    revision: Revision,
    /// When it expires.
    pub until: Timestamp,
}
