//! Handle to one scope.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidelock_store::{Result, Revision, StoreExt};

use super::call::Call;
use super::document::{Doc, Document};
use super::error::ScopeError;
use super::kind::ScopeKind;
use super::local::Local;
use super::mutated::Mutated;
use super::mutation::Mutation;
use super::mutator::{AsyncMutator, Mutator, SyncMutator};
use super::name::Name;
use super::operation::Codec;
use super::options::Options;
use super::state::ScopeState;
use super::watch::ScopeWatch;
use crate::handle::Tidelock;

/// A scope: a state document with concurrent writers.
///
/// Cloning is cheap; clones refer to the same scope.
///
/// The API does not depend on where the scope is kept. A scope [in memory](Self::in_memory) is
/// protected by a FIFO queue. A scope in the [store](Tidelock::scope) has a queue in each process
/// and a revision that is compared on write.
///
/// A scope that does not exist yet starts with the state's default at its first change. A scope
/// that was deleted or has expired is [gone](ScopeError::Gone) until it is [created](Self::create)
/// again: no mutation recreates it by accident.
///
/// In a scope of untyped JSON (`serde_json::Value`), [`increment`](Self::increment),
/// [`push`](Self::push), [`set_entry`](Self::set_entry), [`remove_entry`](Self::remove_entry) and
/// [`patch`](Self::patch) are made by the store itself, without a read and without a conflict
/// between writers, unless the scope is [validated](Self::validate) or the mutation has options.
///
/// Fields are addressed by `at`: a plain name, a JSON pointer (`/limits/daily`) for nested fields,
/// or `""` for the whole document.
///
/// # Errors
/// Every mutation can return [`TimedOut`](ScopeError::TimedOut) or
/// [`Contended`](ScopeError::Contended) when the budget ends, [`Reentered`](ScopeError::Reentered)
/// inside the scope's own mutator, [`Gone`](ScopeError::Gone), [`Unfit`](ScopeError::Unfit) if the
/// result would not match the state's type, [`Rejected`](ScopeError::Rejected) by the scope's
/// [validation](Self::validate), and errors of the store. Nothing was written then, unless the
/// store's error says that the outcome is unknown.
///
/// # Cancel safety
/// A dropped mutation of a scope in memory has no effect. In the store it may take effect once its
/// commit was sent; use an [operation id](Self::operation_id) to be able to ask again.
///
/// # Examples
/// ```
/// use tidelock::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tidelock = Tidelock::open("memory:").await?;
/// let cart = tidelock.scope::<serde_json::Value>(ScopeKind::SESSION, "s-7");
/// cart.patch(serde_json::json!({ "currency": "EUR" })).await?;
/// assert_eq!(cart.push("items", "tea").await?.value, 1);
/// assert_eq!(cart.increment("total", 450).await?.value, 450);
/// # Ok(())
/// # }
/// ```
pub struct Scope<S> {
    backend: Backend<S>,
    options: Options<S>,
}

enum Backend<S> {
    Memory(Arc<Local<S>>),
    Store(Tidelock, Name),
    /// The name is invalid; every call reports it.
    Invalid(tidelock_store::StoreError),
}

impl<S: ScopeState> Scope<S> {
    /// Creates a scope in this process's memory with an initial state.
    ///
    /// It lives as long as a handle to it exists.
    #[allow(clippy::needless_pass_by_value)] // it is a constant, or made for the call
    pub fn in_memory(kind: ScopeKind, id: impl AsRef<str>, state: S) -> Self {
        let backend = match Name::new(&kind, id.as_ref()) {
            Ok(name) => Backend::Memory(Arc::new(Local::new(name, state))),
            Err(error) => Backend::Invalid(error),
        };
        Self { backend, options: Options::new(None) }
    }

    #[allow(clippy::needless_pass_by_value)] // as above
    pub(crate) fn durable(tidelock: Tidelock, kind: ScopeKind, id: &str) -> Self {
        let backend = match Name::new(&kind, id) {
            Ok(name) => Backend::Store(tidelock, name),
            Err(error) => Backend::Invalid(error),
        };
        Self { backend, options: Options::new(kind.time_to_live()) }
    }

    /// Sets the time budget of each mutation: for its wait, its work and all its attempts.
    ///
    /// The default is 30 seconds.
    #[must_use]
    pub fn within(mut self, budget: Duration) -> Self {
        self.options.budget = Some(budget);
        self
    }

    /// Removes the time budget.
    #[must_use]
    pub fn without_deadline(mut self) -> Self {
        self.options.budget = None;
        self
    }

    /// Sets a validation that every new state has to pass. It returns what is wrong with a state.
    #[must_use]
    pub fn validate(
        mut self,
        check: impl Fn(&S) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.options.check = Some(Arc::new(check));
        self
    }

    /// Returns the current state, or the default if there is none.
    ///
    /// # Errors
    /// [`Unreadable`](ScopeError::Unreadable) if the stored document does not match the type;
    /// errors of the store.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let visits = tidelock.scope::<i64>(ScopeKind::USER, "ada");
    /// assert_eq!(visits.get().await?, 0, "the default, because the scope does not exist yet");
    /// visits.increment("", 1).await?;
    /// assert_eq!(visits.get().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<S, ScopeError> {
        Ok(self.load().await?.state_or_default())
    }

    /// Loads the scope: state, revision and expiry. Does not wait in the queue.
    ///
    /// # Errors
    /// [`Unreadable`](ScopeError::Unreadable) if the stored document does not match the type;
    /// errors of the store.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
    /// assert!(basket.load().await?.revision.is_none()); // it does not exist yet
    /// basket.push("", "tea").await?;
    /// assert_eq!(*basket.load().await?.state.unwrap(), ["tea"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn load(&self) -> Result<Document<S>, ScopeError> {
        match &self.backend {
            Backend::Memory(local) => Ok(local.load()),
            Backend::Store(tidelock, name) => {
                Document::read(name, &tidelock.store().get_one(name.key()).await?)
            }
            Backend::Invalid(error) => Err(error.clone().into()),
        }
    }

    /// Watches the scope: yields the current state first and then newer ones.
    ///
    /// # Errors
    /// If the scope's name is invalid.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let visits = tidelock.scope::<i64>(ScopeKind::USER, "ada");
    /// let mut watch = visits.watch()?;
    /// assert_eq!(watch.next().await?.state, None);
    /// visits.increment("", 2).await?;
    /// assert_eq!(watch.next().await?.state.as_deref(), Some(&2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self) -> Result<ScopeWatch<S>, ScopeError> {
        match &self.backend {
            Backend::Memory(local) => Ok(ScopeWatch::local(local.clone())),
            Backend::Store(tidelock, name) => {
                Ok(ScopeWatch::durable(tidelock.clone(), name.clone()))
            }
            Backend::Invalid(error) => Err(error.clone().into()),
        }
    }

    /// Creates the scope with this state: for the first time, or again after it is gone.
    ///
    /// # Errors
    /// [`Taken`](ScopeError::Taken) if it exists; otherwise as described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let draft = tidelock.scope::<String>(ScopeKind::ORG, "letter");
    /// draft.create("Dear reader".to_owned()).await?;
    /// assert!(draft.create("Another".to_owned()).await.is_err()); // it exists
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self, state: S) -> Result<Mutated, ScopeError> {
        self.create_with(&self.options, state).await
    }

    pub(super) async fn create_with(
        &self,
        options: &Options<S>,
        state: S,
    ) -> Result<Mutated, ScopeError> {
        match &self.backend {
            Backend::Memory(local) => local.create(options, state).await,
            Backend::Store(tidelock, name) => {
                let call = Call::begin(tidelock, options, name)?;
                let text = tidelock_store::RawJson::new(&state)
                    .map_err(|e| e.about(format_args!("scope {name}")))?;
                options.allow(name, &state)?;
                call.create(Doc { state: Arc::new(state), text: Some(text) }).await
            }
            Backend::Invalid(error) => Err(error.clone().into()),
        }
    }

    /// Deletes the scope. It stays gone until it is created again.
    ///
    /// # Errors
    /// As described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let draft = tidelock.scope::<String>(ScopeKind::ORG, "letter");
    /// draft.set(&"Dear reader".to_owned()).await?;
    /// draft.delete().await?;
    /// assert!(draft.load().await?.state.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self) -> Result<Mutated, ScopeError> {
        self.delete_with(&self.options).await
    }

    pub(super) async fn delete_with(&self, options: &Options<S>) -> Result<Mutated, ScopeError> {
        match &self.backend {
            Backend::Memory(local) => local.delete(options).await,
            Backend::Store(tidelock, name) => Call::begin(tidelock, options, name)?.delete().await,
            Backend::Invalid(error) => Err(error.clone().into()),
        }
    }

    /// Rewrites the scope unchanged to renew its TTL, for example when a session is used without
    /// being changed.
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn touch(&self) -> Result<Mutated, ScopeError> {
        match &self.backend {
            Backend::Memory(_) => self.mutate(|_| ()).await,
            Backend::Store(tidelock, name) => {
                Call::begin(tidelock, &self.options, name)?.touch().await
            }
            Backend::Invalid(error) => Err(error.clone().into()),
        }
    }

    /// Merges a patch into the document (JSON merge patch, RFC 7396): objects entry by entry,
    /// `null` removes an entry, everything else replaces.
    ///
    /// # Errors
    /// As described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use serde_json::{Value, json};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let settings = tidelock.scope::<Value>(ScopeKind::USER, "ada");
    /// settings.set(&json!({ "theme": "dark", "beta": true })).await?;
    /// settings.patch(json!({ "theme": "light", "beta": null })).await?;
    /// assert_eq!(settings.get().await?, json!({ "theme": "light" }));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn patch(&self, patch: impl Serialize) -> Result<Mutated, ScopeError> {
        self.mutation().patch(patch).await
    }

    /// Replaces the whole state.
    ///
    /// # Errors
    /// As described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let theme = tidelock.scope::<String>(ScopeKind::USER, "ada");
    /// theme.set(&"dark".to_owned()).await?;
    /// assert_eq!(theme.get().await?, "dark");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(&self, state: &S) -> Result<Mutated, ScopeError> {
        self.mutation().set(state).await
    }

    /// Adds to an integer, zero if absent, and returns the sum.
    ///
    /// If the scope is nothing but an integer (`at` is `""` and the state an `i64`), has no TTL and
    /// no validation, the store itself adds, without a read and without conflicts, as it does
    /// anywhere in untyped JSON.
    ///
    /// # Errors
    /// As described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let visits = tidelock.scope::<i64>(ScopeKind::ORG, "page-1");
    /// assert_eq!(visits.increment("", 2).await?.value, 2);
    /// assert_eq!(visits.increment("", 1).await?.value, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn increment(
        &self,
        at: impl AsRef<str>,
        by: i64,
    ) -> Result<Mutated<i64>, ScopeError> {
        self.mutation().increment(at, by).await
    }

    /// Appends to a list, empty if absent, and returns its length.
    ///
    /// # Errors
    /// As described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
    /// assert_eq!(basket.push("", "tea").await?.value, 1);
    /// assert_eq!(basket.push("", "jam").await?.value, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn push(
        &self,
        at: impl AsRef<str>,
        item: impl Serialize,
    ) -> Result<Mutated<usize>, ScopeError> {
        self.mutation().push(at, item).await
    }

    /// Sets an entry of an object, empty if absent.
    ///
    /// # Errors
    /// As described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use std::collections::BTreeMap;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.scope::<BTreeMap<String, String>>(ScopeKind::ORG, "hall");
    /// seats.set_entry("", "12A", "Ada").await?;
    /// assert!(seats.remove_entry("", "12A").await?.value);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_entry(
        &self,
        at: impl AsRef<str>,
        key: impl Into<String>,
        value: impl Serialize,
    ) -> Result<Mutated, ScopeError> {
        self.mutation().set_entry(at, key, value).await
    }

    /// Removes an entry of an object. Returns whether it was present.
    ///
    /// # Errors
    /// As described at [`Scope`].
    pub async fn remove_entry(
        &self,
        at: impl AsRef<str>,
        key: impl Into<String>,
    ) -> Result<Mutated<bool>, ScopeError> {
        self.mutation().remove_entry(at, key).await
    }

    /// Changes the state by a function and returns the function's result.
    ///
    /// The function sees the result of the mutation before it. In the store it may be called
    /// several times, each time on a newer state, and the result of the last call is returned. It
    /// should have no side effects.
    ///
    /// # Errors
    /// As described at [`Scope`].
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let names = tidelock.scope::<Vec<String>>(ScopeKind::ORG, "acme");
    /// let added = names.mutate(|names| {
    ///     names.push("ada".to_owned());
    ///     names.len()
    /// });
    /// assert_eq!(added.await?.value, 1);
    /// assert_eq!(names.get().await?, ["ada"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn mutate<R>(
        &self,
        mut mutate: impl FnMut(&mut S) -> R,
    ) -> Result<Mutated<R>, ScopeError> {
        let mutate = move |state: &mut S| Ok(mutate(state));
        self.apply(&self.options, SyncMutator(mutate), Codec::none()).await
    }

    /// Changes the state by a function that may refuse. On a refusal nothing changes.
    ///
    /// # Errors
    /// [`Refused`](ScopeError::Refused) with the function's error; otherwise as described at
    /// [`Scope`].
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.scope::<i64>(ScopeKind::ORG, "acme");
    /// seats.create(1).await?;
    /// let take = |seats: &mut i64| match *seats {
    ///     0 => Err("no seat left"),
    ///     _ => Ok(*seats -= 1),
    /// };
    /// seats.try_mutate(take).await?;
    /// let refused = seats.try_mutate(take).await.unwrap_err();
    /// assert_eq!(refused.refused(), Some("no seat left"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_mutate<R, X>(
        &self,
        mutate: impl FnMut(&mut S) -> Result<R, X>,
    ) -> Result<Mutated<R>, ScopeError<X>> {
        self.apply(&self.options, SyncMutator(mutate), Codec::none()).await
    }

    /// Changes the state by an async function.
    ///
    /// It takes the state and returns the new state with its result. Other mutations wait for it;
    /// the budget limits it.
    ///
    /// # Errors
    /// [`Refused`](ScopeError::Refused) with the function's error; otherwise as described at
    /// [`Scope`].
    pub async fn mutate_async<R, X, Later>(
        &self,
        mutate: impl FnMut(S) -> Later,
    ) -> Result<Mutated<R>, ScopeError<X>>
    where
        Later: Future<Output = Result<(S, R), X>>,
    {
        self.apply(&self.options, AsyncMutator(mutate), Codec::none()).await
    }

    /// Starts a mutation with options.
    pub fn mutation(&self) -> Mutation<S> {
        Mutation::new(self.clone(), self.options.clone())
    }

    /// Starts a mutation that takes effect once: see [`Mutation::operation_id`].
    pub fn operation_id(&self, id: impl Into<String>) -> Mutation<S> {
        self.mutation().operation_id(id)
    }

    /// Starts a mutation that requires this revision: see [`Mutation::at_revision`].
    pub fn at_revision(&self, revision: Revision) -> Mutation<S> {
        self.mutation().at_revision(revision)
    }

    pub(super) async fn apply<W: Mutator<S>>(
        &self,
        options: &Options<S>,
        mutator: W,
        codec: Codec<W::Answer>,
    ) -> Result<Mutated<W::Answer>, ScopeError<W::Refusal>> {
        match &self.backend {
            Backend::Memory(local) => local.mutate(options, mutator, codec).await,
            Backend::Store(tidelock, name) => {
                Call::begin(tidelock, options, name)?.mutate(mutator, codec).await
            }
            Backend::Invalid(error) => Err(error.clone().into()),
        }
    }

    /// Returns the store and the scope's name, if it is kept in a store.
    pub(crate) fn stored(&self) -> Option<(&Tidelock, &Name)> {
        match &self.backend {
            Backend::Store(tidelock, name) => Some((tidelock, name)),
            Backend::Memory(_) | Backend::Invalid(_) => None,
        }
    }

    /// The error of a name that is none.
    pub(super) fn invalid_name(&self) -> Option<tidelock_store::StoreError> {
        match &self.backend {
            Backend::Invalid(error) => Some(error.clone()),
            Backend::Memory(_) | Backend::Store(..) => None,
        }
    }

    pub(super) fn options(&self) -> &Options<S> {
        &self.options
    }
}

impl<S> Clone for Scope<S> {
    fn clone(&self) -> Self {
        Self { backend: self.backend.clone(), options: self.options.clone() }
    }
}

impl<S> Clone for Backend<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Memory(local) => Self::Memory(local.clone()),
            Self::Store(tidelock, name) => Self::Store(tidelock.clone(), name.clone()),
            Self::Invalid(error) => Self::Invalid(error.clone()),
        }
    }
}

impl<S> fmt::Debug for Scope<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (backend, name) = match &self.backend {
            Backend::Memory(local) => ("memory", local.name().to_string()),
            Backend::Store(_, name) => ("store", name.to_string()),
            Backend::Invalid(_) => ("nowhere", String::new()),
        };
        f.debug_struct("Scope")
            .field("name", &name)
            .field("place", &backend)
            .finish_non_exhaustive()
    }
}
