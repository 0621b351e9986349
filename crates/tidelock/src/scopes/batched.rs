//! A mutation of a durable scope that is queued with others and shares their commits.

use tidelock_store::{Commit, Conflict, ExpectedRevision, RecordWrite, Revision, Slot, limits};

use super::budget::Budget;
use super::document::Doc;
use super::error::ScopeError;
use super::group_commit::{BatchWaiter, GroupCommit, Outcome, View, found};
use super::local::unfit;
use super::mutated::{Mutated, MutationOutcome};
use super::mutator::{Done, Mutator, Next};
use super::options::Options;
use super::reentrancy::{inside, is_inside};
use super::state::ScopeState;
use crate::events::{Attempts, RetryPolicy};
use crate::handle::Tidelock;
use crate::telemetry;

/// One call, including its waits and all its attempts.
pub(crate) struct Queued<'a, S: ScopeState> {
    pub(super) tidelock: &'a Tidelock,
    pub(super) options: &'a Options<S>,
    pub(super) group: &'a GroupCommit<S>,
    pub(super) budget: Budget,
    attempts: Attempts,
}

/// Result of one attempt.
enum Attempt<'a, S: ScopeState, R> {
    /// The document is in a batch.
    Batched { batch: BatchWaiter<'a, S>, answer: R },
    /// Nothing to change. The answer is valid once the earlier mutations are committed.
    Unchanged { answer: R, revision: Option<Revision>, after: Option<BatchWaiter<'a, S>> },
    /// The document must be compared with the store first, or has changed.
    Retry,
}

impl<'a, S: ScopeState> Queued<'a, S> {
    /// Begins the call. Fails inside the scope's own mutator.
    pub(super) fn begin<X>(
        tidelock: &'a Tidelock,
        options: &'a Options<S>,
        group: &'a GroupCommit<S>,
    ) -> Result<Self, ScopeError<X>> {
        if is_inside(group.identity()) {
            return Err(ScopeError::reentered(&group.name));
        }
        let budget = Budget::begin(options.budget);
        // The deadline limits the attempts, not their number.
        let policy =
            RetryPolicy { attempts: u32::MAX, deadline: budget.left(), ..tidelock.retry() };
        let mut attempts = policy.begin();
        attempts.deadline(); // counts from here, and not from the first conflict
        Ok(Self { tidelock, options, group, budget, attempts })
    }

    pub(super) async fn mutate<W: Mutator<S>>(
        mut self,
        mut mutator: W,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        loop {
            let conflict = match self.attempt(&mut mutator).await? {
                Attempt::Retry => continue,
                Attempt::Unchanged { answer, revision, after: None } => {
                    return Ok(self.mutated(answer, MutationOutcome::Unchanged(revision)));
                }
                Attempt::Unchanged { answer, after: Some(batch), .. } => {
                    match self.outcome(&batch).await? {
                        Ok(revision) => {
                            return Ok(
                                self.mutated(answer, MutationOutcome::Unchanged(Some(revision)))
                            );
                        }
                        Err(conflict) => conflict,
                    }
                }
                Attempt::Batched { batch, answer } => match self.outcome(&batch).await? {
                    Ok(revision) => {
                        return Ok(self.mutated(answer, MutationOutcome::Applied(revision)));
                    }
                    Err(conflict) => conflict,
                },
            };
            self.check_conflict(&conflict)?;
            self.back_off().await?;
        }
    }

    async fn attempt<W: Mutator<S>>(
        &mut self,
        mutator: &mut W,
    ) -> Result<Attempt<'a, S, W::Answer>, ScopeError<W::Refusal>> {
        let group = self.group;
        let (_lock, ()) = self.within_budget(group.mutex.lock()).await?;
        let view = self.within_budget(group.view(&**self.tidelock.store())).await??;
        let Done { next, answer } = self.run_mutator(mutator, &view.doc).await?;
        let Some(next) = next else { return Ok(self.unchanged(&view, answer)) };
        let doc = self.encode(next)?;
        Ok(match group.push(&view, doc, self.options) {
            Some(batch) => Attempt::Batched { batch, answer },
            None => Attempt::Retry,
        })
    }

    /// A result without a commit is valid only if its document was compared with the store, or once
    /// the batch it depends on is committed.
    fn unchanged<R>(&self, view: &View<S>, answer: R) -> Attempt<'a, S, R> {
        if view.is_only_cached() {
            self.group.invalidate();
            return Attempt::Retry;
        }
        match self.group.wait_for(view) {
            Some(after) => Attempt::Unchanged { answer, revision: view.revision, after },
            None => Attempt::Retry,
        }
    }

    /// Runs the mutator on a document, within the budget and with the reentrancy guard.
    pub(super) async fn run_mutator<W: Mutator<S>>(
        &self,
        mutator: &mut W,
        doc: &Doc<S>,
    ) -> Result<Done<S, W::Answer>, ScopeError<W::Refusal>> {
        let done = self.within_budget(inside(self.group.identity(), || mutator.start(doc))).await?;
        // A mutator that never awaits cannot be interrupted, but it can exceed the budget.
        if self.budget.is_over() {
            return Err(ScopeError::timed_out(&self.group.name, self.budget.limit));
        }
        done.map_err(|fault| unfit(&self.group.name, fault))
    }

    /// Rejects a document that no store accepts before it enters a batch, so that it does not fail
    /// the other callers' commit.
    pub(super) fn encode<X>(&self, next: Next<S>) -> Result<Doc<S>, ScopeError<X>> {
        let name = &self.group.name;
        self.options.allow(name, &next.state)?;
        let text = next.encode().map_err(|e| e.about(format_args!("scope {name}")))?;
        if text.as_str().len() > limits::VALUE_BYTES {
            Commit::new()
                .write(RecordWrite::put(name.key(), ExpectedRevision::Any, text.clone()))
                .check()?;
        }
        Ok(Doc { state: next.state, text: Some(text) })
    }

    pub(super) async fn within_budget<T, X>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, ScopeError<X>> {
        let output = self.budget.bound(future).await;
        output.ok_or_else(|| ScopeError::timed_out(&self.group.name, self.budget.limit))
    }

    /// Returns the committed revision of a batch, or its conflict.
    async fn outcome<X>(
        &self,
        batch: &BatchWaiter<'_, S>,
    ) -> Result<Result<Revision, Conflict>, ScopeError<X>> {
        match batch.outcome(self.tidelock).await {
            Outcome::Committed(revision) => Ok(Ok(*revision)),
            Outcome::Conflict(conflict) => Ok(Err(conflict.clone())),
            Outcome::Failed(error) => Err(error.clone().into()),
        }
    }

    /// A changed document can be mutated again. A deleted one stays gone until the store has
    /// removed its tombstone.
    pub(super) fn check_conflict<X>(&self, conflict: &Conflict) -> Result<(), ScopeError<X>> {
        telemetry::scope_contended(self.group.name.key(), self.attempts.made);
        match found(&self.group.name, conflict) {
            Some(Slot::Live(_) | Slot::Absent) => Ok(()),
            Some(gone) => Err(ScopeError::gone(&self.group.name, gone.revision())),
            None => Err(ScopeError::Part(conflict.clone())),
        }
    }

    /// Waits before the next attempt, if the budget allows one.
    pub(super) async fn back_off<X>(&mut self) -> Result<(), ScopeError<X>> {
        match self.attempts.next(self.tidelock.random()).await {
            true => Ok(()),
            false => Err(ScopeError::Contended {
                scope: self.group.name.to_string(),
                attempts: self.attempts.made,
            }),
        }
    }

    pub(super) fn mutated<R>(&self, value: R, outcome: MutationOutcome) -> Mutated<R> {
        Mutated { value, outcome, attempts: self.attempts.made, replayed: false }
    }
}
