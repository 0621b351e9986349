//! Some of a quota that is taken for a while: confirmed, given back, or gone back by itself.
//!
//! A reservation is a record that expires when it ends, so that one past its end cannot be
//! confirmed; what it took is in the [bucket](super::ledger) of that moment, which the next caller
//! who needs it credits.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Bounds, Commit, CommitOutcome, ExpectedRevision, RecordKey, RecordWrite, Result, Revision,
    Slot, Timestamp,
};

use super::super::acquire::found;
use super::super::{ClaimError, keys};
use super::booking::Booked;
use super::debit::Draw;
use super::{Grant, Quota, RefundOutcome};

/// Some of a quota, for a while: confirm it, give it back, or let it run out.
#[derive(Debug)]
#[must_use = "a reservation that is not confirmed runs out"]
pub struct Reservation {
    quota: Quota,
    booked: Booked,
    record: RecordKey,
    revision: Revision,
}

impl Reservation {
    /// What was drawn just now, or before under the same operation.
    pub(super) async fn of(quota: Quota, draw: Draw) -> Result<Self, ClaimError> {
        match (draw.booking.and_then(|booking| booking.made), draw.noted) {
            (Some((booked, revision)), None) => Ok(Self::new(quota, booked, revision)?),
            (_, Some(noted)) => Self::again(quota, &noted).await,
            (None, None) => Err(gone(&quota)),
        }
    }

    /// One that was made before, if it still stands.
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

    pub(super) fn resumed(quota: Quota, voucher: &ReservationToken) -> Result<Self> {
        let ReservationToken { grant, revision, until } = voucher.clone();
        Self::new(quota, Booked { grant, end: until }, revision)
    }

    /// What somebody else has to know to go on with it: see [`Quota::attach`].
    pub fn voucher(&self) -> ReservationToken {
        let Booked { grant, end } = self.booked.clone();
        ReservationToken { grant, revision: self.revision, until: end }
    }

    /// When it goes back by itself: after the life that was asked for, and if many stand, up to a
    /// 64th of that later.
    pub fn until(&self) -> Timestamp {
        self.booked.end
    }

    /// How much.
    pub fn units(&self) -> i64 {
        self.booked.grant.units
    }

    /// Takes it for good, unless it is past its end.
    ///
    /// # Errors
    /// `Settled` if it was confirmed or given back before, or is past its end.
    pub async fn confirm(&self) -> Result<Grant, ClaimError> {
        match self.settle(Commit::new()).await? {
            CommitOutcome::Committed(_) => Ok(self.booked.grant.confirmed()),
            CommitOutcome::Conflict(_) => Err(gone(&self.quota)),
        }
    }

    /// The parts of a commit that take it for good, for a commit that somebody else makes. They are
    /// refused once it is past its end.
    ///
    /// # Errors
    /// `Store` if the name of the quota cannot be one.
    pub fn confirmation(&self) -> Result<[RecordWrite; 2], ClaimError> {
        Ok(self.booked.settle(&self.record, self.revision)?)
    }

    /// Gives it back, once, to the period that it was taken from.
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
        // Only the period is over: the reservation goes, and nothing is charged less.
        let _gone = self.settle(Commit::new()).await?;
        Ok(RefundOutcome::Over)
    }

    async fn settle(&self, commit: Commit) -> Result<CommitOutcome, ClaimError> {
        let commit = self.confirmation()?.into_iter().fold(commit, Commit::write);
        let commit = self.quota.claims.repeatable(commit);
        Ok(self.quota.claims.send(&commit).await?)
    }
}

fn gone(quota: &Quota) -> ClaimError {
    ClaimError::Settled { key: quota.key() }
}

/// A reservation on paper, for whoever goes on with it later, in this process or another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationToken {
    pub(super) grant: Grant,
    revision: Revision,
    /// When it goes back by itself.
    pub until: Timestamp,
}
