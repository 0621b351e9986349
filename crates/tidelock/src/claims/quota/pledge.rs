//! Pledge: a reservation held with other claims, and renewed, confirmed and released in their
//! commits.
//!
//! Each commit is built from a read of the current records, because a renewal may come in between;
//! if something has changed since, the commit conflicts and is built again.

use tidelock_store::{
    Bounds, Commit, Conflict, ExpectedRevision, Guard, RawJson, RecordKey, RecordWrite, Result,
    Revision, Slot, Timestamp, When,
};
use uuid::Uuid;

use super::super::acquire::found;
use super::super::operation::OperationRecord;
use super::super::{ClaimError, ClaimKey, Claims, keys};
use super::booking::{self, Booked};
use super::ledger::{Ledger, change};
use super::{Grant, Quota, Window};

/// A reservation held with other claims.
#[derive(Debug)]
pub(in super::super) struct Pledge {
    quota: Quota,
    pub(in super::super) key: ClaimKey,
    pub(in super::super) grant: Grant,
    /// The grant once it is confirmed.
    pub(in super::super) confirmed: Grant,
    record: RecordKey,
    /// Record of the operation, written when it is confirmed.
    operation: Option<OperationRecord>,
}

/// Current state of a pledge.
#[derive(Debug)]
pub(in super::super) struct View {
    /// The reservation and its revision; `None` once it has ended.
    booked: Option<(Booked, Revision)>,
    /// Whether the window it was taken from is still open.
    is_open: bool,
    ledger: Ledger,
}

impl View {
    /// Whether the ledger has so many entries that past ones should be removed.
    pub(in super::super) fn is_crowded(&self) -> bool {
        self.ledger.is_crowded()
    }

    /// Whether nothing has changed between two reads.
    pub(in super::super) fn is_like(&self, other: &Self) -> bool {
        self.booked == other.booked
            && self.is_open == other.is_open
            && self.ledger.is_like(&other.ledger)
    }
}

impl Pledge {
    pub(super) async fn of(
        quota: &Quota,
        window: Window,
        id: Uuid,
        grant: Option<Grant>,
        operation: Option<OperationRecord>,
    ) -> Result<Self, ClaimError> {
        let key = quota.key();
        let record = keys::reservation(key.as_str(), id)?;
        let grant = match grant {
            Some(grant) => grant,
            // An earlier attempt was committed, as another part of it showed.
            None => {
                let slots = quota.claims.store().get(std::slice::from_ref(&record)).await?;
                let there = slots.first().and_then(Slot::live);
                there
                    .ok_or_else(|| ClaimError::Settled { key: key.clone() })?
                    .value
                    .to::<Booked>()?
                    .grant
            }
        };
        quota.cache(window);
        let window = quota.window_of(&grant).await?;
        let confirmed = grant.confirmed(window.as_ref());
        Ok(Self { quota: quota.clone(), key, grant, confirmed, record, operation })
    }

    /// Guard: the reservation still exists.
    pub(in super::super) fn guard(&self) -> Guard {
        Guard::Record { key: self.record.clone(), expected: ExpectedRevision::Exists }
    }

    /// Whether it has ended, according to this conflict.
    pub(in super::super) fn is_gone(&self, conflict: &Conflict) -> bool {
        found(conflict, &self.record).is_some_and(|slot| slot.live().is_none())
    }

    /// Reads the state of several pledges in one consistent read.
    pub(in super::super) async fn read(claims: &Claims, pledges: &[Self]) -> Result<Vec<View>> {
        let mut records = Vec::new();
        for pledge in pledges {
            let quota = pledge.key.as_str();
            records.extend([
                pledge.record.clone(),
                keys::window(&pledge.key)?,
                keys::ledger(quota)?,
            ]);
        }
        let slots = match records.is_empty() {
            true => Vec::new(),
            false => claims.store().get(&records).await?,
        };
        pledges.iter().zip(slots.chunks(3)).map(|(pledge, slots)| pledge.view(slots)).collect()
    }

    fn view(&self, slots: &[Slot]) -> Result<View> {
        let booked = slots[0].live().map(|there| Ok((there.value.to()?, there.revision)));
        let window = Window {
            revision: self.grant.window,
            end: self.grant.ends,
            secret: None,
            opened: None,
        };
        Ok(View {
            booked: booked.transpose()?,
            is_open: slots[1].live().is_some_and(|open| open.revision == self.grant.window),
            ledger: Ledger::read(self.key.as_str(), window, &slots[2])?,
        })
    }

    /// Adds the confirmation to a commit. An expired reservation is rejected.
    pub(in super::super) fn confirm(&self, commit: Commit, view: &View) -> Result<Commit> {
        let commit = self.settle(commit, view)?;
        Ok(match &self.operation {
            Some(operation) => commit.write(operation.write(RawJson::new(&self.confirmed)?)),
            None => commit,
        })
    }

    /// Adds the release to a commit: the units go back to the window they were taken from.
    pub(in super::super) fn give_back(&self, commit: Commit, view: &View) -> Result<Commit> {
        let commit = self.settle(commit, view)?;
        if !view.is_open || view.booked.is_none() {
            return Ok(commit);
        }
        let back =
            RecordWrite::add(&keys::taken(&self.key)?, -self.grant.units, Bounds::at_least(0));
        Ok(commit.guard_record(&keys::window(&self.key)?, self.of_window()).write(back))
    }

    /// Extends the reservation until this time.
    pub(in super::super) fn extend(
        &self,
        commit: Commit,
        view: &View,
        end: Timestamp,
    ) -> Result<Commit> {
        let Some((booked, revision)) = &view.booked else { return self.settle(commit, view) };
        let mine = ExpectedRevision::Revision(*revision);
        if booked.end >= end {
            return Ok(commit.guard_record(&self.record, mine));
        }
        let units = self.grant.units;
        let before = keys::bucket(self.key.as_str(), self.grant.window, booked.end)?;
        let next = Booked { grant: booked.grant.clone(), end };
        let commit = commit.write(next.write(&self.record, mine)?).write(change(&before, -units));
        if view.is_open {
            let commit = commit.guard_record(&keys::window(&self.key)?, self.of_window());
            return view.ledger.book(commit, end, units);
        }
        // Nothing is ever credited to a window that is over.
        let after = keys::bucket(self.key.as_str(), self.grant.window, end)?;
        Ok(commit.write(RecordWrite::add(&after, units, Bounds::NONE).expiring(When::At(end))))
    }

    /// Removes past entries from the ledger.
    pub(in super::super) async fn tidy(&self) -> Result<(), ClaimError> {
        let window = Window {
            revision: self.grant.window,
            end: self.grant.ends,
            secret: None,
            opened: None,
        };
        booking::read_ledger(&self.quota, window).await.map(drop)
    }

    fn settle(&self, commit: Commit, view: &View) -> Result<Commit> {
        Ok(match &view.booked {
            Some((booked, revision)) => {
                booked.settle(&self.record, *revision)?.into_iter().fold(commit, Commit::write)
            }
            None => commit.guard_record(&self.record, ExpectedRevision::Exists),
        })
    }

    fn of_window(&self) -> ExpectedRevision {
        ExpectedRevision::Revision(self.grant.window)
    }
}
