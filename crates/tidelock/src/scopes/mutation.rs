//! A mutation with options.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidelock_store::{Commit, ExpectedRevision, RawJson, Result, Revision, StoreError};

use super::change;
use super::counter;
use super::error::ScopeError;
use super::mutated::Mutated;
use super::mutator::{AsyncMutator, DocumentMutator, Mutator, SyncMutator};
use super::operation::Codec;
use super::options::{OperationId, Options};
use super::pointer::{Pointer, Unfit};
use super::scope::Scope;
use super::state::ScopeState;
use crate::claims::Fingerprint;

/// Name of a mutation by a caller's function.
const FUNCTION: &str = "function";

/// A mutation of a scope with options. Created by [`Scope::mutation`].
#[derive(Debug)]
#[must_use = "nothing happens before it is made"]
pub struct Mutation<S> {
    scope: Scope<S>,
    options: Options<S>,
    /// Fingerprint of the request, if the caller gave one.
    request: Result<Option<Fingerprint>>,
}

impl<S: ScopeState> Mutation<S> {
    pub(super) fn new(scope: Scope<S>, options: Options<S>) -> Self {
        Self { scope, options, request: Ok(None) }
    }

    /// Makes the mutation idempotent.
    ///
    /// If it was executed under this id before, the recorded result is returned and nothing is
    /// done. The id is remembered for seven days, or for the [deduplication
    /// window](Self::dedup_window). A refusal is not remembered.
    ///
    /// An id belongs to one mutation of one scope; another mutation with the same id is rejected as
    /// an `IdempotencyMismatch`. Functions cannot be compared: use
    /// [`fingerprint`](Self::fingerprint) to identify the request.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.options.operation = Some(OperationId::new(id, self.options.remembered));
        self
    }

    /// Sets the request that the [operation id](Self::operation_id) belongs to.
    ///
    /// The same id with another request is rejected. Only a digest is stored.
    pub fn fingerprint(mut self, request: &(impl Serialize + ?Sized)) -> Self {
        self.request = Fingerprint::of(request).map(Some);
        self
    }

    /// Sets how long the [operation id](Self::operation_id) is remembered.
    pub fn dedup_window(mut self, long: Duration) -> Self {
        self.options.remembered = long;
        if let Some(operation) = &mut self.options.operation {
            operation.remembered = long;
        }
        self
    }

    /// Requires the scope to be at this revision.
    ///
    /// At any other revision the mutation returns [`Moved`](ScopeError::Moved) and is not retried:
    /// the caller has to read the scope again.
    pub fn at_revision(mut self, revision: Revision) -> Self {
        self.options.expected = ExpectedRevision::Revision(revision);
        self
    }

    /// Requires that the scope exists.
    pub fn only_existing(mut self) -> Self {
        self.options.expected = ExpectedRevision::Exists;
        self
    }

    /// Adds parts to the same commit: events, records, wakes, fences and anything else a commit can
    /// contain.
    ///
    /// Only for scopes in the store.
    pub fn also(mut self, parts: Commit) -> Self {
        self.options.also = parts;
        self
    }

    /// Sets the time budget.
    pub fn within(mut self, budget: Duration) -> Self {
        self.options.budget = Some(budget);
        self
    }

    /// Merges a patch into the document: see [`Scope::patch`].
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn patch(self, patch: impl Serialize) -> Result<Mutated, ScopeError> {
        let patch = value(&patch)?;
        self.identified_as("patch", &patch)?
            .change(move |document| {
                change::patch(document, &patch);
                Ok(())
            })
            .await
    }

    /// Replaces the whole state: see [`Scope::set`].
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn set(self, state: &S) -> Result<Mutated, ScopeError> {
        let set = |before: &mut S| {
            before.clone_from(state);
            Ok(())
        };
        self.identified_as("set", state)?.run(SyncMutator(set)).await
    }

    /// Creates the scope: see [`Scope::create`].
    ///
    /// # Errors
    /// [`Taken`](ScopeError::Taken) if it exists; otherwise as described at [`Scope`].
    pub async fn create(self, state: S) -> Result<Mutated, ScopeError> {
        self.check_parts()?;
        let Self { scope, options, .. } = self.identified_as("create", &state)?;
        scope.create_with(&options, state).await
    }

    /// Deletes the scope: see [`Scope::delete`].
    ///
    /// # Errors
    /// [`Gone`](ScopeError::Gone) if a revision or existence is required and the scope does not
    /// exist; otherwise as described at [`Scope`].
    pub async fn delete(self) -> Result<Mutated, ScopeError> {
        self.check_parts()?;
        let Self { scope, options, .. } = self.identified_as("delete", &())?;
        scope.delete_with(&options).await
    }

    /// Adds to an integer and returns the sum: see [`Scope::increment`].
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn increment(self, at: impl AsRef<str>, by: i64) -> Result<Mutated<i64>, ScopeError> {
        let at = Pointer::new(at.as_ref());
        let is_counter = at.is_root() && counter::is_counter::<S>();
        if let Some((tidelock, name)) =
            self.scope.stored().filter(|_| is_counter && self.options.store_can_apply())
        {
            return counter::add(tidelock, name, by).await;
        }
        let this = self.identified_as("increment", &(at.tokens(), by))?;
        this.change(move |document| change::increment(document, &at, by)).await
    }

    /// Appends to a list and returns its length: see [`Scope::push`].
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn push(
        self,
        at: impl AsRef<str>,
        item: impl Serialize,
    ) -> Result<Mutated<usize>, ScopeError> {
        let (at, item) = (Pointer::new(at.as_ref()), value(&item)?);
        let this = self.identified_as("push", &(at.tokens(), &item))?;
        this.change(move |document| change::push(document, &at, &item)).await
    }

    /// Sets an entry of an object: see [`Scope::set_entry`].
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn set_entry(
        self,
        at: impl AsRef<str>,
        key: impl Into<String>,
        entry: impl Serialize,
    ) -> Result<Mutated, ScopeError> {
        let (at, key, entry) = (Pointer::new(at.as_ref()), key.into(), value(&entry)?);
        let this = self.identified_as("set_entry", &(at.tokens(), &key, &entry))?;
        this.change(move |document| change::set_entry(document, &at, &key, &entry)).await
    }

    /// Removes an entry of an object: see [`Scope::remove_entry`].
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn remove_entry(
        self,
        at: impl AsRef<str>,
        key: impl Into<String>,
    ) -> Result<Mutated<bool>, ScopeError> {
        let (at, key) = (Pointer::new(at.as_ref()), key.into());
        let this = self.identified_as("remove_entry", &(at.tokens(), &key))?;
        this.change(move |document| change::remove_entry(document, &at, &key)).await
    }

    /// Changes the state by a function: see [`Scope::mutate`].
    ///
    /// The returned value is recorded with the [operation id](Self::operation_id), so it must be
    /// serializable.
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn mutate<R: Serialize + DeserializeOwned>(
        self,
        mut mutate: impl FnMut(&mut S) -> R,
    ) -> Result<Mutated<R>, ScopeError> {
        self.identified_as(FUNCTION, &())?
            .run(SyncMutator(move |state: &mut S| Ok(mutate(state))))
            .await
    }

    /// Changes the state by a function that may refuse: see [`Scope::try_mutate`].
    ///
    /// # Errors
    /// [`Refused`](ScopeError::Refused) with the function's error; otherwise as described at
    /// [`Scope`].
    pub async fn try_mutate<R: Serialize + DeserializeOwned, X>(
        self,
        mutate: impl FnMut(&mut S) -> Result<R, X>,
    ) -> Result<Mutated<R>, ScopeError<X>> {
        self.identified_as(FUNCTION, &())?.run(SyncMutator(mutate)).await
    }

    /// Changes the state by an async function: see [`Scope::mutate_async`].
    ///
    /// # Errors
    /// [`Refused`](ScopeError::Refused) with the function's error; otherwise as described at
    /// [`Scope`].
    pub async fn mutate_async<R, X, Later>(
        self,
        mutate: impl FnMut(S) -> Later,
    ) -> Result<Mutated<R>, ScopeError<X>>
    where
        R: Serialize + DeserializeOwned,
        Later: Future<Output = Result<(S, R), X>>,
    {
        self.identified_as(FUNCTION, &())?.run(AsyncMutator(mutate)).await
    }

    /// Sets the operation's fingerprint to this mutation and its arguments.
    fn identified_as(mut self, mutation: &str, given: &(impl Serialize + ?Sized)) -> Result<Self> {
        let request = self.request.clone()?;
        if let Some(operation) = &mut self.options.operation {
            operation.of = Some(Fingerprint::of(&(mutation, given, request))?);
        }
        Ok(self)
    }

    async fn change<R: Serialize + DeserializeOwned>(
        self,
        change: impl FnMut(&mut Value) -> Result<R, Unfit>,
    ) -> Result<Mutated<R>, ScopeError> {
        self.run(DocumentMutator(change)).await
    }

    async fn run<W: Mutator<S, Answer: Serialize + DeserializeOwned>>(
        self,
        mutator: W,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        self.check_parts()?;
        self.scope.apply(&self.options, mutator, Codec::json()).await
    }

    /// A scope in memory has no commit, so it cannot take parts.
    fn check_parts(&self) -> Result<()> {
        match self.options.also.parts() > 0 && self.scope.stored().is_none() {
            true => Err(StoreError::invalid(
                "parts of a commit with a mutation of a scope that is not kept in a store",
            )),
            false => Ok(()),
        }
    }
}

/// Converts an argument to JSON that can be stored.
fn value(given: &impl Serialize) -> Result<Value> {
    RawJson::new(given)?.to()
}
