//! A mutation of a durable scope that is queued with others and shares their commits.

use tidelock_store::{Commit, Conflict, ExpectedRevision, RecordWrite, Revision, Slot, limits};

use super::budget::Budget;
use super::document::Doc;
use super::error::ScopeError;
use super::line::{Landing, Line, View, Waiting, found};
use super::local::unfit;
use super::mutated::{Mutated, MutationOutcome};
use super::mutator::{Done, Mutator, Next};
use super::options::Options;
use super::reentrancy::{inside, is_around};
use super::state::ScopeState;
use crate::events::{Attempts, RetryPolicy};
use crate::handle::Tidelock;
use crate::telemetry;

/// One call, including its waits and all its attempts.
pub(crate) struct Queued<'a, S: ScopeState> {
    pub(super) tidelock: &'a Tidelock,
    pub(super) options: &'a Options<S>,
    pub(super) line: &'a Line<S>,
    pub(super) budget: Budget,
    attempts: Attempts,
}

/// Result of one attempt.
enum Turn<'a, S: ScopeState, R> {
    /// The document is in a batch.
    Shared { batch: Waiting<'a, S>, answer: R },
    /// Nothing to change. The answer is valid once the earlier mutations are committed.
    Nothing { answer: R, revision: Option<Revision>, after: Option<Waiting<'a, S>> },
    /// The document must be compared with the store first, or has changed.
    LookAgain,
}

impl<'a, S: ScopeState> Queued<'a, S> {
    /// Begins the call. Fails inside the scope's own mutator.
    pub(super) fn begin<X>(
        tidelock: &'a Tidelock,
        options: &'a Options<S>,
        line: &'a Line<S>,
    ) -> Result<Self, ScopeError<X>> {
        if is_around(line.identity()) {
            return Err(ScopeError::reentered(&line.name));
        }
        let budget = Budget::begin(options.budget);
        // The deadline limits the attempts, not their number.
        let policy =
            RetryPolicy { attempts: u32::MAX, deadline: budget.left(), ..tidelock.retry() };
        let mut attempts = policy.begin();
        attempts.deadline(); // counts from here, and not from the first conflict
        Ok(Self { tidelock, options, line, budget, attempts })
    }

    pub(super) async fn mutate<W: Mutator<S>>(
        mut self,
        mut work: W,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        loop {
            let lost = match self.turn(&mut work).await? {
                Turn::LookAgain => continue,
                Turn::Nothing { answer, revision, after: None } => {
                    return Ok(self.mutated(answer, MutationOutcome::Unchanged(revision)));
                }
                Turn::Nothing { answer, after: Some(batch), .. } => {
                    match self.landing(&batch).await? {
                        Ok(revision) => {
                            return Ok(
                                self.mutated(answer, MutationOutcome::Unchanged(Some(revision)))
                            );
                        }
                        Err(lost) => lost,
                    }
                }
                Turn::Shared { batch, answer } => match self.landing(&batch).await? {
                    Ok(revision) => {
                        return Ok(self.mutated(answer, MutationOutcome::Applied(revision)));
                    }
                    Err(lost) => lost,
                },
            };
            self.lost(&lost)?;
            self.pause().await?;
        }
    }

    async fn turn<W: Mutator<S>>(
        &mut self,
        work: &mut W,
    ) -> Result<Turn<'a, S, W::Answer>, ScopeError<W::Refusal>> {
        let line = self.line;
        let (_turn, ()) = self.in_time(line.turns.take()).await?;
        let view = self.in_time(line.view(&**self.tidelock.store())).await??;
        let Done { next, answer } = self.work(work, &view.doc).await?;
        let Some(next) = next else { return Ok(self.nothing(&view, answer)) };
        let doc = self.encode(next)?;
        Ok(match line.push(&view, doc, self.options) {
            Some(batch) => Turn::Shared { batch, answer },
            None => Turn::LookAgain,
        })
    }

    /// A result without a commit is valid only if its document was compared with the store, or once
    /// the batch it depends on is committed.
    fn nothing<R>(&self, view: &View<S>, answer: R) -> Turn<'a, S, R> {
        if view.is_only_remembered() {
            self.line.distrust();
            return Turn::LookAgain;
        }
        match self.line.wait(view) {
            Some(after) => Turn::Nothing { answer, revision: view.revision, after },
            None => Turn::LookAgain,
        }
    }

    /// Runs the mutator on a document, within the budget and with the reentrancy guard.
    pub(super) async fn work<W: Mutator<S>>(
        &self,
        work: &mut W,
        doc: &Doc<S>,
    ) -> Result<Done<S, W::Answer>, ScopeError<W::Refusal>> {
        let done = self.in_time(inside(self.line.identity(), || work.begin(doc))).await?;
        // A mutator that never awaits cannot be interrupted, but it can exceed the budget.
        if self.budget.is_over() {
            return Err(ScopeError::timed_out(&self.line.name, self.budget.long));
        }
        done.map_err(|fault| unfit(&self.line.name, fault))
    }

    /// Rejects a document that no store accepts before it enters a batch, so that it does not fail
    /// the other callers' commit.
    pub(super) fn encode<X>(&self, next: Next<S>) -> Result<Doc<S>, ScopeError<X>> {
        let name = &self.line.name;
        self.options.allow(name, &next.state)?;
        let text = next.encode().map_err(|e| e.about(format_args!("scope {name}")))?;
        if text.as_str().len() > limits::VALUE_BYTES {
            Commit::new()
                .write(RecordWrite::put(name.key(), ExpectedRevision::Any, text.clone()))
                .check()?;
        }
        Ok(Doc { state: next.state, text: Some(text) })
    }

    pub(super) async fn in_time<T, X>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, ScopeError<X>> {
        let output = self.budget.bound(future).await;
        output.ok_or_else(|| ScopeError::timed_out(&self.line.name, self.budget.long))
    }

    /// Returns the committed revision of a batch, or its conflict.
    async fn landing<X>(
        &self,
        batch: &Waiting<'_, S>,
    ) -> Result<Result<Revision, Conflict>, ScopeError<X>> {
        match batch.landing(self.tidelock).await {
            Landing::Landed(revision) => Ok(Ok(*revision)),
            Landing::Refused(conflict) => Ok(Err(conflict.clone())),
            Landing::Failed(error) => Err(error.clone().into()),
        }
    }

    /// A changed document can be mutated again. A deleted one stays gone until the store has
    /// removed its tombstone.
    pub(super) fn lost<X>(&self, conflict: &Conflict) -> Result<(), ScopeError<X>> {
        telemetry::scope_contended(self.line.name.key(), self.attempts.made);
        match found(&self.line.name, conflict) {
            Some(Slot::Live(_) | Slot::Absent) => Ok(()),
            Some(gone) => Err(ScopeError::gone(&self.line.name, gone.revision())),
            None => Err(ScopeError::Part(conflict.clone())),
        }
    }

    /// Waits before the next attempt, if the budget allows one.
    pub(super) async fn pause<X>(&mut self) -> Result<(), ScopeError<X>> {
        match self.attempts.next(self.tidelock.random()).await {
            true => Ok(()),
            false => Err(ScopeError::Contended {
                scope: self.line.name.to_string(),
                attempts: self.attempts.made,
            }),
        }
    }

    pub(super) fn mutated<R>(&self, value: R, outcome: MutationOutcome) -> Mutated<R> {
        Mutated { value, outcome, attempts: self.attempts.made, replayed: false }
    }
}
