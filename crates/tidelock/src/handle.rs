//! [`Tidelock`]: the handle on one store and the patterns over it.

use std::sync::Arc;

use tidelock_store::{Result, Store, StoredEvent, StreamName};

use crate::event::Event;
use crate::events::{Aggregate, AggregateRef, AggregateSet, MultiDecision, SubjectInfo, personal};
use crate::group_commit::StateCache;
use crate::pauses::{self, PauseInfo, Pauses};
use crate::recorded::{ReadError, Recorded};
use crate::retry::{Random, Retry, RetryLimits};
use crate::runs::registered::Workflows;
use crate::runs::{Active, Runs, Schedules};
use crate::scopes::{self, Scope, ScopeKind, ScopeState};

/// A handle on one store and the patterns over it. Cheap to clone; clones share their caches.
#[derive(Debug, Clone)]
pub struct Tidelock {
    store: Arc<dyn Store>,
    states: Arc<StateCache<StreamName>>,
    documents: Arc<StateCache<scopes::Name>>,
    retry: RetryLimits,
    random: Arc<Random>,
    workflows: Arc<Workflows>,
    active: Arc<Active>,
    pauses: Arc<Pauses>,
}

/// The default capacity of the state caches, of aggregates and of scopes each.
const CACHED_STATES: usize = 10_000;

impl Tidelock {
    /// Opens the store that a URL names: see [`open`](crate::open).
    ///
    /// # Errors
    /// Those of [`open`](crate::open).
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tidelock = Tidelock::open("memory:").await?; // or sqlite:shop.db, or postgres://user@host/shop
    /// tidelock.transact(async |tx: Tx| tx.put("greeting", "hello")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(url: &str) -> Result<Self> {
        Ok(Self::over(crate::open(url).await?))
    }

    /// Creates a handle on an open store.
    pub fn over(store: Arc<dyn Store>) -> Self {
        let (states, documents) = (StateCache::new(CACHED_STATES), StateCache::new(CACHED_STATES));
        let (retry, random, workflows) = (RetryLimits::CALL, Arc::default(), Arc::default());
        let (active, pauses) = (Arc::default(), Arc::new(Pauses::new(store.clone())));
        Self { store, states, documents, retry, random, workflows, active, pauses }
    }

    /// Sets the default retry policy of decisions, transactions, scopes and commits.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry.or(RetryLimits::CALL);
        self
    }

    /// Sets the capacity of the state caches (LRU, aggregates and scopes each), and clears them. 0
    /// disables them.
    #[must_use]
    pub fn with_cache_capacity(mut self, aggregates: usize) -> Self {
        self.states = StateCache::new(aggregates);
        self.documents = StateCache::new(aggregates);
        self
    }

    /// Sets the seed of the random jitter in retry pauses, so that a test can be repeated.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.random = Arc::new(Random::seeded(seed));
        self
    }

    /// Returns a handle on the aggregate of this kind with this id, whether it exists or not.
    pub fn aggregate<A: Aggregate>(&self, id: impl AsRef<str>) -> AggregateRef<A> {
        AggregateRef::new(self.clone(), id.as_ref())
    }

    /// Starts a decision about several aggregates in one commit.
    pub fn decide<S: AggregateSet>(&self, aggregates: S) -> MultiDecision<S::Participants> {
        MultiDecision::new(self.clone(), aggregates.participants())
    }

    /// Returns the client of runs: start, signal, wait, list, operate.
    pub fn runs(&self) -> Runs {
        Runs::new(self.clone())
    }

    /// Returns the schedules of the store, which start runs and enqueue jobs.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(self.clone())
    }

    /// The workflows registered in this process.
    pub(crate) fn workflows(&self) -> &Workflows {
        &self.workflows
    }

    /// Returns a handle on the stored scope of this kind with this id, whether it exists or not.
    pub fn scope<S: ScopeState>(&self, kind: ScopeKind, id: impl AsRef<str>) -> Scope<S> {
        Scope::durable(self.clone(), kind, id.as_ref())
    }

    /// The cached documents of scopes.
    pub(crate) fn documents(&self) -> &Arc<StateCache<scopes::Name>> {
        &self.documents
    }

    /// The cached states of aggregates.
    pub(crate) fn states(&self) -> &Arc<StateCache<StreamName>> {
        &self.states
    }

    pub(crate) fn retry(&self) -> RetryLimits {
        self.retry
    }

    pub(crate) fn random(&self) -> &Random {
        &self.random
    }

    /// The runs that this process drives now.
    pub(crate) fn active(&self) -> &Arc<Active> {
        &self.active
    }

    /// Lists what is paused: queues, reactions and workflows.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn pauses(&self) -> Result<Vec<PauseInfo>> {
        pauses::list(&*self.store).await
    }

    /// What is paused, as this handle has last read it.
    pub(crate) fn known_pauses(&self) -> &Arc<Pauses> {
        &self.pauses
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the PostgreSQL store below, if it is one: its transactions are a pool for your own
    /// statements, so a program need not have a second one.
    #[cfg(feature = "postgres")]
    pub fn postgres(&self) -> Option<&tidelock_store_postgres::PostgresStore> {
        self.store.as_any()?.downcast_ref()
    }

    /// Returns the SQLite store below, if it is one: your own tables can be in its file.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(&self) -> Option<&tidelock_store_sqlite::SqliteStore> {
        self.store.as_any()?.downcast_ref()
    }

    /// Decodes stored events, with the personal data that belongs to them.
    ///
    /// # Errors
    /// `Unreadable` if an event is not an `E`; the store's errors.
    pub async fn read<E: Event>(
        &self,
        events: Vec<StoredEvent>,
    ) -> Result<Vec<Recorded<E>>, ReadError> {
        Recorded::read(&*self.store, events).await
    }

    /// Erases all personal data of a subject, and returns the number of events that had any. The
    /// events stay, without it.
    ///
    /// From the start of the call, personal data of the subject can be neither read nor added. If
    /// the call is interrupted, call it again: it continues. An erased subject stays erased; a
    /// person who returns is a new subject.
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let events_with_personal_data = tidelock.erase_subject("customer-7").await?;
    /// assert_eq!(events_with_personal_data, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn erase_subject(&self, subject: &str) -> Result<usize> {
        personal::erase(&*self.store, subject).await
    }

    /// Returns how many events have personal data of a subject, and when it was erased.
    ///
    /// # Errors
    /// The store's errors, or `Invalid` if the subject is empty.
    pub async fn subject(&self, subject: &str) -> Result<SubjectInfo> {
        personal::look(&*self.store, subject).await
    }
}
