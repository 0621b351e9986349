//! Debit of a quota: the window is still open, and the units taken stay within the limit.

use tidelock_store::{
    Bounds, Commit, Committed, Conflict, ExpectedRevision, RawJson, RecordKey, RecordWrite, Result,
    Slot, StoreError, Timestamp, ViolationReason, fresh_uuid,
};
use uuid::Uuid;

use super::super::acquire::{Acquire, ConflictVerdict, found};
use super::super::operation::{Operation, OperationRecord};
use super::super::{ClaimError, ClaimKey, keys};
use super::booking::Booking;
use super::pledge::Pledge;
use super::{Grant, Quota, QuotaExceeded, Window};

/// A debit to be made.
#[derive(Debug)]
pub(in super::super) struct Debit {
    key: ClaimKey,
    record: RecordKey,
    taken: RecordKey,
    pub(super) window: Window,
    units: i64,
    limit: i64,
    pub(super) booking: Option<Booking>,
    /// Why it was refused, if it was.
    pub(super) refusal: Option<DebitRefusal>,
    id: Uuid,
    /// Record of an operation that took units before.
    operation: Option<OperationRecord>,
    pub(super) recorded: Option<Grant>,
    /// Whether it is held with other claims, and recorded only when it is confirmed.
    is_pledged: bool,
}

/// Why a debit was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DebitRefusal {
    /// The window is over.
    Over,
    /// The reservation's end was added to or removed from the ledger meanwhile.
    Moved,
    /// It was taken before under the same operation id, and has ended.
    Settled,
    /// The units that are taken already.
    Exceeded(i64),
}

impl Debit {
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
            refusal: None,
            id: fresh_uuid(),
            operation: None,
            recorded: None,
            is_pledged: false,
        })
    }

    /// Makes the debit idempotent under an operation id.
    pub(super) fn once(mut self, operation: Option<&Operation>) -> Result<Self> {
        self.operation = operation.map(|operation| operation.record(&self.key)).transpose()?;
        Ok(self)
    }

    /// Marks the debit as held with other claims. A repeat under the same operation id is the same
    /// reservation.
    pub(super) fn pledged(mut self, operation: Option<&Operation>) -> Self {
        if let Some(operation) = operation {
            let name = format!("{}/{}", self.key, operation.id);
            self.id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
        }
        self.is_pledged = true;
        self
    }

    /// Sets the end of a reservation that is held with other claims.
    pub(in super::super) async fn reserve_until(
        &mut self,
        quota: &Quota,
        end: Timestamp,
    ) -> Result<(), ClaimError> {
        self.booking = Some(Booking::until(quota, self.window, end).await?);
        Ok(())
    }

    /// Converts a successful debit into a pledge.
    pub(in super::super) async fn into_pledge(self, quota: &Quota) -> Result<Pledge, ClaimError> {
        let grant = match self.booking.and_then(|booking| booking.made) {
            Some((booked, _)) => Some(booked.grant),
            None => None,
        };
        Pledge::of(quota, self.window, self.id, grant, self.operation).await
    }

    /// Returns the grant, new or recorded.
    pub(in super::super) fn grant(&self) -> Grant {
        self.recorded.clone().unwrap_or_else(|| self.new_grant())
    }

    fn new_grant(&self) -> Grant {
        self.window.seal(Grant {
            id: self.id,
            quota: self.key.to_string(),
            units: self.units,
            window: self.window.revision,
            ends: self.window.end,
            reserved: self.booking.is_some(),
            seal: None,
            landing: None,
        })
    }

    /// Returns the recorded grant, if it matches the request.
    fn check_same_request(&self, recorded: Grant) -> Result<Grant> {
        if recorded.units == self.units && recorded.reserved == self.booking.is_some() {
            return Ok(recorded);
        }
        Err(StoreError::mismatch(format!(
            "claim {:?}: the operation took {} units before, not like this; use an id of its own for each request",
            self.key, recorded.units
        )))
    }

    /// Rejects a reservation of the same operation that does not match the request.
    fn check_existing(&self) -> Result<()> {
        let made = self.booking.as_ref().and_then(|booking| booking.made.as_ref());
        made.map_or(Ok(()), |(booked, _)| self.check_same_request(booked.grant.clone()).map(drop))
    }

    pub(super) fn exceeded(&self, used: i64) -> QuotaExceeded {
        QuotaExceeded {
            key: self.key.clone(),
            used,
            limit: self.limit,
            requested: self.units,
            resets_at: self.window.end,
        }
    }

    fn refused(&mut self, refusal: DebitRefusal) -> ConflictVerdict {
        self.refusal = Some(refusal);
        ConflictVerdict::Refused
    }
}

impl Acquire for Debit {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        let open = ExpectedRevision::Revision(self.window.revision);
        let commit = commit.guard_record(&self.record, open).write(RecordWrite::add(
            &self.taken,
            self.units,
            Bounds::at_most(self.limit),
        ));
        let commit = match &self.operation {
            Some(operation) if self.is_pledged => {
                commit.guard_record(&operation.record, ExpectedRevision::Absent)
            }
            Some(operation) => commit.write(operation.write(RawJson::new(&self.new_grant())?)),
            None => commit,
        };
        match &self.booking {
            Some(booking) => booking.stage(commit, &self.new_grant()),
            None => Ok(commit),
        }
    }

    fn detects_commit(&self) -> bool {
        self.operation.is_some() || self.is_pledged
    }

    fn won(&mut self, committed: &Committed) -> Result<()> {
        let grant = self.new_grant();
        self.booking.as_mut().map_or(Ok(()), |booking| booking.won(committed, &grant))
    }

    fn evaluate(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        if let Some(record) =
            self.operation.as_ref().and_then(|operation| operation.earlier(conflict))
        {
            if self.is_pledged {
                return Ok(self.refused(DebitRefusal::Settled));
            }
            self.recorded = Some(self.check_same_request(record.value.to()?)?);
            return Ok(ConflictVerdict::AlreadyCommitted(None));
        }
        let grant = self.new_grant();
        if let Some(booking) = &mut self.booking
            && booking.was_committed(conflict, &grant)?
        {
            self.check_existing()?;
            return Ok(ConflictVerdict::AlreadyCommitted(None));
        }
        match found(conflict, &self.record) {
            Some(slot @ Slot::Live(_)) => {
                self.window = Window::of(slot).unwrap_or(self.window);
                // Buckets belong to a window.
                return Ok(if self.booking.is_some() {
                    self.refused(DebitRefusal::Moved)
                } else {
                    ConflictVerdict::Retry
                });
            }
            Some(_) => return Ok(self.refused(DebitRefusal::Over)),
            None => {}
        }
        let used = conflict.violations.iter().find_map(|clash| match &clash.reason {
            ViolationReason::Bound { key, found, .. } if *key == self.taken => Some(*found),
            _ => None,
        });
        if let Some(used) = used {
            return Ok(self.refused(DebitRefusal::Exceeded(used)));
        }
        match &self.booking {
            Some(booking) if booking.has_moved(conflict)? => Ok(self.refused(DebitRefusal::Moved)),
            _ => Ok(ConflictVerdict::Unrelated),
        }
    }
}
