//! Entry: FIFO lock, cached state and newest batch of one key.

use std::sync::{Arc, PoisonError};

use tidelock_store::Conflict;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::batch::{Batch, Waiter};
use super::sync::{Mutex, MutexGuard};
use super::target::Target;

/// State and commit queue of one key in this process.
pub(crate) struct Entry<T: Target> {
    pub(crate) key: T::Key,
    /// FIFO lock: one caller decides at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Never held across an await: batches land regardless of the turn's holder.
    inner: Mutex<Inner<T>>,
}

pub(super) struct Inner<T: Target> {
    pub(super) state: T,
    /// The newest batch; it references the older ones.
    pub(super) tail: Option<Arc<Batch<T>>>,
    /// Changes whenever the state is replaced by something other than its pending changes. A view
    /// or a batch of an earlier epoch says nothing about the state any more.
    pub(super) epoch: u64,
}

/// State to decide on.
pub(crate) struct View<T: Target> {
    pub(crate) state: T::View,
    /// Whether the state was compared with the store for this caller.
    pub(crate) is_fresh: bool,
    /// The batch that must land for this state to be true.
    tail: Option<Arc<Batch<T>>>,
    epoch: u64,
}

/// Whether an answer without a commit may be returned.
pub(crate) enum Confirmed<T: Target> {
    /// Its state was compared with the store for this caller.
    Now,
    /// Once this batch has landed.
    After(Waiter<T>),
    /// The state is only cached, or out of date: decide on a new view.
    Retry,
}

impl<T: Target> Entry<T> {
    pub(super) fn new(key: T::Key) -> Self {
        let inner = Inner { state: T::default(), tail: None, epoch: 0 };
        Self { key, turn: Arc::default(), inner: Mutex::new(inner) }
    }

    /// Waits for the turn to decide, in FIFO order; `None` after the deadline.
    pub(crate) async fn turn(
        &self,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Option<OwnedMutexGuard<()>> {
        // Usually uncontended: then the clock is not read.
        if let Some(turn) = self.try_turn() {
            return Some(turn);
        }
        let turn = self.turn.clone().lock_owned();
        match deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline, turn).await.ok(),
            None => Some(turn.await),
        }
    }

    /// Takes the turn if no other caller has it or waits for it.
    pub(crate) fn try_turn(&self) -> Option<OwnedMutexGuard<()>> {
        self.turn.clone().try_lock_owned().ok()
    }

    /// Returns the state to decide on, if it need not be read from the store. The caller has the
    /// turn.
    pub(crate) fn view(&self) -> Option<View<T>> {
        let mut inner = self.lock();
        let state = inner.state.view()?;
        Some(View { state, is_fresh: false, tail: inner.tail.clone(), epoch: inner.epoch })
    }

    /// Returns the state that the caller has just read from the store. It has the turn, and nothing
    /// was pending.
    pub(crate) fn fresh_view(&self, cache: impl FnOnce(&mut T) -> T::View) -> View<T> {
        let mut inner = self.lock();
        let state = cache(&mut inner.state);
        View { state, is_fresh: true, tail: None, epoch: inner.epoch }
    }

    /// Adds a change to the open batch. Returns `None` if the view is out of date. The caller has
    /// the turn.
    pub(crate) fn push(
        self: &Arc<Self>,
        view: &View<T>,
        change: T::Change,
    ) -> Option<(Waiter<T>, T::Share)> {
        let mut inner = self.lock();
        if inner.epoch != view.epoch {
            return None;
        }
        let tail = view.tail.as_ref().ok_or_else(|| T::expected(&view.state));
        let (batch, share) = Batch::add(tail, inner.epoch, &mut inner.state, change);
        inner.tail = Some(batch.clone());
        Some((Waiter::new(self, batch), share))
    }

    /// Whether an answer without a commit may be returned. If its state is only cached, the next
    /// view is read from the store. The caller has the turn.
    pub(crate) fn confirm(self: &Arc<Self>, view: &View<T>) -> Confirmed<T> {
        let mut inner = self.lock();
        match &view.tail {
            _ if inner.epoch != view.epoch => Confirmed::Retry,
            Some(tail) => Confirmed::After(Waiter::new(self, tail.clone())),
            None if view.is_fresh => Confirmed::Now,
            None => {
                inner.state.invalidate();
                Confirmed::Retry
            }
        }
    }

    /// Returns the batch that must end before the turn's holder can commit on its own.
    pub(crate) fn tail(self: &Arc<Self>) -> Option<Waiter<T>> {
        self.lock().tail.clone().map(|tail| Waiter::new(self, tail))
    }

    /// Forces the next view to be read from the store.
    pub(crate) fn invalidate(&self) {
        self.lock().state.invalidate();
    }

    /// Reads or updates the cached state without replacing it.
    pub(crate) fn with<R>(&self, access: impl FnOnce(&mut T) -> R) -> R {
        access(&mut self.lock().state)
    }

    /// Replaces the cached state, if `replace` returns `true`.
    pub(crate) fn replace(&self, replace: impl FnOnce(&mut T) -> bool) {
        let mut inner = self.lock();
        if replace(&mut inner.state) {
            inner.epoch += 1;
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // User code runs under this lock where an aggregate applies events; a state that it left
        // half applied is dropped.
        self.inner.lock().unwrap_or_else(|poisoned: PoisonError<MutexGuard<'_, Inner<T>>>| {
            self.inner.clear_poison();
            let mut inner = poisoned.into_inner();
            inner.discard(&self.key, None);
            inner.state.clear();
            inner
        })
    }
}

impl<T: Target> Inner<T> {
    /// Drops all pending changes: they will not be committed.
    pub(super) fn discard(&mut self, key: &T::Key, conflict: Option<&Conflict>) {
        self.state.discard(key, conflict);
        self.tail = None;
        self.epoch += 1;
    }

    pub(super) fn is_tail(&self, batch: &Batch<T>) -> bool {
        self.tail.as_ref().is_some_and(|tail| std::ptr::eq(&raw const **tail, batch))
    }
}
