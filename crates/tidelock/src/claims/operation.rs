//! Idempotent claims: a repeat with the same operation id gets the first result.
//!
//! A claim record contains the id of its operation, so that a repeat recognizes its own claim.
//! Quotas and singletons map the same request to another record in the next period. For them a
//! separate record stores the result: it is written in the acquiring commit and makes every other
//! one conflict.

use std::time::Duration;

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, RawJson, Record, RecordKey, RecordWrite, Result,
    When,
};

use super::acquire::{Acquire, ConflictVerdict, found};
use super::{ClaimKey, keys};
use crate::bounds;
use crate::events::submit;

/// An operation id and how long it is remembered.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) remembered: Duration,
}

impl Operation {
    /// Rejects an empty id and a duration that the store does not support.
    pub(super) fn check(&self) -> Result<()> {
        bounds::names(&self.id)?;
        let what = format_args!("operation {:?}: a memory", self.id);
        bounds::keeps(what, self.remembered)
    }

    /// Returns the operation's record for this claim.
    pub(super) fn record(&self, key: &ClaimKey) -> Result<OperationRecord> {
        self.check()?;
        Ok(OperationRecord { record: keys::operation(key, &self.id)?, remembered: self.remembered })
    }
}

/// Adds an id with which the commit can be sent again: by its sender, and under an operation by a
/// repeat of the call.
pub(super) fn ensure_retry_id(operation: Option<&Operation>, commit: Commit) -> Commit {
    match operation {
        Some(operation) => submit::derive_id(commit, &operation.id),
        None => submit::ensure_retry_id(commit),
    }
}

/// Record of an operation's result.
#[derive(Debug)]
pub(super) struct OperationRecord {
    pub(super) record: RecordKey,
    remembered: Duration,
}

impl OperationRecord {
    /// Builds the write of the result, for the acquiring commit.
    pub(super) fn write(&self, result: RawJson) -> RecordWrite {
        RecordWrite::put(&self.record, ExpectedRevision::Absent, result)
            .expiring(When::In(self.remembered))
    }

    /// Returns the earlier result, if that caused the conflict.
    pub(super) fn earlier<'a>(&self, conflict: &'a Conflict) -> Option<&'a Record> {
        found(conflict, &self.record)?.live()
    }
}

/// Condition that an operation was not executed yet.
#[derive(Debug)]
pub(super) struct NotExecuted {
    key: ClaimKey,
    record: OperationRecord,
    /// It was executed.
    pub(super) was_done: bool,
}

impl NotExecuted {
    pub(super) fn new(operation: &Operation, key: &ClaimKey) -> Result<Self> {
        Ok(Self { key: key.clone(), record: operation.record(key)?, was_done: false })
    }
}

impl Acquire for NotExecuted {
    fn key(&self) -> &ClaimKey {
        &self.key
    }

    fn stage(&self, commit: Commit) -> Result<Commit> {
        Ok(commit.write(self.record.write(RawJson::new(&())?)))
    }

    fn detects_commit(&self) -> bool {
        true
    }

    fn won(&mut self, _: &Committed) -> Result<()> {
        Ok(())
    }

    fn evaluate(&mut self, conflict: &Conflict) -> Result<ConflictVerdict> {
        self.was_done = self.record.earlier(conflict).is_some();
        Ok(if self.was_done {
            ConflictVerdict::AlreadyCommitted(None)
        } else {
            ConflictVerdict::Unrelated
        })
    }
}
