//! Booking of a reservation: its own record, and the bucket of the time at which it ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, RawJson, RecordKey, RecordWrite, Result,
    Revision, Slot, Timestamp, When,
};

use super::super::acquire::found;
use super::super::{ClaimError, keys};
use super::ledger::{Ledger, change, shared_end};
use super::{ATTEMPTS, Grant, Quota, Window, crediting};

/// Content of a reservation's record, which expires when the reservation ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Booked {
    pub(super) grant: Grant,
    pub(super) end: Timestamp,
}

impl Booked {
    /// Removes the reservation from the records, at this revision; its units stay taken.
    pub(super) fn settle(
        &self,
        record: &RecordKey,
        revision: Revision,
    ) -> Result<[RecordWrite; 2]> {
        let bucket = keys::bucket(&self.grant.quota, self.grant.window, self.end)?;
        let mine = ExpectedRevision::Revision(revision);
        Ok([RecordWrite::delete(record, mine), change(&bucket, -self.grant.units)])
    }

    pub(super) fn write(
        &self,
        record: &RecordKey,
        expected: ExpectedRevision,
    ) -> Result<RecordWrite> {
        Ok(RecordWrite::put(record, expected, RawJson::new(self)?).expiring(When::At(self.end)))
    }
}

/// A reservation to be made.
#[derive(Debug)]
pub(super) struct Booking {
    life: Duration,
    end: Timestamp,
    ledger: Ledger,
    /// The reservation once made, and its revision.
    pub(super) made: Option<(Booked, Revision)>,
}

impl Booking {
    /// Creates a booking of this duration from now. In a crowded ledger, or after a conflict,
    /// reservations share their end.
    pub(super) async fn lasting(
        quota: &Quota,
        window: Window,
        life: Duration,
        shares: bool,
    ) -> Result<Self, ClaimError> {
        let (ledger, now) = read_ledger(quota, window).await?;
        let end = match shares || ledger.is_crowded() {
            true => shared_end(now, life),
            false => now.plus(life),
        };
        Ok(Self { life, end, ledger, made: None })
    }

    /// Creates a booking that ends at this time.
    pub(super) async fn until(
        quota: &Quota,
        window: Window,
        end: Timestamp,
    ) -> Result<Self, ClaimError> {
        let (ledger, now) = read_ledger(quota, window).await?;
        Ok(Self { life: end.since(now), end, ledger, made: None })
    }

    /// Creates the next attempt after a refusal: in the open window, with a shared end.
    pub(super) async fn again(&self, quota: &Quota, window: Window) -> Result<Self, ClaimError> {
        Self::lasting(quota, window, self.life, true).await
    }

    pub(super) fn stage(&self, commit: Commit, grant: &Grant) -> Result<Commit> {
        let record = keys::reservation(&grant.quota, grant.id)?;
        let booked = Booked { grant: grant.clone(), end: self.end };
        let commit = commit.write(booked.write(&record, ExpectedRevision::Absent)?);
        self.ledger.book(commit, self.end, grant.units)
    }

    pub(super) fn won(&mut self, committed: &Committed, grant: &Grant) -> Result<()> {
        let record = keys::reservation(&grant.quota, grant.id)?;
        let written = committed.writes.iter().find(|written| written.key == record);
        let booked = Booked { grant: grant.clone(), end: self.end };
        self.made = written.and_then(|written| written.revision).map(|revision| (booked, revision));
        Ok(())
    }

    /// Whether an earlier attempt was committed, according to this conflict.
    pub(super) fn was_committed(&mut self, conflict: &Conflict, grant: &Grant) -> Result<bool> {
        let record = keys::reservation(&grant.quota, grant.id)?;
        let Some(Slot::Live(there)) = found(conflict, &record) else { return Ok(false) };
        self.made = Some((there.value.to()?, there.revision));
        Ok(true)
    }

    /// Whether the end was added to or removed from the ledger meanwhile.
    pub(super) fn has_moved(&self, conflict: &Conflict) -> Result<bool> {
        let bucket = self.ledger.bucket(self.end)?;
        Ok(found(conflict, self.ledger.record()).is_some() || found(conflict, &bucket).is_some())
    }
}

/// Reads the ledger and the store's clock. Past entries of a crowded ledger are credited.
pub(super) async fn read_ledger(
    quota: &Quota,
    window: Window,
) -> Result<(Ledger, Timestamp), ClaimError> {
    let (store, key) = (quota.claims.store(), quota.key());
    let mut reads = 0;
    loop {
        reads += 1;
        let slots = store.get(&[keys::ledger(key.as_str())?]).await?;
        let ledger = Ledger::read(key.as_str(), window, &slots[0])?;
        let now = store.now().await?;
        let is_full = ledger.is_crowded() && !ledger.expired(now, 1).is_empty();
        if !is_full || reads > ATTEMPTS || !crediting::credit(&quota.claims, &key, window).await? {
            return Ok((ledger, now));
        }
    }
}
