//! A bid for some of a quota: the window is still open, and what is taken stays within the limit.

use tidelock_store::{
    Bounds, Commit, Committed, Conflict, ExpectedRevision, Reason, RecordKey, Result, Slot, Write,
};
use uuid::Uuid;

use super::super::bid::{Bid, Learned, found};
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
        Ok(Self { key, record, taken, window, units, limit, booking: None, met: None, id: Uuid::now_v7() })
    }

    pub(in super::super) fn grant(&self) -> Grant {
        Grant {
            id: self.id,
            quota: self.key.to_string(),
            units: self.units,
            window: self.window.revision,
            ends: self.window.end,
        }
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
        match &self.booking {
            Some(booking) => booking.stage(commit, self.window, self.units),
            None => Ok(commit),
        }
    }

    fn is_witness(&self) -> bool {
        false
    }

    fn won(&mut self, committed: &Committed) {
        if let Some(booking) = &mut self.booking {
            booking.won(committed);
        }
    }

    fn learn(&mut self, conflict: &Conflict) -> Result<Learned> {
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
