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
use super::fair_mutex::Turn;
use super::keys;
use super::line::{View, text};
use super::mutated::{Mutated, MutationOutcome};
use super::mutator::Mutator;
use super::operation::{Codec, OperationRecord};
use super::state::ScopeState;
use crate::events::send;

/// A call with its own commit.
pub(crate) struct Alone<'a, S: ScopeState> {
    queued: Queued<'a, S>,
    /// Key of the operation's record.
    operation: Option<RecordKey>,
}

/// State before the mutation.
enum Look<S> {
    Done(OperationRecord),
    View(View<S>),
}

impl<'a, S: ScopeState> Alone<'a, S> {
    pub(super) fn new<X>(queued: Queued<'a, S>) -> Result<Self, ScopeError<X>> {
        let key = queued.line.name.key();
        let operation = queued.options.operation.as_ref();
        let operation =
            operation.map(|operation| keys::operation(key, &operation.id)).transpose()?;
        Ok(Self { queued, operation })
    }

    pub(super) async fn mutate<W: Mutator<S>>(
        mut self,
        mut work: W,
        codec: Codec<W::Answer>,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        let _turn = self.turn().await?;
        loop {
            let view = match self.look().await? {
                Look::Done(did) => return Ok(codec.replay(&did)?),
                Look::View(view) => view,
            };
            self.meets_expectation(&view)?;
            let done = self.queued.work(&mut work, &view.doc).await?;
            let next = done.next.map(|next| self.queued.encode(next)).transpose()?;
            let Some(outcome) = self.commit(&view, next, &done.answer, codec).await? else {
                continue;
            };
            return Ok(self.queued.mutated(done.answer, outcome));
        }
    }

    /// Rewrites the scope unchanged, which renews its TTL.
    pub(super) async fn touch(mut self) -> Result<Mutated, ScopeError> {
        let _turn = self.turn().await?;
        loop {
            let Look::View(view) = self.look().await? else { continue };
            let Some(before) = view.revision else {
                return Err(ScopeError::gone(&self.queued.line.name, None));
            };
            let write =
                RecordWrite::put(self.key(), ExpectedRevision::Revision(before), text(&view.doc));
            match self.send(Commit::new().write(self.queued.options.living(write))).await? {
                Ok(committed) => {
                    let revision = self.written(&committed);
                    self.queued.line.landed(view.doc, revision);
                    return Ok(self.queued.mutated((), MutationOutcome::Applied(revision)));
                }
                Err(conflict) => self.lost(&conflict).await?,
            }
        }
    }

    /// Acquires the lock and waits for the batches before it.
    async fn turn<X>(&self) -> Result<Turn<'a, ()>, ScopeError<X>> {
        let Queued { line, tidelock, .. } = self.queued;
        let (turn, ()) = self.queued.in_time(line.turns.take()).await?;
        if let Some(tail) = line.tail() {
            tail.landing(tidelock).await;
        }
        Ok(turn)
    }

    /// Reads the scope and the operation's record in one consistent read.
    async fn look<X>(&self) -> Result<Look<S>, ScopeError<X>> {
        Ok(match self.before().await? {
            (_, Some(did)) => Look::Done(did),
            (slot, None) => Look::View(self.queued.line.look(&slot).map_err(ScopeError::widen)?),
        })
    }

    /// Reads the stored scope and the operation's record in one consistent read.
    async fn before<X>(&self) -> Result<(Slot, Option<OperationRecord>), ScopeError<X>> {
        let keys: Vec<RecordKey> =
            [self.key()].into_iter().chain(&self.operation).cloned().collect();
        let store = self.queued.tidelock.store();
        let mut slots = self.queued.in_time(store.get(&keys)).await??.into_iter();
        let scope = slots.next().unwrap_or(Slot::Absent);
        let noted = slots.next().and_then(Slot::into_live);
        let read = |noted: Record| {
            noted.value.to::<OperationRecord>().map(|did| did.noted_at(noted.revision))
        };
        let did = noted.map(read).transpose()?;
        if let (Some(did), Some(operation)) = (&did, &self.queued.options.operation) {
            did.check(&self.queued.line.name, operation)?;
        }
        Ok((scope, did))
    }

    /// Checks the revision that the caller requires. A mismatch is not retried: the caller has to
    /// read again.
    fn meets_expectation<X>(&self, view: &View<S>) -> Result<(), ScopeError<X>> {
        let name = &self.queued.line.name;
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
                self.queued.line.landed(doc, revision);
                let applied = MutationOutcome::Applied(revision);
                if let Some(operation) = &self.queued.options.operation {
                    self.correct(&committed, codec.remember(operation, outcome, answer)?, applied)
                        .await?;
                }
                Ok(Some(applied))
            }
            Err(conflict) => self.lost(&conflict).await.map(|()| None),
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
            Some(doc) => commit.write(options.living(RecordWrite::put(
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
        noted: OperationRecord,
        outcome: MutationOutcome,
    ) -> Result<()> {
        let (Some(operation), Some(key)) = (&self.queued.options.operation, &self.operation) else {
            return Ok(());
        };
        let written = committed.writes.iter().find(|written| written.key == *key);
        let Some(revision) = written.and_then(|written| written.revision) else { return Ok(()) };
        let Some(corrected) = noted.corrected(outcome, revision) else { return Ok(()) };
        let mut note = corrected.write(operation, key)?;
        note.expected = ExpectedRevision::Revision(revision);
        if let Err(error) = self.queued.tidelock.store().commit(Commit::new().write(note)).await {
            tracing::debug!(%error, "an operation is remembered with the revision that was expected");
        }
        Ok(())
    }

    async fn send(&self, commit: Commit) -> Result<Result<Committed, Conflict>> {
        let commit = if commit.id.is_some() { commit } else { commit.with_retry_id() };
        let Queued { tidelock, line, .. } = self.queued;
        let sent = send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await;
        if !matches!(sent, Ok(CommitOutcome::Committed(_))) {
            line.distrust();
        }
        Ok(sent?.committed())
    }

    /// Handles a conflict. The mutator runs again on the current document; if the operation was
    /// executed concurrently, the next read finds its record.
    async fn lost<X>(&mut self, conflict: &Conflict) -> Result<(), ScopeError<X>> {
        if let Some(moved) = self.pinned(conflict) {
            return Err(moved.widen());
        }
        if !self.was_made_meanwhile(conflict) {
            self.queued.lost(conflict)?;
        }
        self.queued.pause().await
    }

    fn was_made_meanwhile(&self, conflict: &Conflict) -> bool {
        conflict.clashes.iter().any(|clash| match &clash.reason {
            ViolationReason::Record { key, .. } => Some(key) == self.operation.as_ref(),
            _ => false,
        })
    }

    /// A revision that the caller named is never retried.
    fn pinned(&self, conflict: &Conflict) -> Option<ScopeError> {
        let ExpectedRevision::Revision(expected) = self.queued.options.expected else {
            return None;
        };
        let name = &self.queued.line.name;
        Some(match super::line::found(name, conflict)? {
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
        self.queued.line.name.key()
    }
}
