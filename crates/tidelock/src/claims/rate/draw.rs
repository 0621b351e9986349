//! A take of a rate limit, judged by the store.

use tidelock_store::{
    Commit, Committed, Conflict, Rate, RawJson, RecordKey, RecordWrite, Result, StoreError,
    Timestamp, ViolationReason,
};

use super::super::ClaimKey;
use super::super::acquire::{Acquire, ConflictVerdict};
use super::super::operation::OperationRecord;
use super::RateLimit;

/// A take to be made.
#[derive(Debug)]
pub(super) struct Draw {
    key: ClaimKey,
    record: RecordKey,
    units: u32,
    rate: Rate,
    /// Record of an operation that took units before.
    operation: Option<OperationRecord>,
    /// When everything will have been replenished, if it was made now.
    pub(super) full_at: Option<i64>,
    /// When it will be possible, if it is not now.
    pub(super) possible_at: Option<Timestamp>,
}

impl Draw {
    pub(super) fn new(of: &RateLimit, units: u32) -> Result<Self> {
        let operation = of.claims.operation.as_ref();
        Ok(Self {
            key: of.key.clone(),
            record: of.record()?,
            units,
            rate: of.draw(units)?,
            operation: operation.map(|operation| operation.record(&of.key)).transpose()?,
            full_at: None,
            possible_at: None,
        })
    }

    /// Rejects another request under the id of an earlier one.
    fn check_same_request(&self, taken: u32) -> Result<()> {
        match taken == self.units {
            true => Ok(()),
            false => Err(StoreError::mismatch(format!(
                "claim {:?}: the operation took {taken} units before, not {}; use an id of its own for each request",
                self.key, self.units
            ))),
        }
    }
}

impl Acquire for Draw {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        let commit = commit.write(RecordWrite::rate(&self.record, self.rate));
        Ok(match &self.operation {
            Some(operation) => commit.write(operation.write(RawJson::new(&self.units)?)),
            None => commit,
        })
    }

    fn detects_commit(&self) -> bool {
        self.operation.is_some()
    }

    fn won(&mut self, committed: &Committed) -> Result<()> {
        let written = committed.writes.iter().find(|written| written.key == self.record);
        self.full_at = written.and_then(|written| written.sum);
        Ok(())
    }

    fn evaluate(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        let operation = self.operation.as_ref();
        if let Some(record) = operation.and_then(|operation| operation.earlier(conflict)) {
            self.check_same_request(record.value.to()?)?;
            return Ok(ConflictVerdict::AlreadyCommitted(None));
        }
        self.possible_at = conflict.violations.iter().find_map(|clash| match &clash.reason {
            ViolationReason::Rate { key, possible_at, .. } if *key == self.record => {
                Some(*possible_at)
            }
            _ => None,
        });
        Ok(match self.possible_at {
            Some(_) => ConflictVerdict::Refused,
            None => ConflictVerdict::Unrelated,
        })
    }
}
