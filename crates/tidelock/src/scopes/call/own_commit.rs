//! A mutation of a durable scope with its own commit: an idempotent one, one pinned to a revision,
//! a creation or deletion, or one with other parts in the commit.
//!
//! It is queued with the other mutations. It waits until every batch before it has ended, and keeps
//! its turn until its own commit ends.

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedRevision, Record, RecordKey, RecordWrite,
    Result, Revision, Slot, ViolationReason,
};
use tokio::sync::OwnedMutexGuard;

use super::{Attempt, Call};
use crate::group_commit::Submit;
use crate::scopes::cached_scope::{ScopeView, found, text};
use crate::scopes::document::Doc;
use crate::scopes::error::ScopeError;
use crate::scopes::mutated::{Mutated, MutationOutcome};
use crate::scopes::mutator::Mutator;
use crate::scopes::operation::{Codec, OperationRecord};
use crate::scopes::state::ScopeState;

impl<S: ScopeState> Call<'_, S> {
    /// Mutates the document and commits it alone, unless the operation was executed before.
    pub(super) async fn attempt_alone<W: Mutator<S>>(
        &mut self,
        mutator: &mut W,
        codec: Codec<W::Answer>,
        _turn: OwnedMutexGuard<()>,
    ) -> Result<Attempt<W::Answer>, ScopeError<W::Refusal>> {
        self.drain().await;
        let (slot, record) = self.read().await?;
        if let Some(record) = record {
            return Ok(Attempt::Done(codec.replay(&record)?));
        }
        let view = self.entry.cache_read(&slot).map_err(ScopeError::widen)?.state;
        self.meets_expectation(&view)?;
        let done = self.run_mutator(mutator, &view.doc).await?;
        let next = done.next.map(|next| self.encode(next)).transpose()?;
        Ok(match self.commit(&view, next, &done.answer, codec).await? {
            Ok(outcome) => Attempt::Done(self.mutated(done.answer, outcome)),
            Err(conflict) => Attempt::Conflict(conflict),
        })
    }

    /// Rewrites the scope unchanged, which renews its TTL.
    pub(in super::super) async fn touch(mut self) -> Result<Mutated, ScopeError> {
        loop {
            let _turn = self.own_turn().await?;
            let view = self.entry.cache_read(&self.read().await?.0)?.state;
            let Some(revision) = view.revision else {
                return Err(ScopeError::gone(self.name(), None));
            };
            let write =
                RecordWrite::put(self.key(), ExpectedRevision::Revision(revision), text(&view.doc));
            match self.send(Commit::new().write(self.options.with_ttl(write))).await? {
                Ok(committed) => {
                    let revision = self.committed(view.doc, &committed);
                    return Ok(self.mutated((), MutationOutcome::Applied(revision)));
                }
                Err(conflict) => self.on_conflict(&conflict).await?,
            }
        }
    }

    /// Waits for the turn and for the batches before it.
    pub(super) async fn own_turn<X>(&self) -> Result<OwnedMutexGuard<()>, ScopeError<X>> {
        let turn = self.turn().await?;
        self.drain().await;
        Ok(turn)
    }

    /// Waits until every earlier batch has ended.
    async fn drain(&self) {
        if let Some(tail) = self.entry.tail() {
            tail.outcome(self.tidelock).await;
        }
    }

    /// Reads the stored scope and the operation's record in one consistent read.
    pub(super) async fn read<X>(&self) -> Result<(Slot, Option<OperationRecord>), ScopeError<X>> {
        let keys: Vec<RecordKey> =
            [self.key()].into_iter().chain(&self.operation).cloned().collect();
        let store = self.tidelock.store();
        let mut slots = self.within_budget(store.get(&keys)).await??.into_iter();
        let scope = slots.next().unwrap_or(Slot::Absent);
        let stored = slots.next().and_then(Slot::into_live);
        let decode = |stored: Record| {
            stored.value.to::<OperationRecord>().map(|record| record.at_revision(stored.revision))
        };
        let record = stored.map(decode).transpose()?;
        if let (Some(record), Some(operation)) = (&record, &self.options.operation) {
            record.check(self.name(), operation)?;
        }
        Ok((scope, record))
    }

    /// Checks the revision that the caller requires. A mismatch is not retried: the caller has to
    /// read again.
    fn meets_expectation<X>(&self, view: &ScopeView<S>) -> Result<(), ScopeError<X>> {
        let name = self.name();
        match (self.options.expected, view.revision) {
            (ExpectedRevision::Exists | ExpectedRevision::Revision(_), None) => {
                Err(ScopeError::gone(name, None))
            }
            (ExpectedRevision::Revision(expected), Some(found)) if expected != found => {
                Err(ScopeError::Moved { scope: name.to_string(), expected, found })
            }
            _ => Ok(()),
        }
    }

    /// Commits the result of a mutator.
    async fn commit<R>(
        &self,
        view: &ScopeView<S>,
        next: Option<Doc<S>>,
        answer: &R,
        codec: Codec<R>,
    ) -> Result<Result<MutationOutcome, Conflict>> {
        let outcome = match &next {
            Some(_) => MutationOutcome::Applied(
                view.revision.map_or(Revision::FIRST, |revision| revision.plus(1)),
            ),
            None => MutationOutcome::Unchanged(view.revision),
        };
        let commit = self.parts(view, next.as_ref(), outcome, answer, codec)?;
        if next.is_none() && commit.parts() == commit.guards.len() {
            return Ok(Ok(outcome));
        }
        let committed = match self.send(commit).await? {
            Ok(committed) => committed,
            Err(conflict) => return Ok(Err(conflict)),
        };
        let Some(doc) = next else { return Ok(Ok(outcome)) };
        let applied = MutationOutcome::Applied(self.committed(doc, &committed));
        if let Some(operation) = &self.options.operation {
            self.correct(&committed, codec.remember(operation, outcome, answer)?, applied).await?;
        }
        Ok(Ok(applied))
    }

    /// Builds the commit: the document if it has changed, the operation's record, and the caller's
    /// parts.
    fn parts<R>(
        &self,
        view: &ScopeView<S>,
        next: Option<&Doc<S>>,
        outcome: MutationOutcome,
        answer: &R,
        codec: Codec<R>,
    ) -> Result<Commit> {
        let options = self.options;
        let commit = options.also.clone();
        let mut commit = match next {
            Some(doc) => commit.write(options.with_ttl(RecordWrite::put(
                self.key(),
                view.expected(),
                text(doc),
            ))),
            None => commit.guard_record(self.key(), view.expected()),
        };
        if let (Some(operation), Some(key)) = (&options.operation, &self.operation) {
            commit =
                commit.write(codec.remember(operation, outcome, answer)?.write(operation, key)?);
        }
        Ok(commit)
    }

    /// Corrects the operation's record if the committed revision differs from the predicted one.
    /// This happens when the store was moved since the scope was last written.
    pub(super) async fn correct(
        &self,
        committed: &Committed,
        recorded: OperationRecord,
        outcome: MutationOutcome,
    ) -> Result<()> {
        let (Some(operation), Some(key)) = (&self.options.operation, &self.operation) else {
            return Ok(());
        };
        let written = committed.writes.iter().find(|written| written.key == *key);
        let Some(revision) = written.and_then(|written| written.revision) else { return Ok(()) };
        let Some(corrected) = recorded.corrected(outcome, revision) else { return Ok(()) };
        let mut write = corrected.write(operation, key)?;
        write.expected = ExpectedRevision::Revision(revision);
        if let Err(error) = self.tidelock.store().commit(Commit::new().write(write)).await {
            tracing::debug!(%error, "an operation is remembered with the revision that was expected");
        }
        Ok(())
    }

    pub(super) async fn send(&self, commit: Commit) -> Result<Result<Committed, Conflict>> {
        let commit = if commit.id.is_some() { commit } else { commit.with_retry_id() };
        let sent = self.tidelock.submit(&commit).await.map(CommitOutcome::committed);
        if !matches!(sent, Ok(Ok(_))) {
            self.entry.invalidate();
        }
        sent
    }

    pub(super) fn was_executed_concurrently(&self, conflict: &Conflict) -> bool {
        conflict.violations.iter().any(|clash| match &clash.reason {
            ViolationReason::Record { key, .. } => Some(key) == self.operation.as_ref(),
            _ => false,
        })
    }

    /// A revision that the caller named is never retried.
    pub(super) fn pinned(&self, conflict: &Conflict) -> Option<ScopeError> {
        let ExpectedRevision::Revision(expected) = self.options.expected else {
            return None;
        };
        let name = self.name();
        Some(match found(name, conflict)? {
            Slot::Live(record) => {
                ScopeError::Moved { scope: name.to_string(), expected, found: record.revision }
            }
            gone => ScopeError::gone(name, gone.revision()),
        })
    }

    /// Caches a document that was committed, and returns its revision.
    pub(super) fn committed(&self, doc: Doc<S>, committed: &Committed) -> Revision {
        let revision = self.written(committed);
        self.entry.with(|state| state.committed(doc, revision));
        revision
    }

    /// Returns the scope's revision from a commit.
    pub(super) fn written(&self, committed: &Committed) -> Revision {
        let written = committed.writes.iter().find(|written| written.key == *self.key());
        written
            .and_then(|written| written.revision)
            .expect("a document that was written has a revision")
    }

    pub(super) fn key(&self) -> &RecordKey {
        self.name().key()
    }
}
