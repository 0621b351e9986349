//! A mutation, and what is to be said about it.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidelock_store::{Commit, ExpectedRevision, RawJson, Result, Revision, StoreError};

use super::change;
use super::counter;
use super::error::ScopeError;
use super::mutated::Mutated;
use super::mutator::{Atomic, Changing, Computing, Mutator};
use super::operation::Codec;
use super::options::{OperationId, Options};
use super::pointer::{Pointer, Unfit};
use super::scope::Scope;
use super::state::ScopeState;
use crate::claims::Fingerprint;

/// What a mutation by a function of the caller's is called.
const FUNCTION: &str = "function";

/// One mutation of a scope, with more to be said about it than which. Made by [`Scope::mutation`].
#[derive(Debug)]
#[must_use = "nothing happens before it is made"]
pub struct Mutation<S> {
    scope: Scope<S>,
    options: Options<S>,
    /// What an operation is for, as far as the caller says so.
    about: Result<Option<Fingerprint>>,
}

impl<S: ScopeState> Mutation<S> {
    pub(super) fn new(scope: Scope<S>, options: Options<S>) -> Self {
        Self { scope, options, about: Ok(None) }
    }

    /// The same, made once: if it was made before under this id, the answer is what it did then,
    /// and nothing is done. It is remembered for seven days. A mutator that says no is not
    /// remembered. The id is of one mutation of one scope; under it, another mutation is refused as
    /// an `IdempotencyMismatch`. Functions are not told apart by themselves: say with
    /// [`fingerprint`](Self::fingerprint) what they are for.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.options.operation = Some(OperationId::new(id, self.options.remembered));
        self
    }

    /// The same, for this request: the [operation](Self::operation_id)'s id with another one is
    /// refused. Only a digest of it is stored.
    pub fn fingerprint(mut self, request: &(impl Serialize + ?Sized)) -> Self {
        self.about = Fingerprint::of(request).map(Some);
        self
    }

    /// The same, remembering the [operation](Self::operation_id) for this long.
    pub fn dedup_window(mut self, long: Duration) -> Self {
        self.options.remembered = long;
        if let Some(operation) = &mut self.options.operation {
            operation.remembered = long;
        }
        self
    }

    /// The same, only if the scope is at this revision. Another one is told as
    /// [`Moved`](ScopeError::Moved), and is not retried: it was the caller who looked, and who has
    /// to look again.
    pub fn at_revision(mut self, revision: Revision) -> Self {
        self.options.expected = ExpectedRevision::Revision(revision);
        self
    }

    /// The same, only if the scope exists.
    pub fn only_existing(mut self) -> Self {
        self.options.expected = ExpectedRevision::Exists;
        self
    }

    /// The same, with these parts in the same commit: events, records, wakes, fences and whatever
    /// else a commit can have. Only for scopes that are kept in the store.
    pub fn also(mut self, parts: Commit) -> Self {
        self.options.also = parts;
        self
    }

    /// The same, with so much time.
    pub fn within(mut self, budget: Duration) -> Self {
        self.options.budget = Some(budget);
        self
    }

    /// See [`Scope::patch`].
    pub async fn patch(self, patch: impl Serialize) -> Result<Mutated, ScopeError> {
        let patch = value(&patch)?;
        self.that("patch", &patch)?
            .change(move |document| {
                change::patch(document, &patch);
                Ok(())
            })
            .await
    }

    /// See [`Scope::set`].
    pub async fn set(self, state: &S) -> Result<Mutated, ScopeError> {
        let set = |before: &mut S| {
            before.clone_from(state);
            Ok(())
        };
        self.that("set", state)?.run(Atomic(set)).await
    }

    /// See [`Scope::create`].
    pub async fn create(self, state: S) -> Result<Mutated, ScopeError> {
        self.check_parts()?;
        let Self { scope, options, .. } = self.that("create", &state)?;
        scope.create_with(&options, state).await
    }

    /// See [`Scope::delete`]. With an expectation, a scope that is not there is
    /// [`Gone`](ScopeError::Gone).
    pub async fn delete(self) -> Result<Mutated, ScopeError> {
        self.check_parts()?;
        let Self { scope, options, .. } = self.that("delete", &())?;
        scope.delete_with(&options).await
    }

    /// See [`Scope::increment`].
    pub async fn increment(self, at: impl AsRef<str>, by: i64) -> Result<Mutated<i64>, ScopeError> {
        let at = Pointer::new(at.as_ref());
        let is_counter = at.is_root() && counter::is_counter::<S>();
        if let Some((tidelock, name)) =
            self.scope.stored().filter(|_| is_counter && self.options.let_the_store_do_it())
        {
            return counter::add(tidelock, name, by).await;
        }
        let this = self.that("increment", &(at.tokens(), by))?;
        this.change(move |document| change::increment(document, &at, by)).await
    }

    /// See [`Scope::push`].
    pub async fn push(
        self,
        at: impl AsRef<str>,
        item: impl Serialize,
    ) -> Result<Mutated<usize>, ScopeError> {
        let (at, item) = (Pointer::new(at.as_ref()), value(&item)?);
        let this = self.that("push", &(at.tokens(), &item))?;
        this.change(move |document| change::push(document, &at, &item)).await
    }

    /// See [`Scope::set_entry`].
    pub async fn set_entry(
        self,
        at: impl AsRef<str>,
        key: impl Into<String>,
        entry: impl Serialize,
    ) -> Result<Mutated, ScopeError> {
        let (at, key, entry) = (Pointer::new(at.as_ref()), key.into(), value(&entry)?);
        let this = self.that("set_entry", &(at.tokens(), &key, &entry))?;
        this.change(move |document| change::set_entry(document, &at, &key, &entry)).await
    }

    /// See [`Scope::remove_entry`].
    pub async fn remove_entry(
        self,
        at: impl AsRef<str>,
        key: impl Into<String>,
    ) -> Result<Mutated<bool>, ScopeError> {
        let (at, key) = (Pointer::new(at.as_ref()), key.into());
        let this = self.that("remove_entry", &(at.tokens(), &key))?;
        this.change(move |document| change::remove_entry(document, &at, &key)).await
    }

    /// See [`Scope::mutate`]. What it returns is remembered with the
    /// [operation](Self::operation_id), and so has to be JSON.
    pub async fn mutate<R: Serialize + DeserializeOwned>(
        self,
        mut mutate: impl FnMut(&mut S) -> R,
    ) -> Result<Mutated<R>, ScopeError> {
        self.that(FUNCTION, &())?.run(Atomic(move |state: &mut S| Ok(mutate(state)))).await
    }

    /// See [`Scope::try_mutate`].
    pub async fn try_mutate<R: Serialize + DeserializeOwned, X>(
        self,
        mutate: impl FnMut(&mut S) -> Result<R, X>,
    ) -> Result<Mutated<R>, ScopeError<X>> {
        self.that(FUNCTION, &())?.run(Atomic(mutate)).await
    }

    /// See [`Scope::mutate_async`].
    pub async fn mutate_async<R, X, Later>(
        self,
        mutate: impl FnMut(S) -> Later,
    ) -> Result<Mutated<R>, ScopeError<X>>
    where
        R: Serialize + DeserializeOwned,
        Later: Future<Output = Result<(S, R), X>>,
    {
        self.that(FUNCTION, &())?.run(Computing(mutate)).await
    }

    /// The same, of which its operation, if it is one, knows that it is this mutation with this.
    fn that(mut self, mutation: &str, given: &(impl Serialize + ?Sized)) -> Result<Self> {
        let about = self.about.clone()?;
        if let Some(operation) = &mut self.options.operation {
            operation.of = Some(Fingerprint::of(&(mutation, given, about))?);
        }
        Ok(self)
    }

    async fn change<R: Serialize + DeserializeOwned>(
        self,
        change: impl FnMut(&mut Value) -> Result<R, Unfit>,
    ) -> Result<Mutated<R>, ScopeError> {
        self.run(Changing(change)).await
    }

    async fn run<W: Mutator<S, Answer: Serialize + DeserializeOwned>>(
        self,
        work: W,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        self.check_parts()?;
        self.scope.apply(&self.options, work, Codec::json()).await
    }

    /// Where there is no commit, nothing can go with it.
    fn check_parts(&self) -> Result<()> {
        match self.options.also.parts() > 0 && self.scope.stored().is_none() {
            true => Err(StoreError::invalid(
                "parts of a commit with a mutation of a scope that is not kept in a store",
            )),
            false => Ok(()),
        }
    }
}

/// What was given, as JSON that can be stored.
fn value(given: &impl Serialize) -> Result<Value> {
    RawJson::new(given)?.to()
}
