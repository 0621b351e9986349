//! Idempotent mutations: one that takes effect once per operation id.
//!
//! The outcome and the return value are recorded in the mutation's own commit. A repeat returns the
//! record; a concurrent repeat conflicts with it and then returns it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidelock_store::{
    ExpectedRevision, RawJson, RecordKey, RecordWrite, Result, Revision, StoreError, When,
};

use super::mutated::{Mutated, MutationOutcome};
use super::name::Name;
use super::options::OperationId;
use crate::claims::Fingerprint;

/// Recorded outcome and return value of a mutation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OperationRecord {
    outcome: MutationOutcome,
    /// Set if the scope was absent. Its first revision then equals the revision of this record,
    /// which was absent too. If the store was moved or has removed old records, both are higher
    /// than predicted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    first: bool,
    answer: RawJson,
    /// Fingerprint of the mutation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<Fingerprint>,
}

/// Codec of a return value.
#[derive(Debug)]
pub(crate) struct Codec<R> {
    encode: fn(&R) -> Result<RawJson>,
    decode: fn(&RawJson) -> Result<R>,
}

impl<R> Clone for Codec<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Codec<R> {}

impl<R: Serialize + DeserializeOwned> Codec<R> {
    pub(super) fn json() -> Self {
        Self { encode: |answer| RawJson::new(answer), decode: RawJson::to }
    }
}

impl<R> Codec<R> {
    /// Codec of a mutation without an operation id, whose return value is arbitrary.
    pub(super) fn none() -> Self {
        Self { encode: |_| Err(not_remembered()), decode: |_| Err(not_remembered()) }
    }

    pub(super) fn remember(
        &self,
        operation: &OperationId,
        outcome: MutationOutcome,
        answer: &R,
    ) -> Result<OperationRecord> {
        let first = outcome == MutationOutcome::Applied(Revision::FIRST);
        Ok(OperationRecord { outcome, first, answer: (self.encode)(answer)?, of: operation.of })
    }

    pub(super) fn replay(&self, record: &OperationRecord) -> Result<Mutated<R>> {
        let value = (self.decode)(&record.answer)?;
        Ok(Mutated { value, outcome: record.outcome, attempts: 1, replayed: true })
    }
}

fn not_remembered() -> StoreError {
    StoreError::invalid("an operation whose answer cannot be written down")
}

impl OperationRecord {
    /// Applies the revision of the record this was read from.
    pub(super) fn at_revision(mut self, revision: Revision) -> Self {
        if self.first {
            self.outcome = MutationOutcome::Applied(revision);
        }
        self
    }

    /// Returns the corrected record, or `None` if the record at this revision is right already.
    pub(super) fn corrected(self, outcome: MutationOutcome, revision: Revision) -> Option<Self> {
        let recorded = self.clone().at_revision(revision).outcome;
        (recorded != outcome).then_some(Self { outcome, first: false, ..self })
    }

    /// Rejects an operation id that was used for another mutation.
    pub(super) fn check(&self, name: &Name, operation: &OperationId) -> Result<()> {
        match (self.of, operation.of) {
            (Some(recorded), Some(asked)) if recorded != asked => {
                Err(StoreError::mismatch(format!(
                    "scope {name}: the id {:?} is of another mutation; another one needs another id",
                    operation.id
                )))
            }
            _ => Ok(()),
        }
    }

    /// Builds the write of the record, for the mutation's own commit.
    pub(super) fn write(&self, operation: &OperationId, key: &RecordKey) -> Result<RecordWrite> {
        let write = RecordWrite::put(key, ExpectedRevision::Absent, RawJson::new(self)?);
        Ok(write.expiring(When::In(operation.remembered)))
    }
}
