//! Some of a quota that is taken for a while: confirmed, given back, or gone back by itself.
//!
//! A reservation is a record that says how much, and a lease beside it that says for how long. What a reservation whose lease has
//! run out had taken is given back by whoever next finds the quota exceeded: by compare, so that it goes back once.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Bounds, Commit, CommitOutcome, Committed, Conflict, ExpectedRevision, Json, Record, RecordKey,
    RecordQuery, Result, Revision, Slot, Timestamp, When, Write,
};
use uuid::Uuid;

use super::super::bid::found;
use super::super::{ClaimError, ClaimKey, Claims, keys};
use super::draw::Draw;
use super::{Grant, Quota, Refund, Window};

/// How many places there are for reservations of one quota, at first and at most.
const PLACES: (usize, usize) = (16, 1_000);

/// What stands in the record of a reservation.
#[derive(Debug, Serialize, Deserialize)]
struct Booked {
    units: i64,
    window: Revision,
    /// Which grant this is, so that whoever asks for it again can tell it from others that had the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grant: Option<Uuid>,
}

/// A place for a reservation that is asked for.
#[derive(Debug)]
pub(super) struct Booking {
    place: usize,
    record: RecordKey,
    lease: RecordKey,
    life: Duration,
    until: Option<Timestamp>,
    revision: Option<Revision>,
    places: usize,
}

impl Booking {
    pub(super) fn new(key: &ClaimKey, life: Duration) -> Result<Self> {
        let place = fastrand::usize(..PLACES.0);
        let record = keys::reservation(key, place)?;
        let lease = keys::reservation_lease(&record)?;
        Ok(Self { place, record, lease, life, until: None, revision: None, places: PLACES.0 })
    }

    /// Somebody else has the place; there are more. Says no when it has looked at many.
    pub(super) fn move_on(&mut self, key: &ClaimKey) -> Result<bool> {
        let looked = self.places >= PLACES.1;
        self.places = if looked { PLACES.0 } else { (self.places * 2).min(PLACES.1) };
        self.place = fastrand::usize(..self.places);
        self.record = keys::reservation(key, self.place)?;
        self.lease = keys::reservation_lease(&self.record)?;
        Ok(!looked)
    }

    pub(super) fn place(&self) -> usize {
        self.place
    }

    pub(super) fn stage(&self, commit: Commit, grant: &Grant) -> Result<Commit> {
        let Grant { id, units, window, .. } = *grant;
        let booked = Json::new(&Booked { units, window, grant: Some(id) })?;
        let lease = Write::put(&self.lease, ExpectedRevision::Any, Json::new(&())?);
        Ok(commit
            .write(Write::put(&self.record, ExpectedRevision::Absent, booked))
            .write(lease.expiring(When::In(self.life))))
    }

    pub(super) fn won(&mut self, committed: &Committed) {
        let written = committed.writes.iter().find(|written| written.key == self.record);
        self.revision = written.and_then(|written| written.revision);
        self.until = Some(committed.at.plus(self.life));
    }

    pub(super) fn met(&self, conflict: &Conflict) -> bool {
        found(conflict, &self.record).is_some()
    }
}

/// Some of a quota, for a while: confirm it, give it back, or let it run out.
#[derive(Debug)]
#[must_use = "a reservation that is not confirmed runs out"]
pub struct Reservation {
    quota: Quota,
    grant: Grant,
    record: RecordKey,
    lease: RecordKey,
    revision: Revision,
    place: usize,
    until: Timestamp,
}

impl Reservation {
    /// What was drawn just now, or before under the same operation.
    pub(super) async fn of(quota: Quota, mut draw: Draw) -> Result<Self, ClaimError> {
        let (grant, booking) = (draw.grant(), draw.booking.take().expect("it was asked for"));
        match draw.noted.and_then(|noted| noted.place) {
            Some(place) => Self::again(quota, grant, place).await,
            None => Ok(Self::new(quota, grant, booking)),
        }
    }

    /// One that was made before, if it still stands.
    async fn again(quota: Quota, grant: Grant, place: usize) -> Result<Self, ClaimError> {
        let record = keys::reservation(&quota.key(), place)?;
        let lease = keys::reservation_lease(&record)?;
        let slots = quota.claims.store().get(&[record.clone(), lease.clone()]).await?;
        if let [Slot::Live(booked), Slot::Live(leased)] = &slots[..]
            && booked.value.to::<Booked>()?.grant == Some(grant.id)
            && let Some(until) = leased.expires_at
        {
            return Ok(Self { quota, grant, record, lease, revision: booked.revision, place, until });
        }
        Err(gone(&quota))
    }

    fn new(quota: Quota, grant: Grant, booking: Booking) -> Self {
        let revision = booking.revision.expect("what was won was written");
        let until = booking.until.expect("what was won was written at some moment");
        let Booking { record, lease, place, .. } = booking;
        Self { quota, grant, record, lease, revision, place, until }
    }

    pub(super) fn resumed(quota: Quota, voucher: &Voucher) -> Result<Self> {
        let record = keys::reservation(&quota.key(), voucher.place)?;
        let lease = keys::reservation_lease(&record)?;
        let Voucher { grant, revision, place, until } = voucher.clone();
        Ok(Self { quota, grant, record, lease, revision, place, until })
    }

    /// What somebody else has to know to go on with it: see [`Quota::resume`].
    pub fn voucher(&self) -> Voucher {
        Voucher { grant: self.grant.clone(), place: self.place, revision: self.revision, until: self.until }
    }

    /// When it goes back by itself.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// How much.
    pub fn units(&self) -> i64 {
        self.grant.units
    }

    /// Takes it for good, unless it has gone back by itself.
    ///
    /// # Errors
    /// `Settled` if it was confirmed or given back before, or ran out and has gone back since.
    pub async fn confirm(&self) -> Result<Grant, ClaimError> {
        match self.settle(Commit::new()).await? {
            CommitOutcome::Committed(_) => Ok(self.grant.clone()),
            CommitOutcome::Conflict(_) => Err(gone(&self.quota)),
        }
    }

    /// The parts of a commit that take it for good, for a commit that somebody else makes.
    pub fn confirmation(&self) -> [Write; 2] {
        let mine = ExpectedRevision::Revision(self.revision);
        [Write::delete(&self.record, mine), Write::delete(&self.lease, ExpectedRevision::Any)]
    }

    /// Gives it back, once, to the period that it was taken from.
    ///
    /// # Errors
    /// `Store` if the store fails.
    pub async fn refund(&self) -> Result<Refund, ClaimError> {
        let key = self.quota.key();
        let back = give_back(Commit::new(), &key, self.grant.window, self.grant.units)?;
        let conflict = match self.settle(back).await? {
            CommitOutcome::Committed(_) => return Ok(Refund::Refunded),
            CommitOutcome::Conflict(conflict) => conflict,
        };
        if found(&conflict, &self.record).is_some() {
            return Ok(Refund::Already);
        }
        // Only the period is over: the reservation goes, and nothing is charged less.
        let _gone = self.settle(Commit::new()).await?;
        Ok(Refund::Over)
    }

    async fn settle(&self, commit: Commit) -> Result<CommitOutcome, ClaimError> {
        let commit = self.confirmation().into_iter().fold(commit, Commit::write);
        let commit = self.quota.claims.repeatable(commit);
        Ok(self.quota.claims.send(&commit).await?)
    }
}

fn gone(quota: &Quota) -> ClaimError {
    ClaimError::Settled { key: quota.key() }
}

/// A reservation on paper, for whoever goes on with it later, in this process or another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voucher {
    pub(super) grant: Grant,
    place: usize,
    revision: Revision,
    /// When it goes back by itself.
    pub until: Timestamp,
}

/// Gives back what reservations had taken whose lease has run out; says whether there were any.
pub(super) async fn reclaim(claims: &Claims, key: &ClaimKey, window: Window) -> Result<bool, ClaimError> {
    let query = RecordQuery::prefix(keys::reservations(key));
    let booked = claims.store().scan(query).await?.records;
    let leases = booked.iter().map(|record| keys::reservation_lease(&record.key));
    let leases = leases.collect::<Result<Vec<_>>>()?;
    let standing = claims.store().get(&leases).await?;
    let mut any = false;
    for ((record, lease), slot) in booked.iter().zip(&leases).zip(&standing) {
        if slot.live().is_none() {
            any |= reclaim_one(claims, key, window, record, lease).await?;
        }
    }
    Ok(any)
}

async fn reclaim_one(
    claims: &Claims,
    key: &ClaimKey,
    window: Window,
    record: &Record,
    lease: &RecordKey,
) -> Result<bool, ClaimError> {
    let booked: Booked = record.value.to()?;
    let commit = Commit::new()
        .write(Write::delete(&record.key, ExpectedRevision::Revision(record.revision)))
        .guard_record(lease, ExpectedRevision::Absent);
    // What was taken from a period that is over is not given back to this one.
    let commit = match booked.window == window.revision {
        true => give_back(commit, key, booked.window, booked.units)?,
        false => commit,
    };
    // If it is refused, somebody else was quicker, or it was confirmed after all.
    Ok(claims.send(&commit).await?.conflict().is_none())
}

fn give_back(commit: Commit, key: &ClaimKey, window: Revision, units: i64) -> Result<Commit> {
    Ok(commit.guard_record(&keys::window(key)?, ExpectedRevision::Revision(window)).write(Write::add(
        &keys::taken(key)?,
        -units,
        Bounds::at_least(0),
    )))
}
