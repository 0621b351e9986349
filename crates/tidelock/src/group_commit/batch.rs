//! Batch: the changes of several callers, committed together.
//!
//! A batch accepts changes until its commit is sent, which happens when the previous batch has
//! landed. The callers that wait for a batch drive it. If the driving future is dropped, another
//! waiter sends the same commit again, and the store returns the first one's outcome.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use tidelock_store::{Commit, CommitOutcome, Committed, Conflict, RetryAdvice, StoreError};
use tokio::sync::OnceCell;

use super::entry::Entry;
use super::sync::{Mutex, MutexGuard};
use super::target::{Submit, Target};

pub(crate) struct Batch<T: Target> {
    /// The epoch of the entry in which the batch was opened.
    epoch: u64,
    follows: Mutex<Follows<T>>,
    content: Mutex<Content<T>>,
    outcome: OnceCell<Outcome<T>>,
    /// Number of waiters. Changed under the entry's lock.
    waiters: AtomicUsize,
}

/// What the batch is based on. It never overwrites anything else.
enum Follows<T: Target> {
    /// A batch; released once it has landed.
    Batch(Arc<Batch<T>>),
    /// A stored state.
    Stored(T::Expected),
}

struct Content<T: Target> {
    changes: T::Changes,
    /// The commit as sent; the batch accepts no changes from then on.
    sealed: Option<Arc<Commit>>,
}

/// Outcome of a batch.
pub(crate) enum Outcome<T: Target> {
    /// All changes are committed.
    Landed(T::Receipt),
    /// The store was not as expected.
    Conflict(Conflict),
    /// The store failed.
    Failed(StoreError),
}

/// A waiter of a batch, which drives it. If the last waiter of the newest batch is dropped before
/// the outcome is known, the batch is discarded: no later caller sends changes whose callers are
/// gone.
pub(crate) struct Waiter<T: Target> {
    entry: Arc<Entry<T>>,
    batch: Arc<Batch<T>>,
}

impl<T: Target> Waiter<T> {
    /// The caller holds the entry's lock.
    pub(super) fn new(entry: &Arc<Entry<T>>, batch: Arc<Batch<T>>) -> Self {
        batch.waiters.fetch_add(1, Ordering::Relaxed);
        Self { entry: entry.clone(), batch }
    }

    /// Waits for the outcome.
    pub(crate) async fn outcome(&self, store: &impl Submit) -> &Outcome<T> {
        self.batch.outcome(&self.entry, store).await
    }
}

impl<T: Target> Drop for Waiter<T> {
    fn drop(&mut self) {
        let mut inner = self.entry.lock();
        let was_last = self.batch.waiters.fetch_sub(1, Ordering::Relaxed) == 1;
        // An older batch is driven by the waiters of the newer one.
        if was_last && inner.is_tail(&self.batch) && self.batch.outcome.get().is_none() {
            inner.discard(&self.entry.key, None);
        }
    }
}

impl<T: Target> Batch<T> {
    /// Adds a change to the newest batch, or opens a batch behind it. Without a newest batch, opens
    /// one on the stored state that it expects.
    pub(super) fn add(
        tail: Result<&Arc<Self>, T::Expected>,
        epoch: u64,
        state: &mut T,
        change: T::Change,
    ) -> (Arc<Self>, T::Share) {
        if let Ok(tail) = tail {
            let mut content = lock(&tail.content);
            if content.sealed.is_none() && T::has_room(&content.changes, &change) {
                let share = state.add(&mut content.changes, change);
                return (tail.clone(), share);
            }
        }
        let mut changes = T::Changes::default();
        let share = state.add(&mut changes, change);
        let follows = tail.map_or_else(Follows::Stored, |tail| Follows::Batch(tail.clone()));
        let batch = Self {
            epoch,
            follows: Mutex::new(follows),
            content: Mutex::new(Content { changes, sealed: None }),
            outcome: OnceCell::new(),
            waiters: AtomicUsize::new(0),
        };
        (Arc::new(batch), share)
    }

    /// Waits for the outcome. The first waiter drives the commit.
    async fn outcome(&self, entry: &Entry<T>, store: &impl Submit) -> &Outcome<T> {
        self.outcome.get_or_init(|| self.drive(entry, store)).await
    }

    async fn drive(&self, entry: &Entry<T>, store: &impl Submit) -> Outcome<T> {
        let expected = match self.expected(entry, store).await {
            Ok(expected) => expected,
            Err(failed) => return failed,
        };
        let (commit, is_resent) = lock(&self.content).seal(&entry.key, expected);
        match store.submit(&commit).await {
            Ok(CommitOutcome::Committed(committed)) => {
                Outcome::Landed(self.landed(entry, &committed))
            }
            Ok(CommitOutcome::Conflict(conflict)) => {
                self.discard(entry, Some(&conflict));
                Outcome::Conflict(conflict)
            }
            Err(error) => {
                self.discard(entry, None);
                // Even if this attempt certainly failed, an earlier driver's may have landed.
                let unknown = |error: StoreError| error.advising(RetryAdvice::Unknown);
                Outcome::Failed(if is_resent { unknown(error) } else { error })
            }
        }
    }

    /// Waits for the previous batch, and returns the version that this one expects.
    async fn expected(
        &self,
        entry: &Entry<T>,
        store: &impl Submit,
    ) -> Result<T::Expected, Outcome<T>> {
        let previous = match &*lock(&self.follows) {
            Follows::Stored(expected) => return Ok(*expected),
            Follows::Batch(previous) => previous.clone(),
        };
        let expected = match boxed_outcome(&previous, entry, store).await {
            Outcome::Landed(receipt) => T::after(receipt),
            Outcome::Conflict(conflict) => return Err(Outcome::Conflict(conflict.clone())),
            // Whether the previous batch landed may be unknown; this one was not sent.
            Outcome::Failed(error) => {
                return Err(Outcome::Failed(error.clone().advising(RetryAdvice::Later)));
            }
        };
        *lock(&self.follows) = Follows::Stored(expected);
        Ok(expected)
    }

    fn landed(&self, entry: &Entry<T>, committed: &Committed) -> T::Receipt {
        // Lock order: the same as in `Entry::push`.
        let mut inner = entry.lock();
        let mut content = lock(&self.content);
        let is_current = inner.epoch == self.epoch;
        if !is_current {
            inner.state.invalidate();
        }
        let state = is_current.then_some(&mut inner.state);
        let receipt = T::landed(state, &content.changes, committed);
        content.changes = T::Changes::default();
        if inner.is_tail(self) {
            inner.tail = None;
        }
        receipt
    }

    fn discard(&self, entry: &Entry<T>, conflict: Option<&Conflict>) {
        let mut inner = entry.lock();
        if inner.epoch == self.epoch {
            inner.discard(&entry.key, conflict);
        }
    }
}

impl<T: Target> Content<T> {
    /// Closes the batch. Returns its commit, the same one each time, and whether it was returned
    /// before.
    fn seal(&mut self, key: &T::Key, expected: T::Expected) -> (Arc<Commit>, bool) {
        let Self { changes, sealed } = self;
        let is_resent = sealed.is_some();
        let commit = sealed.get_or_insert_with(|| Arc::new(T::seal(key, expected, changes)));
        (commit.clone(), is_resent)
    }
}

/// Boxes the future: a batch awaits the previous one, which has the same type.
fn boxed_outcome<'a, T: Target>(
    batch: &'a Batch<T>,
    entry: &'a Entry<T>,
    store: &'a impl Submit,
) -> Pin<Box<dyn Future<Output = &'a Outcome<T>> + Send + 'a>> {
    Box::pin(batch.outcome(entry, store))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
