//! A reservation that is held with other claims: renewed, confirmed and given back in their
//! commits.
//!
//! Each commit is made from a look at what stands in the store, because a renewal may come in
//! between; if something has changed since, it is refused and made again.

use tidelock_store::{
    Bounds, Commit, Conflict, ExpectedRevision, Guard, RawJson, RecordKey, RecordWrite, Result,
    Revision, Slot, Timestamp, When,
};
use uuid::Uuid;

use super::super::acquire::found;
use super::super::operation::Note;
use super::super::{ClaimError, ClaimKey, Claims, keys};
use super::booking::{self, Booked};
use super::ledger::{Ledger, change};
use super::{Grant, Quota, Window};

/// A reservation that is held with other claims.
#[derive(Debug)]
pub(in super::super) struct Pledge {
    quota: Quota,
    pub(in super::super) key: ClaimKey,
    pub(in super::super) grant: Grant,
    record: RecordKey,
    /// Where it says, once it is confirmed, that it was had under an operation.
    note: Option<Note>,
}

/// How a pledge stands.
#[derive(Debug)]
pub(in super::super) struct View {
    /// What is booked, and at which revision; nothing once it is over.
    booked: Option<(Booked, Revision)>,
    /// Whether the period that it was taken from is still open.
    is_open: bool,
    ledger: Ledger,
}

impl View {
    /// Whether there are so many moments in the ledger that those which have passed should leave
    /// it.
    pub(in super::super) fn is_crowded(&self) -> bool {
        self.ledger.is_crowded()
    }

    /// Whether nothing has changed between two looks.
    pub(in super::super) fn is_like(&self, other: &Self) -> bool {
        self.booked == other.booked
            && self.is_open == other.is_open
            && self.ledger.is_like(&other.ledger)
    }
}

impl Pledge {
    pub(super) async fn of(
        quota: &Quota,
        id: Uuid,
        grant: Option<Grant>,
        note: Option<Note>,
    ) -> Result<Self, ClaimError> {
        let key = quota.key();
        let record = keys::reservation(key.as_str(), id)?;
        let grant = match grant {
            Some(grant) => grant,
            // An earlier try has landed, and another part of it has told so.
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
        Ok(Self { quota: quota.clone(), key, grant, record, note })
    }

    /// It still stands.
    pub(in super::super) fn guard(&self) -> Guard {
        Guard::Record { key: self.record.clone(), expected: ExpectedRevision::Exists }
    }

    /// Whether it is over, going by what was in the way.
    pub(in super::super) fn is_gone(&self, conflict: &Conflict) -> bool {
        found(conflict, &self.record).is_some_and(|slot| slot.live().is_none())
    }

    /// How these stand, all at one moment.
    pub(in super::super) async fn look(claims: &Claims, pledges: &[Self]) -> Result<Vec<View>> {
        let mut places = Vec::new();
        for pledge in pledges {
            let quota = pledge.key.as_str();
            places.extend([
                pledge.record.clone(),
                keys::window(&pledge.key)?,
                keys::ledger(quota)?,
            ]);
        }
        let slots = match places.is_empty() {
            true => Vec::new(),
            false => claims.store().get(&places).await?,
        };
        pledges.iter().zip(slots.chunks(3)).map(|(pledge, slots)| pledge.view(slots)).collect()
    }

    fn view(&self, slots: &[Slot]) -> Result<View> {
        let booked = slots[0].live().map(|there| Ok((there.value.to()?, there.revision)));
        let window = Window { revision: self.grant.window, end: self.grant.ends };
        Ok(View {
            booked: booked.transpose()?,
            is_open: slots[1].live().is_some_and(|open| open.revision == self.grant.window),
            ledger: Ledger::read(self.key.as_str(), window, &slots[2])?,
        })
    }

    /// Takes it for good. What is past its end is refused.
    pub(in super::super) fn confirm(&self, commit: Commit, view: &View) -> Result<Commit> {
        let commit = self.settle(commit, view)?;
        Ok(match &self.note {
            Some(note) => commit.write(note.write(RawJson::new(&self.grant.confirmed())?)),
            None => commit,
        })
    }

    /// Gives it back, to the period that it was taken from.
    pub(in super::super) fn give_back(&self, commit: Commit, view: &View) -> Result<Commit> {
        let commit = self.settle(commit, view)?;
        if !view.is_open || view.booked.is_none() {
            return Ok(commit);
        }
        let back =
            RecordWrite::add(&keys::taken(&self.key)?, -self.grant.units, Bounds::at_least(0));
        Ok(commit.guard_record(&keys::window(&self.key)?, self.of_window()).write(back))
    }

    /// Keeps it until this moment.
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
        // Nothing will ever be credited to a period that is over.
        let after = keys::bucket(self.key.as_str(), self.grant.window, end)?;
        Ok(commit.write(RecordWrite::add(&after, units, Bounds::NONE).expiring(When::At(end))))
    }

    /// Moments that have passed do not pile up.
    pub(in super::super) async fn tidy(&self) -> Result<(), ClaimError> {
        let window = Window { revision: self.grant.window, end: self.grant.ends };
        booking::look(&self.quota, window).await.map(drop)
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
