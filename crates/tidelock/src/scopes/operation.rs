//! Mutations that are made once, however often they are asked for.
//!
//! What a mutation did and answered is written down in its own commit. Whoever asks for it again,
//! or comes at the same time and is refused by what is written there, is told the same.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidelock_store::{
    ExpectedRevision, RawJson, RecordKey, RecordWrite, Result, Revision, StoreError, When,
};

use super::mutated::{Mutated, MutationOutcome};
use super::name::Name;
use super::options::OperationId;
use crate::claims::Fingerprint;

/// What a mutation did, and what it answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OperationRecord {
    outcome: MutationOutcome,
    /// The scope was absent. Its first revision is that of this record, which was absent too: where
    /// the store was moved, or has forgotten records, both are higher than what was expected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    first: bool,
    answer: RawJson,
    /// Which mutation it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<Fingerprint>,
}

/// How an answer is written down and read again.
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
    /// For a mutation that is not remembered, and whose answer may be anything.
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

    pub(super) fn replay(&self, did: &OperationRecord) -> Result<Mutated<R>> {
        let value = (self.decode)(&did.answer)?;
        Ok(Mutated { value, outcome: did.outcome, attempts: 1, replayed: true })
    }
}

fn not_remembered() -> StoreError {
    StoreError::invalid("an operation whose answer cannot be written down")
}

impl OperationRecord {
    /// The same, as it was written in a record at this revision.
    pub(super) fn noted_at(mut self, revision: Revision) -> Self {
        if self.first {
            self.outcome = MutationOutcome::Applied(revision);
        }
        self
    }

    /// The same with what was really done, unless a record at this revision tells it already.
    pub(super) fn corrected(self, outcome: MutationOutcome, revision: Revision) -> Option<Self> {
        let told = self.clone().noted_at(revision).outcome;
        (told != outcome).then_some(Self { outcome, first: false, ..self })
    }

    /// Refuses an operation's id under which another mutation was made.
    pub(super) fn check(&self, name: &Name, operation: &OperationId) -> Result<()> {
        match (self.of, operation.of) {
            (Some(did), Some(asked)) if did != asked => Err(StoreError::mismatch(format!(
                "scope {name}: the id {:?} is of another mutation; another one needs another id",
                operation.id
            ))),
            _ => Ok(()),
        }
    }

    /// Says so, in the commit that does it.
    pub(super) fn write(&self, operation: &OperationId, key: &RecordKey) -> Result<RecordWrite> {
        let write = RecordWrite::put(key, ExpectedRevision::Absent, RawJson::new(self)?);
        Ok(write.expiring(When::In(operation.remembered)))
    }
}
