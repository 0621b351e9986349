//! A handle on one scope.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidelock_store::{Result, Revision, StoreExt};

use super::batched::Queued;
use super::document::{Doc, Document};
use super::error::ScopeError;
use super::exclusive::Alone;
use super::kind::ScopeKind;
use super::lines::Place;
use super::local::Local;
use super::mutated::Mutated;
use super::mutation::Mutation;
use super::mutator::{Atomic, Computing, Mutator};
use super::name::Name;
use super::operation::Codec;
use super::options::Options;
use super::state::ScopeState;
use super::watch::ScopeWatch;
use crate::handle::Tidelock;

/// One scope: a state document that many callers change at once. Clones are handles on the same.
///
/// Where the scope lives decides how it is kept whole, and not how it is called: one [in
/// memory](Self::in_memory) has a queue, one in the [store](Tidelock::scope) has a queue in each
/// process and a revision that is compared when it is written.
///
/// A scope that does not exist yet begins with the state's default when it is first changed. One
/// that was deleted, or has expired, is [gone](ScopeError::Gone) until somebody
/// [creates](Self::create) it again: no mutation brings it back by accident.
///
/// Fields are named by `at`: a plain name, a JSON pointer (`/limits/daily`) to reach deeper, or
/// `""` for the whole document.
///
/// # Errors
/// Of every mutation: [`TimedOut`](ScopeError::TimedOut) and [`Contended`](ScopeError::Contended)
/// when the budget ends, [`Reentered`](ScopeError::Reentered) from inside the scope's own mutator,
/// [`Gone`](ScopeError::Gone), [`Unfit`](ScopeError::Unfit) if the state would not be what its type
/// says, [`Rejected`](ScopeError::Rejected) by the scope's [check](Self::validate), and whatever
/// the store has. Nothing was written then, unless the store's error says that it may have been.
///
/// # Cancel safety
/// A mutation in memory that is dropped never happens. In the store it may have happened once its
/// commit was sent; make it an [operation](Self::operation_id) to be able to ask again.
pub struct Scope<S> {
    place: Where<S>,
    options: Options<S>,
}

enum Where<S> {
    Memory(Arc<Local<S>>),
    Store(Tidelock, Name),
    /// The name is none; every call says so.
    Nowhere(tidelock_store::StoreError),
}

impl<S: ScopeState> Scope<S> {
    /// A scope in this process's memory, which begins with this state. It lives for as long as
    /// there is a handle on it.
    #[allow(clippy::needless_pass_by_value)] // it is a constant, or made for the call
    pub fn in_memory(kind: ScopeKind, id: impl AsRef<str>, state: S) -> Self {
        let place = match Name::new(&kind, id.as_ref()) {
            Ok(name) => Where::Memory(Arc::new(Local::new(name, state))),
            Err(error) => Where::Nowhere(error),
        };
        Self { place, options: Options::new(None) }
    }

    #[allow(clippy::needless_pass_by_value)] // as above
    pub(crate) fn durable(tidelock: Tidelock, kind: ScopeKind, id: &str) -> Self {
        let place = match Name::new(&kind, id) {
            Ok(name) => Where::Store(tidelock, name),
            Err(error) => Where::Nowhere(error),
        };
        Self { place, options: Options::new(kind.lives()) }
    }

    /// The same scope, with so much time for each mutation: for its wait, its work and all its
    /// attempts. Half a minute unless said otherwise.
    #[must_use]
    pub fn within(mut self, budget: Duration) -> Self {
        self.options.budget = Some(budget);
        self
    }

    /// The same scope, with as much time as it takes.
    #[must_use]
    pub fn without_deadline(mut self) -> Self {
        self.options.budget = None;
        self
    }

    /// The same scope, into which nothing is written that this does not allow. It says what is
    /// wrong with a state.
    #[must_use]
    pub fn validate(
        mut self,
        check: impl Fn(&S) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.options.check = Some(Arc::new(check));
        self
    }

    /// The state; the default if there is none.
    pub async fn get(&self) -> Result<S, ScopeError> {
        Ok(self.load().await?.state_or_default())
    }

    /// The scope as it is now: state, revision and expiry. Waits for nobody's turn.
    pub async fn load(&self) -> Result<Document<S>, ScopeError> {
        match &self.place {
            Where::Memory(local) => Ok(local.load()),
            Where::Store(tidelock, name) => {
                Document::read(name, &tidelock.store().get_one(name.key()).await?)
            }
            Where::Nowhere(error) => Err(error.clone().into()),
        }
    }

    /// The states of the scope from now on, beginning with the one that it has.
    pub fn watch(&self) -> Result<ScopeWatch<S>, ScopeError> {
        match &self.place {
            Where::Memory(local) => Ok(ScopeWatch::local(local.clone())),
            Where::Store(tidelock, name) => Ok(ScopeWatch::durable(tidelock.clone(), name.clone())),
            Where::Nowhere(error) => Err(error.clone().into()),
        }
    }

    /// Begins the scope with this state: for the first time, or anew after it is gone.
    ///
    /// # Errors
    /// [`Taken`](ScopeError::Taken) if it is there.
    pub async fn create(&self, state: S) -> Result<Mutated, ScopeError> {
        self.create_with(&self.options, state).await
    }

    pub(super) async fn create_with(
        &self,
        options: &Options<S>,
        state: S,
    ) -> Result<Mutated, ScopeError> {
        match &self.place {
            Where::Memory(local) => local.create(options, state).await,
            Where::Store(tidelock, name) => {
                let place = tidelock.scope_lines().place(name);
                let queued = Queued::begin(tidelock, options, &place)?;
                let text = tidelock_store::RawJson::new(&state)
                    .map_err(|e| e.about(format_args!("scope {name}")))?;
                options.allow(name, &state)?;
                Alone::new(queued)?.create(Doc { state: Arc::new(state), text: Some(text) }).await
            }
            Where::Nowhere(error) => Err(error.clone().into()),
        }
    }

    /// Takes the scope away. It stays gone until somebody creates it again.
    pub async fn delete(&self) -> Result<Mutated, ScopeError> {
        self.delete_with(&self.options).await
    }

    pub(super) async fn delete_with(&self, options: &Options<S>) -> Result<Mutated, ScopeError> {
        match &self.place {
            Where::Memory(local) => local.delete(options).await,
            Where::Store(tidelock, name) => {
                let place = tidelock.scope_lines().place(name);
                Alone::new(Queued::begin(tidelock, options, &place)?)?.delete().await
            }
            Where::Nowhere(error) => Err(error.clone().into()),
        }
    }

    /// Writes the scope as it is, so that its life begins anew: a session is used without being
    /// changed.
    pub async fn touch(&self) -> Result<Mutated, ScopeError> {
        match &self.place {
            Where::Memory(_) => self.mutate(|_| ()).await,
            Where::Store(tidelock, name) => {
                let place = tidelock.scope_lines().place(name);
                Alone::new(self.queued(tidelock, &place)?)?.touch().await
            }
            Where::Nowhere(error) => Err(error.clone().into()),
        }
    }

    /// Merges this into the document: objects entry by entry, `null` takes an entry away, and all
    /// else replaces what was there (RFC 7396).
    pub async fn patch(&self, patch: impl Serialize) -> Result<Mutated, ScopeError> {
        self.mutation().patch(patch).await
    }

    /// Replaces the whole state.
    pub async fn set(&self, state: &S) -> Result<Mutated, ScopeError> {
        self.mutation().set(state).await
    }

    /// Adds to an integer, which is zero if it is not there, and answers with the sum.
    ///
    /// If the scope is nothing but an integer (`at` is `""`, and the state an `i64`), does not
    /// expire and has no check, the store adds, without anybody having to look before.
    pub async fn increment(
        &self,
        at: impl AsRef<str>,
        by: i64,
    ) -> Result<Mutated<i64>, ScopeError> {
        self.mutation().increment(at, by).await
    }

    /// Adds to the end of a list, which is empty if it is not there, and answers with its length.
    pub async fn push(
        &self,
        at: impl AsRef<str>,
        item: impl Serialize,
    ) -> Result<Mutated<usize>, ScopeError> {
        self.mutation().push(at, item).await
    }

    /// Sets an entry of an object, which is empty if it is not there.
    pub async fn set_entry(
        &self,
        at: impl AsRef<str>,
        key: impl Into<String>,
        value: impl Serialize,
    ) -> Result<Mutated, ScopeError> {
        self.mutation().set_entry(at, key, value).await
    }

    /// Takes an entry of an object away, and answers whether it was there.
    pub async fn remove_entry(
        &self,
        at: impl AsRef<str>,
        key: impl Into<String>,
    ) -> Result<Mutated<bool>, ScopeError> {
        self.mutation().remove_entry(at, key).await
    }

    /// Changes the state by a function of it, and answers with what the function returned when it
    /// counted.
    ///
    /// The function sees the state that the mutation before it left. In the store it may be called
    /// several times, on newer and newer states: it should do nothing but change what it is given.
    pub async fn mutate<R>(
        &self,
        mut mutate: impl FnMut(&mut S) -> R,
    ) -> Result<Mutated<R>, ScopeError> {
        let mutate = move |state: &mut S| Ok(mutate(state));
        self.apply(&self.options, Atomic(mutate), Codec::none()).await
    }

    /// The same, by a function that may say no; then nothing changes.
    pub async fn try_mutate<R, X>(
        &self,
        mutate: impl FnMut(&mut S) -> Result<R, X>,
    ) -> Result<Mutated<R>, ScopeError<X>> {
        self.apply(&self.options, Atomic(mutate), Codec::none()).await
    }

    /// The same, by a function that may wait for something: it takes the state, and gives back the
    /// new one with its answer. Others wait for it meanwhile; the budget ends it.
    pub async fn mutate_async<R, X, Later>(
        &self,
        mutate: impl FnMut(S) -> Later,
    ) -> Result<Mutated<R>, ScopeError<X>>
    where
        Later: Future<Output = Result<(S, R), X>>,
    {
        self.apply(&self.options, Computing(mutate), Codec::none()).await
    }

    /// A mutation with more to be said about it.
    pub fn mutation(&self) -> Mutation<S> {
        Mutation::new(self.clone(), self.options.clone())
    }

    /// A mutation that is made once: see [`Mutation::operation_id`].
    pub fn operation_id(&self, id: impl Into<String>) -> Mutation<S> {
        self.mutation().operation_id(id)
    }

    /// A mutation at this revision and no other: see [`Mutation::at_revision`].
    pub fn at_revision(&self, revision: Revision) -> Mutation<S> {
        self.mutation().at_revision(revision)
    }

    pub(super) async fn apply<W: Mutator<S>>(
        &self,
        options: &Options<S>,
        work: W,
        codec: Codec<W::Answer>,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        match &self.place {
            Where::Memory(local) => local.mutate(options, work, codec).await,
            Where::Store(tidelock, name) => {
                let place = tidelock.scope_lines().place(name);
                let queued = Queued::begin(tidelock, options, &place)?;
                if options.needs_own_commit() {
                    Alone::new(queued)?.mutate(work, codec).await
                } else {
                    queued.mutate(work).await
                }
            }
            Where::Nowhere(error) => Err(error.clone().into()),
        }
    }

    /// The store and the name there, if it is kept in one.
    pub(super) fn stored(&self) -> Option<(&Tidelock, &Name)> {
        match &self.place {
            Where::Store(tidelock, name) => Some((tidelock, name)),
            Where::Memory(_) | Where::Nowhere(_) => None,
        }
    }

    /// The error of a name that is none.
    pub(super) fn invalid_name(&self) -> Option<tidelock_store::StoreError> {
        match &self.place {
            Where::Nowhere(error) => Some(error.clone()),
            Where::Memory(_) | Where::Store(..) => None,
        }
    }

    pub(super) fn options(&self) -> &Options<S> {
        &self.options
    }

    fn queued<'a>(
        &'a self,
        tidelock: &'a Tidelock,
        place: &'a Place<S>,
    ) -> Result<Queued<'a, S>, ScopeError> {
        Queued::begin(tidelock, &self.options, place)
    }
}

impl<S> Clone for Scope<S> {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), options: self.options.clone() }
    }
}

impl<S> Clone for Where<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Memory(local) => Self::Memory(local.clone()),
            Self::Store(tidelock, name) => Self::Store(tidelock.clone(), name.clone()),
            Self::Nowhere(error) => Self::Nowhere(error.clone()),
        }
    }
}

impl<S> fmt::Debug for Scope<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, name) = match &self.place {
            Where::Memory(local) => ("memory", local.name().to_string()),
            Where::Store(_, name) => ("store", name.to_string()),
            Where::Nowhere(_) => ("nowhere", String::new()),
        };
        f.debug_struct("Scope").field("name", &name).field("place", &place).finish_non_exhaustive()
    }
}
