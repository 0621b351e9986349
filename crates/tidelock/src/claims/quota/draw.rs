//! A bid for some of a quota: the window is still open, and what is taken stays within the limit.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    Bounds, Commit, Committed, Conflict, ExpectedRevision, Json, Reason, RecordKey, Result, Slot, StoreError,
    Write,
};
use uuid::Uuid;

use super::super::bid::{Bid, Learned, found};
use super::super::operation::{Note, Operation};
use super::super::{ClaimKey, keys};
use super::reservation::Booking;
use super::{Exceeded, Grant, Window};

/// A bid for some of a quota.
#[derive(Debug)]
pub(in super::super) struct Draw {
    key: ClaimKey,
    record: RecordKey,
    taken: RecordKey,
    pub(super) window: Window,
    units: i64,
    limit: i64,
    pub(super) booking: Option<Booking>,
    /// Why it cannot be had, if it cannot.
    pub(super) met: Option<Met>,
    id: Uuid,
    /// Where it says that it was had before.
    note: Option<Note>,
    pub(super) noted: Option<Noted>,
}

/// What was had before, under the same operation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    grant: Grant,
    /// Where it is booked, if it was reserved.
    pub(super) place: Option<usize>,
}

/// Why some of a quota cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// The window is over.
    Over,
    /// There is hardly a place left for another reservation.
    Crowded,
    /// So much was taken already.
    Exceeded(i64),
}

impl Draw {
    pub(super) fn new(key: ClaimKey, window: Window, units: i64, limit: i64) -> Result<Self> {
        let (record, taken) = (keys::window(&key)?, keys::taken(&key)?);
        Ok(Self {
            key,
            record,
            taken,
            window,
            units,
            limit,
            booking: None,
            met: None,
            id: Uuid::now_v7(),
            note: None,
            noted: None,
        })
    }

    /// The same, once: had before under the same operation, it is had no second time.
    pub(super) fn once(mut self, operation: Option<&Operation>) -> Result<Self> {
        self.note = operation.map(|operation| operation.note(&self.key)).transpose()?;
        Ok(self)
    }

    /// What is granted, or was before.
    pub(in super::super) fn grant(&self) -> Grant {
        self.noted.as_ref().map_or_else(|| self.fresh(), |noted| noted.grant.clone())
    }

    fn fresh(&self) -> Grant {
        Grant {
            id: self.id,
            quota: self.key.to_string(),
            units: self.units,
            window: self.window.revision,
            ends: self.window.end,
        }
    }

    fn to_note(&self) -> Noted {
        Noted { grant: self.fresh(), place: self.booking.as_ref().map(Booking::place) }
    }

    /// What was had before, if that was asked for like this.
    fn as_asked(&self, noted: Noted) -> Result<Noted> {
        if noted.grant.units == self.units && noted.place.is_some() == self.booking.is_some() {
            return Ok(noted);
        }
        Err(StoreError::mismatch(format!(
            "claim {:?}: the operation took {} units before, not like this; use an id of its own for each request",
            self.key, noted.grant.units
        )))
    }

    pub(super) fn exceeded(&self, used: i64) -> Exceeded {
        Exceeded {
            key: self.key.clone(),
            used,
            limit: self.limit,
            requested: self.units,
            resets_at: self.window.end,
        }
    }

    fn refused(&mut self, met: Met) -> Learned {
        self.met = Some(met);
        Learned::Refused
    }
}

impl Bid for Draw {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        let open = ExpectedRevision::Revision(self.window.revision);
        let commit = commit.guard_record(&self.record, open).write(Write::add(
            &self.taken,
            self.units,
            Bounds::at_most(self.limit),
        ));
        let commit = match &self.note {
            Some(note) => commit.write(note.write(Json::new(&self.to_note())?)),
            None => commit,
        };
        match &self.booking {
            Some(booking) => booking.stage(commit, &self.fresh()),
            None => Ok(commit),
        }
    }

    fn is_witness(&self) -> bool {
        self.note.is_some()
    }

    fn won(&mut self, committed: &Committed) {
        if let Some(booking) = &mut self.booking {
            booking.won(committed);
        }
    }

    fn learn(&mut self, conflict: &Conflict) -> Result<Learned> {
        if let Some(record) = self.note.as_ref().and_then(|note| note.met(conflict)) {
            self.noted = Some(self.as_asked(record.value.to()?)?);
            return Ok(Learned::Landed(None));
        }
        match found(conflict, &self.record) {
            Some(Slot::Live(record)) => {
                self.window = Window { revision: record.revision, end: record.expires_at };
                return Ok(Learned::Again);
            }
            Some(_) => return Ok(self.refused(Met::Over)),
            None => {}
        }
        let used = conflict.clashes.iter().find_map(|clash| match &clash.reason {
            Reason::Bound { key, found, .. } if *key == self.taken => Some(*found),
            _ => None,
        });
        if let Some(used) = used {
            return Ok(self.refused(Met::Exceeded(used)));
        }
        Ok(match &mut self.booking {
            Some(booking) if booking.met(conflict) => match booking.move_on(&self.key)? {
                true => Learned::Again,
                false => self.refused(Met::Crowded),
            },
            _ => Learned::Nothing,
        })
    }
}
