//! One call on a durable scope, including its waits and all its attempts.
//!
//! Mutations are queued and share commits (group commit). A mutation with its own commit, such as
//! an idempotent one, is queued with them: see `own_commit.rs`.

mod existence;
mod own_commit;

use tidelock_store::{
    Commit, Conflict, ExpectedRevision, RecordKey, RecordWrite, Result, Slot, limits,
};
use tokio::sync::OwnedMutexGuard;

use super::budget::Budget;
use super::cached_scope::{CachedScope, found};
use super::document::Doc;
use super::error::ScopeError;
use super::keys;
use super::local::unfit;
use super::mutated::{Mutated, MutationOutcome};
use super::mutator::{Done, Mutator, Next};
use super::name::Name;
use super::operation::Codec;
use super::options::Options;
use super::reentrancy::{Identity, inside, is_inside};
use super::state::ScopeState;
use crate::group_commit::{CacheEntry, Confirmed, Outcome};
use crate::handle::Tidelock;
use crate::retry::{Attempts, RetryLimits};
use crate::telemetry;

pub(crate) struct Call<'a, S: ScopeState> {
    tidelock: &'a Tidelock,
    options: &'a Options<S>,
    entry: CacheEntry<CachedScope<S>>,
    budget: Budget,
    attempts: Attempts,
    /// Key of the operation's record.
    operation: Option<RecordKey>,
}

/// Result of one attempt.
enum Attempt<R> {
    Done(Mutated<R>),
    /// The store was not as expected.
    Conflict(Conflict),
    /// The document must be compared with the store first, or has changed.
    Retry,
}

impl<'a, S: ScopeState> Call<'a, S> {
    /// Begins the call. Fails inside the scope's own mutator.
    pub(super) fn begin<X>(
        tidelock: &'a Tidelock,
        options: &'a Options<S>,
        name: &Name,
    ) -> Result<Self, ScopeError<X>> {
        let entry = tidelock.documents().entry(name);
        if is_inside(identity(&entry)) {
            return Err(ScopeError::reentered(name));
        }
        let operation = options.operation.as_ref();
        let operation =
            operation.map(|operation| keys::operation(name.key(), &operation.id)).transpose()?;
        let budget = Budget::begin(options.budget);
        // The deadline limits the attempts, not their number.
        let limits = RetryLimits { attempts: u32::MAX, within: budget.left(), ..tidelock.retry() };
        let mut attempts = limits.begin();
        attempts.deadline(); // counts from here, and not from the first conflict
        Ok(Self { tidelock, options, entry, budget, attempts, operation })
    }

    pub(super) async fn mutate<W: Mutator<S>>(
        mut self,
        mut mutator: W,
        codec: Codec<W::Answer>,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        loop {
            let turn = self.turn().await?;
            let attempt = if self.options.needs_own_commit() {
                self.attempt_alone(&mut mutator, codec, turn).await?
            } else {
                self.attempt(&mut mutator, turn).await?
            };
            match attempt {
                Attempt::Done(mutated) => return Ok(mutated),
                Attempt::Conflict(conflict) => self.on_conflict(&conflict).await?,
                Attempt::Retry => {}
            }
        }
    }

    /// Mutates the document and shares a commit with other callers.
    async fn attempt<W: Mutator<S>>(
        &mut self,
        mutator: &mut W,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Attempt<W::Answer>, ScopeError<W::Refusal>> {
        let load = self.within_budget(self.entry.load(&**self.tidelock.store()));
        let view = load.await?.map_err(ScopeError::widen)?;
        let Done { next, answer } = self.run_mutator(mutator, &view.state.doc).await?;
        let changes = next.is_some();
        let batch = match next {
            Some(next) => {
                let pushed = self.entry.push(&view, (self.encode(next)?, self.options.ttl));
                pushed.map(|(batch, ())| batch)
            }
            None => match self.entry.confirm(&view) {
                Confirmed::Now => {
                    let unchanged = MutationOutcome::Unchanged(view.state.revision);
                    return Ok(Attempt::Done(self.mutated(answer, unchanged)));
                }
                Confirmed::After(batch) => Some(batch),
                Confirmed::Retry => None,
            },
        };
        let Some(batch) = batch else { return Ok(Attempt::Retry) };
        drop((turn, view));
        match batch.outcome(self.tidelock).await {
            Outcome::Landed(revision) if changes => {
                Ok(Attempt::Done(self.mutated(answer, MutationOutcome::Applied(*revision))))
            }
            Outcome::Landed(revision) => {
                Ok(Attempt::Done(self.mutated(answer, MutationOutcome::Unchanged(Some(*revision)))))
            }
            Outcome::Conflict(conflict) => Ok(Attempt::Conflict(conflict.clone())),
            Outcome::Failed(error) => Err(error.clone().into()),
        }
    }

    /// Waits for the turn to mutate.
    async fn turn<X>(&self) -> Result<OwnedMutexGuard<()>, ScopeError<X>> {
        self.entry.turn(|| self.budget.until).await.ok_or_else(|| self.timed_out())
    }

    /// Runs the mutator on a document, within the budget and with the reentrancy guard.
    async fn run_mutator<W: Mutator<S>>(
        &self,
        mutator: &mut W,
        doc: &Doc<S>,
    ) -> Result<Done<S, W::Answer>, ScopeError<W::Refusal>> {
        let running = inside(identity(&self.entry), || mutator.start(doc));
        let done = self.within_budget(running).await?;
        // A mutator that never awaits cannot be interrupted, but it can exceed the budget.
        if self.budget.is_over() {
            return Err(self.timed_out());
        }
        done.map_err(|fault| unfit(self.name(), fault))
    }

    /// Rejects a document that no store accepts before it enters a batch, so that it does not fail
    /// the other callers' commit.
    fn encode<X>(&self, next: Next<S>) -> Result<Doc<S>, ScopeError<X>> {
        let name = self.name();
        self.options.allow(name, &next.state)?;
        let text = next.encode().map_err(|e| e.about(format_args!("scope {name}")))?;
        if text.as_str().len() > limits::VALUE_BYTES {
            Commit::new()
                .write(RecordWrite::put(name.key(), ExpectedRevision::Any, text.clone()))
                .check()?;
        }
        Ok(Doc { state: next.state, text: Some(text) })
    }

    async fn within_budget<T, X>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, ScopeError<X>> {
        self.budget.bound(future).await.ok_or_else(|| self.timed_out())
    }

    fn timed_out<X>(&self) -> ScopeError<X> {
        ScopeError::timed_out(self.name(), self.budget.limit)
    }

    /// Waits before the next attempt, if one can succeed and the budget allows it.
    async fn on_conflict<X>(&mut self, conflict: &Conflict) -> Result<(), ScopeError<X>> {
        if let Some(moved) = self.pinned(conflict) {
            return Err(moved.widen());
        }
        // The next attempt finds the record of an operation that was executed concurrently.
        if !self.was_executed_concurrently(conflict) {
            self.check_conflict(conflict)?;
        }
        match self.attempts.next(self.tidelock.random()).await {
            true => Ok(()),
            false => Err(ScopeError::Contended {
                scope: self.name().to_string(),
                attempts: self.attempts.made,
            }),
        }
    }

    /// A changed document can be mutated again. A deleted one stays gone until the store has
    /// removed its tombstone.
    fn check_conflict<X>(&self, conflict: &Conflict) -> Result<(), ScopeError<X>> {
        telemetry::scope_contended(self.name().key(), self.attempts.made);
        match found(self.name(), conflict) {
            Some(Slot::Live(_) | Slot::Absent) => Ok(()),
            Some(gone) => Err(ScopeError::gone(self.name(), gone.revision())),
            None => Err(ScopeError::Part(conflict.clone())),
        }
    }

    fn mutated<R>(&self, value: R, outcome: MutationOutcome) -> Mutated<R> {
        Mutated { value, outcome, attempts: self.attempts.made, replayed: false }
    }

    fn name(&self) -> &Name {
        &self.entry.key
    }
}

fn identity<S: ScopeState>(entry: &CacheEntry<CachedScope<S>>) -> Identity {
    std::ptr::from_ref(&***entry).addr()
}
