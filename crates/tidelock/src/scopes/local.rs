//! A scope in this process's memory, with its FIFO queue.
//!
//! There is no other writer, so there is nothing to compare and nothing to retry: each mutator sees
//! the result of the one before. The result is stored in one step at the end, by the call that
//! waits for it. A call that is dropped, exceeds its budget or panics never reaches that step.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{ExpectedRevision, Revision};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Notify};
use tokio::time::Instant;

use super::budget::Budget;
use super::document::{Doc, Document};
use super::error::ScopeError;
use super::mutated::{Mutated, MutationOutcome};
use super::mutator::{Fault, Mutator};
use super::name::Name;
use super::operation::{Codec, OperationRecord};
use super::options::{OperationId, Options};
use super::reentrancy::{Identity, inside, is_inside};
use super::state::ScopeState;
use crate::deadline;

pub(crate) struct Local<S> {
    name: Name,
    /// FIFO lock: one mutation at a time.
    turn: AsyncMutex<()>,
    /// Replaced by the turn's holder; read without the turn.
    current: Mutex<Versioned<S>>,
    changed: Notify,
    operations: Mutex<HashMap<String, (Instant, OperationRecord)>>,
}

/// The value and its revision.
#[derive(Debug)]
struct Versioned<S> {
    state: Option<Arc<S>>,
    revision: Revision,
}

impl<S> Clone for Versioned<S> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), revision: self.revision }
    }
}

impl<S> Local<S> {
    pub(super) fn name(&self) -> &Name {
        &self.name
    }
}

impl<S: ScopeState> Local<S> {
    pub(super) fn new(name: Name, state: S) -> Self {
        let current = Versioned { state: Some(Arc::new(state)), revision: Revision::FIRST };
        Self {
            name,
            turn: AsyncMutex::new(()),
            current: Mutex::new(current),
            changed: Notify::new(),
            operations: Mutex::default(),
        }
    }

    pub(super) fn load(&self) -> Document<S> {
        let Versioned { state, revision } = self.current();
        Document { state, revision: Some(revision), expires_at: None }
    }

    /// Waits until the revision differs from `seen`.
    pub(super) async fn after(&self, seen: Option<Revision>) -> Document<S> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the read, so that no change is missed.
            changed.as_mut().enable();
            let document = self.load();
            if document.revision != seen {
                return document;
            }
            changed.await;
        }
    }

    pub(super) async fn mutate<W: Mutator<S>>(
        &self,
        options: &Options<S>,
        mut mutator: W,
        codec: Codec<W::Answer>,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        let budget = Budget::begin(options.budget);
        let too_late = || ScopeError::timed_out(&self.name, budget.limit);
        let turn = self.turn(&budget).await?;
        if let Some(record) = self.done(options)? {
            return Ok(codec.replay(&record)?);
        }
        let current = self.current();
        let revision = current.revision;
        let doc = self.find(current, options.expected)?;
        let running = inside(self.identity(), || mutator.start(&doc));
        let done = budget.bound(running).await.ok_or_else(too_late)?;
        let done = done.map_err(|fault| unfit(&self.name, fault))?;
        if let Some(next) = &done.next {
            options.allow(&self.name, &next.state)?;
        }
        // A mutator that never awaits cannot be interrupted, but it can exceed the budget.
        if budget.is_over() {
            return Err(too_late());
        }
        let outcome = match &done.next {
            Some(_) => MutationOutcome::Applied(revision.plus(1)),
            None => MutationOutcome::Unchanged(Some(revision)),
        };
        if let Some(operation) = &options.operation {
            self.remember(operation, codec.remember(operation, outcome, &done.answer)?);
        }
        if let Some(next) = done.next {
            self.store(turn, Some(next.state), revision);
        }
        Ok(Mutated { value: done.answer, outcome, attempts: 1, replayed: false })
    }

    /// Creates the scope again, if it does not exist.
    pub(super) async fn create(
        &self,
        options: &Options<S>,
        state: S,
    ) -> Result<Mutated, ScopeError> {
        let turn = self.turn(&Budget::begin(options.budget)).await?;
        let current = self.current();
        if let Some(record) = self.done(options)? {
            return Ok(Codec::json().replay(&record)?);
        }
        options.allow(&self.name, &state)?;
        if current.state.is_some() {
            return Err(ScopeError::Taken {
                scope: self.name.to_string(),
                revision: current.revision,
            });
        }
        self.record_outcome(options, MutationOutcome::Applied(current.revision.plus(1)))?;
        Ok(mutated(MutationOutcome::Applied(self.store(
            turn,
            Some(Arc::new(state)),
            current.revision,
        ))))
    }

    pub(super) async fn delete(&self, options: &Options<S>) -> Result<Mutated, ScopeError> {
        let turn = self.turn(&Budget::begin(options.budget)).await?;
        let current = self.current();
        if let Some(record) = self.done(options)? {
            return Ok(Codec::json().replay(&record)?);
        }
        let revision = current.revision;
        if current.state.is_none() && options.expected == ExpectedRevision::Any {
            self.record_outcome(options, MutationOutcome::Unchanged(Some(revision)))?;
            return Ok(mutated(MutationOutcome::Unchanged(Some(revision))));
        }
        let _there = self.find(current, options.expected)?;
        self.record_outcome(options, MutationOutcome::Applied(revision.plus(1)))?;
        Ok(mutated(MutationOutcome::Applied(self.store(turn, None, revision))))
    }

    /// Waits for the turn, in FIFO order. Fails inside the scope's own mutator.
    async fn turn<X>(&self, budget: &Budget) -> Result<AsyncMutexGuard<'_, ()>, ScopeError<X>> {
        if is_inside(self.identity()) {
            return Err(ScopeError::reentered(&self.name));
        }
        // A caller that is always served at once must not keep its thread.
        tokio::task::coop::consume_budget().await;
        if let Ok(turn) = self.turn.try_lock() {
            return Ok(turn);
        }
        let turn = budget.bound(self.turn.lock()).await;
        turn.ok_or_else(|| ScopeError::timed_out(&self.name, budget.limit))
    }

    fn current(&self) -> Versioned<S> {
        lock(&self.current).clone()
    }

    fn identity(&self) -> Identity {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the document to mutate, if it is as expected.
    fn find<X>(
        &self,
        current: Versioned<S>,
        expected: ExpectedRevision,
    ) -> Result<Doc<S>, ScopeError<X>> {
        let Versioned { state, revision: found } = current;
        let Some(state) = state else { return Err(ScopeError::gone(&self.name, Some(found))) };
        match expected {
            ExpectedRevision::Revision(expected) if expected != found => {
                Err(ScopeError::Moved { scope: self.name.to_string(), expected, found })
            }
            _ => Ok(Doc { state, text: None }),
        }
    }

    /// Stores a new value, ends the turn and notifies the watchers.
    fn store(
        &self,
        turn: AsyncMutexGuard<'_, ()>,
        state: Option<Arc<S>>,
        before: Revision,
    ) -> Revision {
        let revision = before.plus(1);
        // The old value is dropped outside the lock.
        let _old = mem::replace(&mut *lock(&self.current), Versioned { state, revision });
        drop(turn);
        self.changed.notify_waiters();
        revision
    }

    fn done(&self, options: &Options<S>) -> tidelock_store::Result<Option<OperationRecord>> {
        let Some(operation) = &options.operation else { return Ok(None) };
        let operations = lock(&self.operations);
        let record = operations.get(&operation.id).filter(|(until, _)| *until > Instant::now());
        let Some((_, record)) = record else { return Ok(None) };
        record.check(&self.name, operation)?;
        Ok(Some(record.clone()))
    }

    /// Records the result of an operation without a return value.
    fn record_outcome(
        &self,
        options: &Options<S>,
        outcome: MutationOutcome,
    ) -> Result<(), ScopeError> {
        if let Some(operation) = &options.operation {
            self.remember(operation, Codec::json().remember(operation, outcome, &())?);
        }
        Ok(())
    }

    fn remember(&self, operation: &OperationId, record: OperationRecord) {
        let now = Instant::now();
        let mut operations = lock(&self.operations);
        if operations.len() == operations.capacity() {
            operations.retain(|_, (until, _)| *until > now);
        }
        operations
            .insert(operation.id.clone(), (deadline::later(now, operation.remembered), record));
    }
}

fn mutated(outcome: MutationOutcome) -> Mutated {
    Mutated { value: (), outcome, attempts: 1, replayed: false }
}

/// Adds the scope's name to a fault.
pub(crate) fn unfit<X>(name: &Name, fault: Fault<X>) -> ScopeError<X> {
    match fault {
        Fault::Refused(reason) => ScopeError::Refused(reason),
        Fault::Unfit(reason) => ScopeError::Unfit { scope: name.to_string(), reason },
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
