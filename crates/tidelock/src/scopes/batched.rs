//! A mutation of a durable scope that stands in the line with others, and shares their commits.

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

/// One call, from its first wait to its last attempt.
pub(crate) struct Queued<'a, S: ScopeState> {
    pub(super) tidelock: &'a Tidelock,
    pub(super) options: &'a Options<S>,
    pub(super) line: &'a Line<S>,
    pub(super) budget: Budget,
    attempts: Attempts,
}

/// What came of one turn.
enum Turn<'a, S: ScopeState, R> {
    /// The document is in a batch.
    Shared { batch: Waiting<'a, S>, answer: R },
    /// There is nothing to change: true, if what was done before lands.
    Nothing { answer: R, revision: Option<Revision>, after: Option<Waiting<'a, S>> },
    /// The document has to be compared with the store first, or has changed meanwhile.
    LookAgain,
}

impl<'a, S: ScopeState> Queued<'a, S> {
    /// Begins the call; not from inside the scope's own mutator.
    pub(super) fn begin<X>(
        tidelock: &'a Tidelock,
        options: &'a Options<S>,
        line: &'a Line<S>,
    ) -> Result<Self, ScopeError<X>> {
        if is_around(line.identity()) {
            return Err(ScopeError::reentered(&line.name));
        }
        let budget = Budget::begin(options.budget);
        // As often as there is time for.
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

    /// What leads to no commit is only true if it was compared with the store, or if the batch that
    /// it hangs on is.
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

    /// Does the work on this, inside the scope and within the budget.
    pub(super) async fn work<W: Mutator<S>>(
        &self,
        work: &mut W,
        doc: &Doc<S>,
    ) -> Result<Done<S, W::Answer>, ScopeError<W::Refusal>> {
        let done = self.in_time(inside(self.line.identity(), || work.begin(doc))).await?;
        // A mutator that never waits cannot be interrupted, but it can be too late.
        if self.budget.is_over() {
            return Err(ScopeError::timed_out(&self.line.name, self.budget.long));
        }
        done.map_err(|fault| unfit(&self.line.name, fault))
    }

    /// What no store would take is refused here, so that it spoils nobody else's commit.
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

    /// The revision at which a batch landed, or what was there instead.
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

    /// What has moved can be looked at again. What is gone stays gone, until the store has
    /// forgotten that it was there.
    pub(super) fn lost<X>(&self, conflict: &Conflict) -> Result<(), ScopeError<X>> {
        telemetry::scope_contended(self.line.name.key(), self.attempts.made);
        match found(&self.line.name, conflict) {
            Some(Slot::Live(_) | Slot::Absent) => Ok(()),
            Some(gone) => Err(ScopeError::gone(&self.line.name, gone.revision())),
            None => Err(ScopeError::Part(conflict.clone())),
        }
    }

    /// Waits before the next attempt, if there is time for one.
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
