//! A mutation with options.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidelock_store::{Commit, Edit, ExpectedRevision, RawJson, Result, Revision, StoreError};

use super::counter;
use super::edits;
use super::error::ScopeError;
use super::mutated::Mutated;
use super::mutator::{AsyncMutator, DocumentMutator, Mutator, SyncMutator};
use super::operation::Codec;
use super::options::{OperationId, Options};
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
        Ok(self.edit(Edit::Merge(RawJson::new(&patch)?)).await?.map(drop))
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
        let at = at.as_ref();
        let is_counter = at.is_empty() && counter::is_counter::<S>();
        if let Some((tidelock, name)) =
            self.scope.stored().filter(|_| is_counter && self.options.store_can_add())
        {
            return counter::add::<S>(tidelock, name, by).await;
        }
        self.edit(Edit::Increment { at: at.to_owned(), by }).await
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
        let edit = Edit::Push { at: at.as_ref().to_owned(), item: RawJson::new(&item)? };
        Ok(self.edit(edit).await?.map(|length| length as usize))
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
        let (at, value) = (at.as_ref().to_owned(), RawJson::new(&entry)?);
        let edit = Edit::SetEntry { at, key: key.into(), value };
        Ok(self.edit(edit).await?.map(drop))
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
        let edit = Edit::RemoveEntry { at: at.as_ref().to_owned(), key: key.into() };
        Ok(self.edit(edit).await?.map(|removed| removed != 0))
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

    /// Edits the document: in the store if it can do so, and otherwise by compare and swap.
    async fn edit(self, edit: Edit) -> Result<Mutated<i64>, ScopeError> {
        let this = self.identified_as("edit", &edit.clone().canonical())?;
        match this.scope.stored() {
            Some((tidelock, name)) if edits::is_for(&edit, &this.options) => {
                edits::make(tidelock, name, &this.options, &edit).await
            }
            _ => this.run(DocumentMutator(move |document: &mut Value| edit.apply(document))).await,
        }
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
