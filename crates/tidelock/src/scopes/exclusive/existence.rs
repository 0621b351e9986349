//! Creation and deletion of a durable scope.
//!
//! Neither reads the document. With an operation id, the result is recorded in the same commit, as
//! for every other mutation.

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, RecordWrite, Result, Revision, Slot,
};

use super::super::document::Doc;
use super::super::error::ScopeError;
use super::super::group_commit::{found, text};
use super::super::mutated::{Mutated, MutationOutcome};
use super::super::operation::Codec;
use super::super::state::ScopeState;
use super::Exclusive;

impl<S: ScopeState> Exclusive<'_, S> {
    /// Creates the scope with this state, if it does not exist.
    pub(in super::super) async fn create(self, doc: Doc<S>) -> Result<Mutated, ScopeError> {
        let _lock = self.lock().await?;
        let write = RecordWrite::put(self.key(), ExpectedRevision::Absent, text(&doc));
        let mut commit =
            self.queued.options.also.clone().write(self.queued.options.with_ttl(write));
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
                let revision = self.written(&committed);
                self.queued.group.committed(doc, revision);
                let applied = MutationOutcome::Applied(revision);
                if let Some(predicted) = predicted {
                    self.correct_record(&committed, predicted, applied).await?;
                }
                Ok(self.queued.mutated((), applied))
            }
            Err(conflict) if self.was_executed_concurrently(&conflict) => {
                self.replay(conflict).await
            }
            Err(conflict) => Err(match found(&self.queued.group.name, &conflict) {
                Some(Slot::Live(record)) => {
                    let scope = self.queued.group.name.to_string();
                    ScopeError::Taken { scope, revision: record.revision }
                }
                _ => ScopeError::Part(conflict),
            }),
        }
    }

    /// Deletes the scope, if it is as expected.
    pub(in super::super) async fn delete(self) -> Result<Mutated, ScopeError> {
        let _lock = self.lock().await?;
        let (before, record) = self.read().await?;
        if let Some(record) = record {
            return Ok(Codec::json().replay(&record)?);
        }
        let (name, expected) = (&self.queued.group.name, self.queued.options.expected);
        if before.live().is_none() {
            return match expected {
                ExpectedRevision::Exists | ExpectedRevision::Revision(_) => {
                    Err(ScopeError::gone(name, before.revision()))
                }
                _ => self.already_absent(&before).await,
            };
        }
        let write = RecordWrite::delete(self.key(), expected);
        let commit = self.queued.options.also.clone().write(write);
        match self.send(self.with_record(commit, MutationOutcome::Applied(after(&before)))?).await?
        {
            Ok(committed) => {
                self.queued.group.invalidate();
                let applied = MutationOutcome::Applied(self.written(&committed));
                self.correct_record(&committed, MutationOutcome::Applied(after(&before)), applied)
                    .await?;
                Ok(self.queued.mutated((), applied))
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
        Ok(self.queued.mutated((), outcome))
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
        let Some(operation) = &self.queued.options.operation else { return Ok(()) };
        self.correct(committed, Codec::json().remember(operation, predicted, &())?, outcome).await
    }

    /// Adds the operation's record to the commit, if there is an operation.
    fn with_record(&self, commit: Commit, outcome: MutationOutcome) -> Result<Commit> {
        let (Some(operation), Some(key)) = (&self.queued.options.operation, &self.operation) else {
            return Ok(commit);
        };
        Ok(commit.write(Codec::json().remember(operation, outcome, &())?.write(operation, key)?))
    }
}

/// The revision of the next write.
fn after(before: &Slot) -> Revision {
    before.revision().map_or(Revision::FIRST, |revision| revision.plus(1))
}
