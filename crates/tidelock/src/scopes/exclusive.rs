//! A mutation of a durable scope with its own commit: an idempotent one, one pinned to a revision,
//! a creation or deletion, or one with other parts in the commit.
//!
//! It is queued with the other mutations. It waits until every batch before it has ended, and holds
//! the lock until its own commit ends.

mod existence;

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, ExpectedRevision, Record, RecordKey, RecordWrite,
    Result, Revision, Slot, ViolationReason,
};

use super::batched::Queued;
use super::document::Doc;
use super::error::ScopeError;
use super::fair_mutex::FairMutexGuard;
use super::group_commit::{View, text};
use super::keys;
use super::mutated::{Mutated, MutationOutcome};
use super::mutator::Mutator;
use super::operation::{Codec, OperationRecord};
use super::state::ScopeState;
use crate::events::send;

/// A call with its own commit.
pub(crate) struct Exclusive<'a, S: ScopeState> {
    queued: Queued<'a, S>,
    /// Key of the operation's record.
    operation: Option<RecordKey>,
}

/// State before the mutation.
enum Loaded<S> {
    Done(OperationRecord),
    View(View<S>),
}

impl<'a, S: ScopeState> Exclusive<'a, S> {
    pub(super) fn new<X>(queued: Queued<'a, S>) -> Result<Self, ScopeError<X>> {
        let key = queued.group.name.key();
        let operation = queued.options.operation.as_ref();
        let operation =
            operation.map(|operation| keys::operation(key, &operation.id)).transpose()?;
        Ok(Self { queued, operation })
    }

    pub(super) async fn mutate<W: Mutator<S>>(
        mut self,
        mut mutator: W,
        codec: Codec<W::Answer>,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        let _lock = self.lock().await?;
        loop {
            let view = match self.load().await? {
                Loaded::Done(record) => return Ok(codec.replay(&record)?),
                Loaded::View(view) => view,
            };
            self.meets_expectation(&view)?;
            let done = self.queued.run_mutator(&mut mutator, &view.doc).await?;
            let next = done.next.map(|next| self.queued.encode(next)).transpose()?;
            let Some(outcome) = self.commit(&view, next, &done.answer, codec).await? else {
                continue;
            };
            return Ok(self.queued.mutated(done.answer, outcome));
        }
    }

    /// Rewrites the scope unchanged, which renews its TTL.
    pub(super) async fn touch(mut self) -> Result<Mutated, ScopeError> {
        let _lock = self.lock().await?;
        loop {
            let Loaded::View(view) = self.load().await? else { continue };
            let Some(revision) = view.revision else {
                return Err(ScopeError::gone(&self.queued.group.name, None));
            };
            let write =
                RecordWrite::put(self.key(), ExpectedRevision::Revision(revision), text(&view.doc));
            match self.send(Commit::new().write(self.queued.options.with_ttl(write))).await? {
                Ok(committed) => {
                    let revision = self.written(&committed);
                    self.queued.group.committed(view.doc, revision);
                    return Ok(self.queued.mutated((), MutationOutcome::Applied(revision)));
                }
                Err(conflict) => self.on_conflict(&conflict).await?,
            }
        }
    }

    /// Acquires the lock and waits for the batches before it.
    async fn lock<X>(&self) -> Result<FairMutexGuard<'a, ()>, ScopeError<X>> {
        let Queued { group, tidelock, .. } = self.queued;
        let (guard, ()) = self.queued.within_budget(group.mutex.lock()).await?;
        if let Some(tail) = group.tail() {
            tail.outcome(tidelock).await;
        }
        Ok(guard)
    }

    /// Reads the scope and the operation's record in one consistent read.
    async fn load<X>(&self) -> Result<Loaded<S>, ScopeError<X>> {
        Ok(match self.read().await? {
            (_, Some(record)) => Loaded::Done(record),
            (slot, None) => {
                Loaded::View(self.queued.group.cache_read(&slot).map_err(ScopeError::widen)?)
            }
        })
    }

    /// Reads the stored scope and the operation's record in one consistent read.
    async fn read<X>(&self) -> Result<(Slot, Option<OperationRecord>), ScopeError<X>> {
        let keys: Vec<RecordKey> =
            [self.key()].into_iter().chain(&self.operation).cloned().collect();
        let store = self.queued.tidelock.store();
        let mut slots = self.queued.within_budget(store.get(&keys)).await??.into_iter();
        let scope = slots.next().unwrap_or(Slot::Absent);
        let stored = slots.next().and_then(Slot::into_live);
        let decode = |stored: Record| {
            stored.value.to::<OperationRecord>().map(|record| record.at_revision(stored.revision))
        };
        let record = stored.map(decode).transpose()?;
        if let (Some(record), Some(operation)) = (&record, &self.queued.options.operation) {
            record.check(&self.queued.group.name, operation)?;
        }
        Ok((scope, record))
    }

    /// Checks the revision that the caller requires. A mismatch is not retried: the caller has to
    /// read again.
    fn meets_expectation<X>(&self, view: &View<S>) -> Result<(), ScopeError<X>> {
        let name = &self.queued.group.name;
        match (self.queued.options.expected, view.revision) {
            (ExpectedRevision::Exists | ExpectedRevision::Revision(_), None) => {
                Err(ScopeError::gone(name, None))
            }
            (ExpectedRevision::Revision(expected), Some(found)) if expected != found => {
                Err(ScopeError::Moved { scope: name.to_string(), expected, found })
            }
            _ => Ok(()),
        }
    }

    /// Commits the result of a mutator; `None` if it has to run again.
    async fn commit<R, X>(
        &mut self,
        view: &View<S>,
        next: Option<Doc<S>>,
        answer: &R,
        codec: Codec<R>,
    ) -> Result<Option<MutationOutcome>, ScopeError<X>> {
        let outcome = match &next {
            Some(_) => MutationOutcome::Applied(
                view.revision.map_or(Revision::FIRST, |revision| revision.plus(1)),
            ),
            None => MutationOutcome::Unchanged(view.revision),
        };
        let commit = self.parts(view, next.as_ref(), outcome, answer, codec)?;
        if next.is_none() && commit.parts() == commit.guards.len() {
            return Ok(Some(outcome));
        }
        match self.send(commit).await? {
            Ok(committed) => {
                let Some(doc) = next else { return Ok(Some(outcome)) };
                let revision = self.written(&committed);
                self.queued.group.committed(doc, revision);
                let applied = MutationOutcome::Applied(revision);
                if let Some(operation) = &self.queued.options.operation {
                    self.correct(&committed, codec.remember(operation, outcome, answer)?, applied)
                        .await?;
                }
                Ok(Some(applied))
            }
            Err(conflict) => self.on_conflict(&conflict).await.map(|()| None),
        }
    }

    /// Builds the commit: the document if it has changed, the operation's record, and the caller's
    /// parts.
    fn parts<R>(
        &self,
        view: &View<S>,
        next: Option<&Doc<S>>,
        outcome: MutationOutcome,
        answer: &R,
        codec: Codec<R>,
    ) -> Result<Commit> {
        let options = self.queued.options;
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
    async fn correct(
        &self,
        committed: &Committed,
        recorded: OperationRecord,
        outcome: MutationOutcome,
    ) -> Result<()> {
        let (Some(operation), Some(key)) = (&self.queued.options.operation, &self.operation) else {
            return Ok(());
        };
        let written = committed.writes.iter().find(|written| written.key == *key);
        let Some(revision) = written.and_then(|written| written.revision) else { return Ok(()) };
        let Some(corrected) = recorded.corrected(outcome, revision) else { return Ok(()) };
        let mut write = corrected.write(operation, key)?;
        write.expected = ExpectedRevision::Revision(revision);
        if let Err(error) = self.queued.tidelock.store().commit(Commit::new().write(write)).await {
            tracing::debug!(%error, "an operation is remembered with the revision that was expected");
        }
        Ok(())
    }

    async fn send(&self, commit: Commit) -> Result<Result<Committed, Conflict>> {
        let commit = if commit.id.is_some() { commit } else { commit.with_retry_id() };
        let Queued { tidelock, group, .. } = self.queued;
        let sent = send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await;
        if !matches!(sent, Ok(CommitOutcome::Committed(_))) {
            group.invalidate();
        }
        Ok(sent?.committed())
    }

    /// Handles a conflict. The mutator runs again on the current document; if the operation was
    /// executed concurrently, the next read finds its record.
    async fn on_conflict<X>(&mut self, conflict: &Conflict) -> Result<(), ScopeError<X>> {
        if let Some(moved) = self.pinned(conflict) {
            return Err(moved.widen());
        }
        if !self.was_executed_concurrently(conflict) {
            self.queued.check_conflict(conflict)?;
        }
        self.queued.back_off().await
    }

    fn was_executed_concurrently(&self, conflict: &Conflict) -> bool {
        conflict.violations.iter().any(|clash| match &clash.reason {
            ViolationReason::Record { key, .. } => Some(key) == self.operation.as_ref(),
            _ => false,
        })
    }

    /// A revision that the caller named is never retried.
    fn pinned(&self, conflict: &Conflict) -> Option<ScopeError> {
        let ExpectedRevision::Revision(expected) = self.queued.options.expected else {
            return None;
        };
        let name = &self.queued.group.name;
        Some(match super::group_commit::found(name, conflict)? {
            Slot::Live(record) => {
                ScopeError::Moved { scope: name.to_string(), expected, found: record.revision }
            }
            gone => ScopeError::gone(name, gone.revision()),
        })
    }

    /// Returns the scope's revision from a commit.
    fn written(&self, committed: &Committed) -> Revision {
        let written = committed.writes.iter().find(|written| written.key == *self.key());
        written
            .and_then(|written| written.revision)
            .expect("a document that was written has a revision")
    }

    fn key(&self) -> &'a RecordKey {
        self.queued.group.name.key()
    }
}
