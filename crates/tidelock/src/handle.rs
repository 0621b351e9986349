//! The handle that programs keep: one store, and the patterns over it.

use std::sync::Arc;

use tidelock_store::{Result, Store, StoredEvent};

use crate::event::Event;
use crate::events::{
    Aggregate, AggregateRef, AggregateSet, Lines, MultiDecision, Random, RetryPolicy, personal,
};
use crate::recorded::{ReadError, Recorded};
use crate::runs::registered::Workflows;
use crate::runs::{Active, Runs};
use crate::scopes::{Lines as ScopeLines, Scope, ScopeKind, ScopeState};

/// One store, and what is built on it. Clones are handles on the same.
#[derive(Debug, Clone)]
pub struct Tidelock {
    store: Arc<dyn Store>,
    lines: Arc<Lines>,
    scope_lines: Arc<ScopeLines>,
    retry: RetryPolicy,
    random: Arc<Random>,
    workflows: Arc<Workflows>,
    active: Arc<Active>,
}

/// How many aggregates' states, and as many scopes', are remembered, unless something else is asked
/// for.
const CACHED_STATES: usize = 10_000;

impl Tidelock {
    /// Over the store that a URL names, as [`open`](crate::open) has it.
    pub async fn open(url: &str) -> Result<Self> {
        Ok(Self::over(crate::open(url).await?))
    }

    /// Over this store.
    pub fn over(store: Arc<dyn Store>) -> Self {
        let (lines, scope_lines) = (Lines::new(CACHED_STATES), ScopeLines::new(CACHED_STATES));
        let (retry, random, workflows) = (RetryPolicy::default(), Arc::default(), Arc::default());
        Self { store, lines, scope_lines, retry, random, workflows, active: Arc::default() }
    }

    /// The same, retrying like this where a call does not say otherwise.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The same, with the states of so many aggregates, and of so many scopes, remembered, of those
    /// used most lately; with 0, of none. What was remembered before is not.
    #[must_use]
    pub fn with_cache(mut self, aggregates: usize) -> Self {
        self.lines = Lines::new(aggregates);
        self.scope_lines = ScopeLines::new(aggregates);
        self
    }

    /// The same, with pauses that are drawn from this seed, so that a run can be repeated.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.random = Arc::new(Random::seeded(seed));
        self
    }

    /// The aggregate of this kind with this id, whether it exists or not.
    pub fn aggregate<A: Aggregate>(&self, id: impl AsRef<str>) -> AggregateRef<A> {
        AggregateRef::new(self.clone(), id.as_ref())
    }

    /// Several aggregates, to decide about them in one commit.
    pub fn decide<S: AggregateSet>(&self, aggregates: S) -> MultiDecision<S::Participants> {
        MultiDecision::new(self.clone(), aggregates.participants())
    }

    /// The runs of this store: start them, signal them, wait for them, look after them.
    pub fn runs(&self) -> Runs {
        Runs::new(self.clone())
    }

    /// The workflows that this process drives.
    pub(crate) fn workflows(&self) -> &Workflows {
        &self.workflows
    }

    /// The scope of this kind with this id, kept in the store, whether it exists or not.
    pub fn scope<S: ScopeState>(&self, kind: ScopeKind, id: impl AsRef<str>) -> Scope<S> {
        Scope::durable(self.clone(), kind, id.as_ref())
    }

    pub(crate) fn scope_lines(&self) -> &Arc<ScopeLines> {
        &self.scope_lines
    }

    pub(crate) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        self.retry
    }

    pub(crate) fn random(&self) -> &Random {
        &self.random
    }

    /// The runs that this process drives at the moment.
    pub(crate) fn active(&self) -> &Arc<Active> {
        &self.active
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Stored events as a type of yours, with the personal data that belongs to them.
    pub async fn read<E: Event>(
        &self,
        events: Vec<StoredEvent>,
    ) -> Result<Vec<Recorded<E>>, ReadError> {
        Recorded::read(&*self.store, events).await
    }

    /// Erases all personal data about a subject, and says in how many events there was any. The
    /// events stay, without it.
    ///
    /// From the moment that this begins nobody can read or add anything about the subject. If it is
    /// cut short, call it again: it goes on. An erased subject stays erased; somebody who comes
    /// back is a new subject.
    pub async fn erase_subject(&self, subject: &str) -> Result<usize> {
        personal::erase(&*self.store, subject).await
    }
}
