//! The line of those who decide about one aggregate, in one process.
//!
//! Callers take turns, first come, first served. Whoever has the turn decides on the state as it
//! will be once everything that was decided before is committed, puts the events into the open
//! batch, and lets the next one in; the batch is committed meanwhile, and the next one when it is
//! done. So a hot aggregate costs one commit for many decisions, and nobody fights anybody. If a
//! batch does not land, nothing that was decided on top of it lands either, and all of it is
//! decided again.
//!
//! A refusal must not rest on something that never happened, nor on a state that others have
//! changed since: it is only given out once what it was decided on is known to be in the store.

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

/// All that this process knows of one aggregate.
pub(crate) struct Line<A: Aggregate> {
    pub(crate) stream: StreamName,
    /// Only one decides at a time, in the order of arrival.
    turns: Arc<tokio::sync::Mutex<()>>,
    /// Never held while anything is waited for: batches land whoever has the turn.
    inner: Mutex<Inner<A>>,
}

struct Inner<A: Aggregate> {
    /// The state as it is in the store, as far as this process knows.
    base: Option<Folded<A>>,
    /// Somebody else may have appended since: read on before anything is decided.
    stale: bool,
    /// The base with everything pending applied; made when somebody needs it.
    ahead: Option<Arc<A>>,
    /// What was decided and has not landed yet, in order.
    pending: VecDeque<Arc<[A::Event]>>,
    /// The newest batch; the older ones hang on it.
    tail: Option<Arc<Batch<A>>>,
    /// Counts the times that something pending was thrown away.
    failures: u64,
    recent: Recent<A::Event>,
}

/// What there is to decide on.
pub(crate) struct View<A: Aggregate> {
    pub(crate) state: Arc<A>,
    /// The version, once everything pending has landed.
    pub(crate) version: Option<Version>,
    /// The version that is known to be in the store.
    pub(crate) landed: Option<Version>,
    /// Whether it was compared with the store for this caller.
    pub(crate) is_fresh: bool,
    pub(crate) is_personal: bool,
    /// What has to land for it to be true.
    pub(crate) tail: Option<Arc<Batch<A>>>,
    failures: u64,
}

impl<A: Aggregate> Line<A> {
    pub(crate) fn new(stream: StreamName) -> Self {
        Self { stream, turns: Arc::default(), inner: Mutex::new(Inner::default()) }
    }

    /// Waits for a turn, until the deadline.
    pub(crate) async fn turn(
        &self,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Option<OwnedMutexGuard<()>> {
        // Most of the time nobody else is there, and no clock has to be looked at.
        if let Ok(turn) = self.turns.clone().try_lock_owned() {
            return Some(turn);
        }
        let turn = self.turns.clone().lock_owned();
        match deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline, turn).await.ok(),
            None => Some(turn.await),
        }
    }

    /// What to decide on, for whoever has the turn. Reads only if the state is not known, or may be
    /// behind.
    pub(crate) async fn view(&self, store: &(impl Store + ?Sized)) -> Result<View<A>, LoadError> {
        if let Some(view) = self.lock().view() {
            return Ok(view);
        }
        let folded = self.read_on(store).await?;
        let mut inner = self.lock();
        let view = View {
            state: folded.state.clone(),
            version: folded.version,
            landed: folded.version,
            is_fresh: true,
            is_personal: folded.personal,
            tail: None,
            failures: inner.failures,
        };
        inner.offer(folded);
        // Whoever has the turn has just looked; a load beside it may have looked too early.
        inner.stale &= inner.version() != view.version;
        Ok(view)
    }

    /// The state as it is in the store now.
    pub(crate) async fn load(&self, store: &(impl Store + ?Sized)) -> Result<Folded<A>, LoadError> {
        let folded = self.read_on(store).await?;
        self.lock().offer(folded.clone());
        Ok(folded)
    }

    /// Reads what is missing from the state that is known, or all of it.
    async fn read_on(&self, store: &(impl Store + ?Sized)) -> Result<Folded<A>, LoadError> {
        let known = self.lock().base.clone();
        if let Some(known) = known {
            let keep = |first, events| self.lock().recent.note(first, events);
            if let Some(folded) = load::go_on(store, &self.stream, known, Until::End, keep).await? {
                return Ok(folded);
            }
        }
        load::load(store, &self.stream, Until::End).await
    }

    /// Puts what was decided on a view into a batch; not if the view has become untrue meanwhile.
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
        if let Some(ahead) = &mut inner.ahead {
            events.iter().for_each(|event| Arc::make_mut(ahead).apply(event));
        }
        inner.pending.push_back(events.clone());
        let tail = inner.tail.take();
        let share = Batch::add(tail, events.clone(), encoded);
        inner.tail = Some(share.batch.clone());
        Some(share)
    }

    /// The batch that has to land before somebody can be alone, for whoever has the turn.
    pub(crate) fn tail(&self) -> Option<Arc<Batch<A>>> {
        self.lock().tail.clone()
    }

    /// Makes the next one who decides look at the store first.
    pub(crate) fn invalidate(&self) {
        self.lock().stale = true;
    }

    /// Takes note of what somebody alone has committed. Returns the state if it should be kept.
    pub(crate) fn landed(
        &self,
        before: Option<Version>,
        events: &[A::Event],
        last: Option<(Position, Timestamp)>,
        personal: bool,
    ) -> Option<Folded<A>> {
        let mut inner = self.lock();
        if personal {
            inner.forget();
        }
        // A load beside this may have read the events already.
        let base = inner.base.as_mut().filter(|base| base.version == before)?;
        base.append(events, last);
        A::snapshots().are_due(before, base).then(|| base.clone())
    }

    /// Whether a state is remembered.
    pub(crate) fn has_state(&self) -> bool {
        self.lock().base.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<A>> {
        // Users' code runs under this lock only in `apply`; a state that it left half done is not
        // used again.
        self.inner.lock().unwrap_or_else(|poisoned: PoisonError<MutexGuard<'_, Inner<A>>>| {
            self.inner.clear_poison();
            let mut inner = poisoned.into_inner();
            inner.throw_away();
            inner.forget();
            inner
        })
    }
}

impl<A: Aggregate> Default for Inner<A> {
    fn default() -> Self {
        Self {
            base: None,
            stale: false,
            ahead: None,
            pending: VecDeque::new(),
            tail: None,
            failures: 0,
            recent: Recent::default(),
        }
    }
}

impl<A: Aggregate> Inner<A> {
    /// What to decide on, if that is known.
    fn view(&mut self) -> Option<View<A>> {
        let base = self.base.as_ref()?;
        if self.pending.is_empty() {
            return (!self.stale).then(|| self.view_of(base.state.clone(), base));
        }
        let ahead = self.ahead.get_or_insert_with(|| {
            let mut state = A::clone(&base.state);
            self.pending
                .iter()
                .flat_map(|events| events.iter())
                .for_each(|event| state.apply(event));
            Arc::new(state)
        });
        let state = ahead.clone();
        Some(self.view_of(state, base))
    }

    fn view_of(&self, state: Arc<A>, base: &Folded<A>) -> View<A> {
        View {
            state,
            version: self.version(),
            landed: base.version,
            is_fresh: false,
            is_personal: base.personal,
            tail: self.tail.clone(),
            failures: self.failures,
        }
    }

    /// The version, once everything pending has landed.
    fn version(&self) -> Option<Version> {
        let version = self.base.as_ref().and_then(|base| base.version);
        let pending: usize = self.pending.iter().map(|events| events.len()).sum();
        match (version, pending as u64) {
            (version, 0) => version,
            (Some(version), more) => Some(version.plus(more)),
            (None, more) => Some(Version::FIRST.plus(more - 1)),
        }
    }

    /// Remembers a state that was read, unless a newer one is known, or one that things hang on, or
    /// it holds personal data.
    fn offer(&mut self, folded: Folded<A>) {
        if !self.pending.is_empty() {
            return;
        }
        if folded.personal {
            self.forget();
        } else if self.base.as_ref().is_none_or(|base| base.version < folded.version) {
            self.base = Some(folded);
            self.stale = false;
        }
    }

    fn forget(&mut self) {
        self.base = None;
        self.stale = false;
        self.recent.clear();
    }

    /// Whatever is pending will not land.
    fn throw_away(&mut self) {
        self.pending.clear();
        self.ahead = None;
        self.tail = None;
        self.failures += 1;
        self.stale = true;
    }
}
