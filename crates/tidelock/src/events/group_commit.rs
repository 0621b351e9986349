//! Group commit: decisions on one aggregate, queued in FIFO order and committed in batches.
//!
//! The caller that holds the lock decides on the state as it will be once all pending decisions are
//! committed. It adds its events to the open batch and releases the lock. Meanwhile the previous
//! batch is being committed; the open one follows when that ends. A hot aggregate therefore costs
//! one commit for many decisions, without conflicts inside the process. If a batch fails, every
//! decision on top of it fails too, and all of them are decided again.
//!
//! A refusal must not rest on uncommitted events or on a stale state. It is returned only after the
//! state it was decided on is known to be in the store.

mod batch;
mod rebase;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{NewEvent, Position, Store, StreamName, Timestamp, Version};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::aggregate::Aggregate;
use super::error::LoadError;
use super::folded::Folded;
use super::load::{self, Until};

pub(crate) use batch::{Batch, Outcome, Share};
pub(crate) use rebase::PendingDecision;
use rebase::Recent;

/// State and commit queue of one aggregate in this process.
pub(crate) struct GroupCommit<A: Aggregate> {
    pub(crate) stream: StreamName,
    /// FIFO lock: one caller decides at a time.
    decide_lock: Arc<tokio::sync::Mutex<()>>,
    /// Never held across an await: batches complete regardless of the decision lock's holder.
    inner: Mutex<Inner<A>>,
}

struct Inner<A: Aggregate> {
    /// The newest known state of the store.
    base: Option<Folded<A>>,
    /// Another writer may have appended since: catch up before the next decision.
    stale: bool,
    /// The base with all pending events applied; computed on demand.
    speculative: Option<Arc<A>>,
    /// Decided events that are not committed yet, in order.
    pending: VecDeque<Arc<[A::Event]>>,
    /// The newest batch; it references the older ones.
    tail: Option<Arc<Batch<A>>>,
    /// Counts how often pending events were discarded.
    failures: u64,
    recent: Recent<A::Event>,
}

/// State to decide on.
pub(crate) struct View<A: Aggregate> {
    pub(crate) state: Arc<A>,
    /// The version after all pending events are committed.
    pub(crate) version: Option<Version>,
    /// The version known to be in the store.
    pub(crate) committed: Option<Version>,
    /// Whether the state was compared with the store for this caller.
    pub(crate) is_fresh: bool,
    pub(crate) is_personal: bool,
    /// The batch that must be committed for this state to be true.
    pub(crate) tail: Option<Arc<Batch<A>>>,
    failures: u64,
}

impl<A: Aggregate> GroupCommit<A> {
    pub(crate) fn new(stream: StreamName) -> Self {
        Self { stream, decide_lock: Arc::default(), inner: Mutex::new(Inner::default()) }
    }

    /// Acquires the decision lock, in FIFO order; `None` after the deadline.
    pub(crate) async fn acquire(
        &self,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Option<OwnedMutexGuard<()>> {
        // Usually uncontended: then the clock is not read.
        if let Ok(guard) = self.decide_lock.clone().try_lock_owned() {
            return Some(guard);
        }
        let lock = self.decide_lock.clone().lock_owned();
        match deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline, lock).await.ok(),
            None => Some(lock.await),
        }
    }

    /// Returns the state to decide on. The caller holds the decision lock. Reads from the store
    /// only if the state is unknown or may be stale.
    pub(crate) async fn view(&self, store: &(impl Store + ?Sized)) -> Result<View<A>, LoadError> {
        if let Some(view) = self.lock().view() {
            return Ok(view);
        }
        let folded = self.catch_up(store).await?;
        let mut inner = self.lock();
        let view = View {
            state: folded.state.clone(),
            version: folded.version,
            committed: folded.version,
            is_fresh: true,
            is_personal: folded.personal,
            tail: None,
            failures: inner.failures,
        };
        inner.cache_state(folded);
        // This caller has just read the store; a concurrent load may have read an older state.
        inner.stale &= inner.version() != view.version;
        Ok(view)
    }

    /// Loads the current state from the store.
    pub(crate) async fn load(&self, store: &(impl Store + ?Sized)) -> Result<Folded<A>, LoadError> {
        let folded = self.catch_up(store).await?;
        self.lock().cache_state(folded.clone());
        Ok(folded)
    }

    /// Reads the events after the cached state, or the whole stream.
    async fn catch_up(&self, store: &(impl Store + ?Sized)) -> Result<Folded<A>, LoadError> {
        let known = self.lock().base.clone();
        if let Some(known) = known {
            let keep = |first, events| self.lock().recent.record_theirs(first, events);
            if let Some(folded) =
                load::fold_from(store, &self.stream, known, Until::End, keep).await?
            {
                return Ok(folded);
            }
        }
        load::load(store, &self.stream, Until::End).await
    }

    /// Adds decided events to a batch. Returns `None` if the view is no longer valid.
    pub(crate) fn push(
        &self,
        view: &View<A>,
        events: &Arc<[A::Event]>,
        encoded: Vec<NewEvent>,
    ) -> Option<Share<A>> {
        let mut inner = self.lock();
        if inner.failures != view.failures
            || inner.base.is_none()
            || inner.version() != view.version
        {
            return None;
        }
        if let Some(speculative) = &mut inner.speculative {
            events.iter().for_each(|event| Arc::make_mut(speculative).apply(event));
        }
        inner.pending.push_back(events.clone());
        let tail = inner.tail.take();
        let share = Batch::add(tail, events.clone(), encoded);
        inner.tail = Some(share.batch.clone());
        Some(share)
    }

    /// Returns the batch that must end before the lock's holder can commit on its own.
    pub(crate) fn tail(&self) -> Option<Arc<Batch<A>>> {
        self.lock().tail.clone()
    }

    /// Forces the next decision to catch up with the store first.
    pub(crate) fn invalidate(&self) {
        self.lock().stale = true;
    }

    /// Applies events that a commit outside the batches appended. Returns the state if a snapshot
    /// is due.
    pub(crate) fn apply_committed(
        &self,
        before: Option<Version>,
        events: &[A::Event],
        last: Option<(Position, Timestamp)>,
        personal: bool,
    ) -> Option<Folded<A>> {
        let mut inner = self.lock();
        if personal {
            inner.clear();
        }
        // A concurrent load may have applied the events already.
        let base = inner.base.as_mut().filter(|base| base.version == before)?;
        base.append(events, last);
        A::snapshots().are_due(before, base).then(|| base.clone())
    }

    /// Whether a state is cached.
    pub(crate) fn has_state(&self) -> bool {
        self.lock().base.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<A>> {
        // User code runs under this lock only in `apply`; a state that it left half applied is
        // discarded.
        self.inner.lock().unwrap_or_else(|poisoned: PoisonError<MutexGuard<'_, Inner<A>>>| {
            self.inner.clear_poison();
            let mut inner = poisoned.into_inner();
            inner.discard_pending();
            inner.clear();
            inner
        })
    }
}

impl<A: Aggregate> Default for Inner<A> {
    fn default() -> Self {
        Self {
            base: None,
            stale: false,
            speculative: None,
            pending: VecDeque::new(),
            tail: None,
            failures: 0,
            recent: Recent::default(),
        }
    }
}

impl<A: Aggregate> Inner<A> {
    /// Returns the state to decide on, if it is known.
    fn view(&mut self) -> Option<View<A>> {
        let base = self.base.as_ref()?;
        if self.pending.is_empty() {
            return (!self.stale).then(|| self.view_of(base.state.clone(), base));
        }
        let speculative = self.speculative.get_or_insert_with(|| {
            let mut state = A::clone(&base.state);
            self.pending
                .iter()
                .flat_map(|events| events.iter())
                .for_each(|event| state.apply(event));
            Arc::new(state)
        });
        let state = speculative.clone();
        Some(self.view_of(state, base))
    }

    fn view_of(&self, state: Arc<A>, base: &Folded<A>) -> View<A> {
        View {
            state,
            version: self.version(),
            committed: base.version,
            is_fresh: false,
            is_personal: base.personal,
            tail: self.tail.clone(),
            failures: self.failures,
        }
    }

    /// The version after all pending events are committed.
    fn version(&self) -> Option<Version> {
        let version = self.base.as_ref().and_then(|base| base.version);
        let pending: usize = self.pending.iter().map(|events| events.len()).sum();
        match (version, pending as u64) {
            (version, 0) => version,
            (Some(version), more) => Some(version.plus(more)),
            (None, more) => Some(Version::FIRST.plus(more - 1)),
        }
    }

    /// Caches a state that was read, unless a newer one is cached, decisions are pending, or it
    /// holds personal data.
    fn cache_state(&mut self, folded: Folded<A>) {
        if !self.pending.is_empty() {
            return;
        }
        if folded.personal {
            self.clear();
        } else if self.base.as_ref().is_none_or(|base| base.version < folded.version) {
            self.base = Some(folded);
            self.stale = false;
        }
    }

    fn clear(&mut self) {
        self.base = None;
        self.stale = false;
        self.recent.clear();
    }

    /// Discards all pending events: they will not be committed.
    fn discard_pending(&mut self) {
        self.pending.clear();
        self.speculative = None;
        self.tail = None;
        self.failures += 1;
        self.stale = true;
    }
}
