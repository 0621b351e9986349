//! Creation and deletion of a durable scope.
//!
//! Neither reads the document. With an operation id, the result is recorded in the same commit, as
//! for every other mutation.

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, RecordWrite, Result, Revision, Slot,
};

use super::Call;
use crate::scopes::cached_scope::{found, text};
use crate::scopes::document::Doc;
use crate::scopes::error::ScopeError;
use crate::scopes::mutated::{Mutated, MutationOutcome};
use crate::scopes::operation::Codec;
use crate::scopes::state::ScopeState;

impl<S: ScopeState> Call<'_, S> {
    /// Creates the scope with this state, if it does not exist.
    pub(in super::super) async fn create(self, doc: Doc<S>) -> Result<Mutated, ScopeError> {
        let _turn = self.own_turn().await?;
        let write = RecordWrite::put(self.key(), ExpectedRevision::Absent, text(&doc));
        let mut commit = self.options.also.clone().write(self.options.with_ttl(write));
        let mut predicted = None;
        if self.operation.is_some() {
            let (before, record) = self.read().await?;
            if let Some(record) = record {
                return Ok(Codec::json().replay(&record)?);
            }
            predicted = Some(MutationOutcome::Applied(after(&before)));
            commit = self.with_record(commit, MutationOutcome::Applied(after(&before)))?;
        }
        match self.send(commit).await? {
            Ok(committed) => {
                let applied = MutationOutcome::Applied(self.committed(doc, &committed));
                if let Some(predicted) = predicted {
                    self.correct_record(&committed, predicted, applied).await?;
                }
                Ok(self.mutated((), applied))
            }
            Err(conflict) if self.was_executed_concurrently(&conflict) => {
                self.replay(conflict).await
            }
            Err(conflict) => Err(match found(self.name(), &conflict) {
                Some(Slot::Live(record)) => {
                    let scope = self.name().to_string();
                    ScopeError::Taken { scope, revision: record.revision }
                }
                _ => ScopeError::Part(conflict),
            }),
        }
    }

    /// Deletes the scope, if it is as expected.
    pub(in super::super) async fn delete(self) -> Result<Mutated, ScopeError> {
        let _turn = self.own_turn().await?;
        let (before, record) = self.read().await?;
        if let Some(record) = record {
            return Ok(Codec::json().replay(&record)?);
        }
        let (name, expected) = (self.name(), self.options.expected);
        if before.live().is_none() {
            return match expected {
                ExpectedRevision::Exists | ExpectedRevision::Revision(_) => {
                    Err(ScopeError::gone(name, before.revision()))
                }
                _ => self.already_absent(&before).await,
            };
        }
        let write = RecordWrite::delete(self.key(), expected);
        let commit = self.options.also.clone().write(write);
        match self.send(self.with_record(commit, MutationOutcome::Applied(after(&before)))?).await?
        {
            Ok(committed) => {
                self.entry.invalidate();
                let applied = MutationOutcome::Applied(self.written(&committed));
                self.correct_record(&committed, MutationOutcome::Applied(after(&before)), applied)
                    .await?;
                Ok(self.mutated((), applied))
            }
            Err(conflict) if self.was_executed_concurrently(&conflict) => {
                self.replay(conflict).await
            }
            Err(conflict) => Err(match found(name, &conflict) {
                Some(gone) if gone.live().is_none() => ScopeError::gone(name, gone.revision()),
                _ => self.pinned(&conflict).unwrap_or(ScopeError::Part(conflict)),
            }),
        }
    }

    /// There is nothing to delete. An operation records that, so that a repeat does not delete a
    /// scope created later.
    async fn already_absent(&self, before: &Slot) -> Result<Mutated, ScopeError> {
        let outcome = MutationOutcome::Unchanged(before.revision());
        if self.operation.is_some() {
            let commit = self.with_record(Commit::new(), outcome)?;
            if let Err(conflict) = self.send(commit).await? {
                return self.replay(conflict).await;
            }
        }
        Ok(self.mutated((), outcome))
    }

    /// Returns the recorded result of an operation that was executed concurrently and caused this
    /// conflict.
    async fn replay(&self, conflict: Conflict) -> Result<Mutated, ScopeError> {
        match self.read().await?.1 {
            Some(record) => Ok(Codec::json().replay(&record)?),
            None => Err(ScopeError::Part(conflict)),
        }
    }

    /// Corrects the operation's record, if there is one.
    async fn correct_record(
        &self,
        committed: &Committed,
        predicted: MutationOutcome,
        outcome: MutationOutcome,
    ) -> Result<()> {
        let Some(operation) = &self.options.operation else { return Ok(()) };
        self.correct(committed, Codec::json().remember(operation, predicted, &())?, outcome).await
    }

    /// Adds the operation's record to the commit, if there is an operation.
    fn with_record(&self, commit: Commit, outcome: MutationOutcome) -> Result<Commit> {
        let (Some(operation), Some(key)) = (&self.options.operation, &self.operation) else {
            return Ok(commit);
        };
        Ok(commit.write(Codec::json().remember(operation, outcome, &())?.write(operation, key)?))
    }
}

/// The revision of the next write.
fn after(before: &Slot) -> Revision {
    before.revision().map_or(Revision::FIRST, |revision| revision.plus(1))
}
