//! Creation and deletion of a durable scope.
//!
//! Neither reads the document. With an operation id, the result is recorded in the same commit, as
//! for every other mutation.

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, RecordWrite, Result, Revision, Slot,
};

use super::super::document::Doc;
use super::super::error::ScopeError;
use super::super::line::{found, text};
use super::super::mutated::{Mutated, MutationOutcome};
use super::super::operation::Codec;
use super::super::state::ScopeState;
use super::Alone;

impl<S: ScopeState> Alone<'_, S> {
    /// Creates the scope with this state, if it does not exist.
    pub(in super::super) async fn create(self, doc: Doc<S>) -> Result<Mutated, ScopeError> {
        let _turn = self.turn().await?;
        let write = RecordWrite::put(self.key(), ExpectedRevision::Absent, text(&doc));
        let mut commit = self.queued.options.also.clone().write(self.queued.options.living(write));
        let mut guessed = None;
        if self.operation.is_some() {
            let (before, did) = self.before().await?;
            if let Some(did) = did {
                return Ok(Codec::json().replay(&did)?);
            }
            guessed = Some(MutationOutcome::Applied(after(&before)));
            commit = self.noting(commit, MutationOutcome::Applied(after(&before)))?;
        }
        match self.send(commit).await? {
            Ok(committed) => {
                let revision = self.written(&committed);
                self.queued.line.landed(doc, revision);
                let applied = MutationOutcome::Applied(revision);
                if let Some(guessed) = guessed {
                    self.correct_existence(&committed, guessed, applied).await?;
                }
                Ok(self.queued.mutated((), applied))
            }
            Err(conflict) if self.was_made_meanwhile(&conflict) => self.replay(conflict).await,
            Err(conflict) => Err(match found(&self.queued.line.name, &conflict) {
                Some(Slot::Live(record)) => {
                    let scope = self.queued.line.name.to_string();
                    ScopeError::Taken { scope, revision: record.revision }
                }
                _ => ScopeError::Part(conflict),
            }),
        }
    }

    /// Deletes the scope, if it is as expected.
    pub(in super::super) async fn delete(self) -> Result<Mutated, ScopeError> {
        let _turn = self.turn().await?;
        let (before, did) = self.before().await?;
        if let Some(did) = did {
            return Ok(Codec::json().replay(&did)?);
        }
        let (name, expected) = (&self.queued.line.name, self.queued.options.expected);
        if before.live().is_none() {
            return match expected {
                ExpectedRevision::Exists | ExpectedRevision::Revision(_) => {
                    Err(ScopeError::gone(name, before.revision()))
                }
                _ => self.leave(&before).await,
            };
        }
        let write = RecordWrite::delete(self.key(), expected);
        let commit = self.queued.options.also.clone().write(write);
        match self.send(self.noting(commit, MutationOutcome::Applied(after(&before)))?).await? {
            Ok(committed) => {
                self.queued.line.distrust();
                let applied = MutationOutcome::Applied(self.written(&committed));
                self.correct_existence(
                    &committed,
                    MutationOutcome::Applied(after(&before)),
                    applied,
                )
                .await?;
                Ok(self.queued.mutated((), applied))
            }
            Err(conflict) if self.was_made_meanwhile(&conflict) => self.replay(conflict).await,
            Err(conflict) => Err(match found(name, &conflict) {
                Some(gone) if gone.live().is_none() => ScopeError::gone(name, gone.revision()),
                _ => self.pinned(&conflict).unwrap_or(ScopeError::Part(conflict)),
            }),
        }
    }

    /// There is nothing to delete. An operation records that, so that a repeat does not delete a
    /// scope created later.
    async fn leave(&self, before: &Slot) -> Result<Mutated, ScopeError> {
        let outcome = MutationOutcome::Unchanged(before.revision());
        if self.operation.is_some() {
            let commit = self.noting(Commit::new(), outcome)?;
            if let Err(conflict) = self.send(commit).await? {
                return self.replay(conflict).await;
            }
        }
        Ok(self.queued.mutated((), outcome))
    }

    /// Returns the recorded result of an operation that was executed concurrently and caused this
    /// conflict.
    async fn replay(&self, conflict: Conflict) -> Result<Mutated, ScopeError> {
        match self.before().await?.1 {
            Some(did) => Ok(Codec::json().replay(&did)?),
            None => Err(ScopeError::Part(conflict)),
        }
    }

    /// Corrects the operation's record, if there is one.
    async fn correct_existence(
        &self,
        committed: &Committed,
        guessed: MutationOutcome,
        outcome: MutationOutcome,
    ) -> Result<()> {
        let Some(operation) = &self.queued.options.operation else { return Ok(()) };
        self.correct(committed, Codec::json().remember(operation, guessed, &())?, outcome).await
    }

    /// Adds the operation's record to the commit, if there is an operation.
    fn noting(&self, commit: Commit, outcome: MutationOutcome) -> Result<Commit> {
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
