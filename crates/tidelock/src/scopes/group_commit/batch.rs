//! Batch of mutations of one scope, committed together.
//!
//! A batch writes the document that its last mutation left. It accepts mutations until its commit
//! is sent, which happens when the previous batch is committed. The callers that wait for a batch
//! drive it. If the driving future is dropped, another waiter sends the same commit again, and the
//! store returns the first one's outcome.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{
    Commit, CommitOutcome, Conflict, ExpectedRevision, RecordWrite, RetryAdvice, Revision,
    StoreError, When,
};
use tokio::sync::OnceCell;

use super::{GroupCommit, found_live, text};
use crate::events::send;
use crate::handle::Tidelock;
use crate::scopes::document::Doc;
use crate::scopes::state::ScopeState;

pub(crate) struct Batch<S> {
    based_on: Mutex<BasedOn<S>>,
    content: Mutex<Content<S>>,
    outcome: OnceCell<Outcome>,
    /// Number of waiters. Changed under the lock of the scope's queue.
    waiters: AtomicUsize,
}

/// What the batch's document is based on. It never overwrites anything else.
enum BasedOn<S> {
    /// The document of that batch; released once it is committed.
    Batch(Arc<Batch<S>>),
    /// A stored document with this revision.
    Stored(ExpectedRevision),
}

struct Content<S> {
    doc: Doc<S>,
    ttl: Option<Duration>,
    /// The commit as sent; the batch is closed from then on.
    sent: Option<Commit>,
}

/// Outcome of a batch.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Committed at this revision.
    Committed(Revision),
    /// A concurrent writer was first, or deleted the scope.
    Conflict(Conflict),
    /// The store failed.
    Failed(StoreError),
}

/// A waiter of a batch, which drives it. If the last waiter is dropped before the outcome is known,
/// the batch is discarded, so that a later caller does not send mutations whose callers are gone.
pub(crate) struct BatchWaiter<'a, S: ScopeState> {
    group: &'a GroupCommit<S>,
    batch: Arc<Batch<S>>,
}

impl<'a, S: ScopeState> BatchWaiter<'a, S> {
    /// The caller holds the lock of the scope's queue.
    pub(super) fn new(group: &'a GroupCommit<S>, batch: Arc<Batch<S>>) -> Self {
        batch.waiters.fetch_add(1, Ordering::Relaxed);
        Self { group, batch }
    }

    /// Waits for the outcome.
    pub(crate) async fn outcome(&self, tidelock: &Tidelock) -> &Outcome {
        self.batch.outcome(self.group, tidelock).await
    }
}

impl<S: ScopeState> Drop for BatchWaiter<'_, S> {
    fn drop(&mut self) {
        let mut inner = self.group.lock();
        let was_last = self.batch.waiters.fetch_sub(1, Ordering::Relaxed) == 1;
        // An older batch is driven by the waiters of the newer one.
        let is_newest =
            inner.pending.as_ref().is_some_and(|(_, tail)| Arc::ptr_eq(tail, &self.batch));
        if was_last && is_newest && self.batch.outcome.get().is_none() {
            inner.discard_pending(None);
        }
    }
}

impl<S: ScopeState> Batch<S> {
    /// Starts a batch on a stored document.
    pub(super) fn first(
        expected: ExpectedRevision,
        doc: Doc<S>,
        ttl: Option<Duration>,
    ) -> Arc<Self> {
        Self::new(BasedOn::Stored(expected), doc, ttl)
    }

    /// Replaces the document of the newest batch, or starts a batch behind it if that one was sent.
    pub(super) fn behind(tail: &Arc<Self>, doc: Doc<S>, ttl: Option<Duration>) -> Arc<Self> {
        let mut content = tail.content();
        if content.sent.is_some() {
            drop(content);
            return Self::new(BasedOn::Batch(tail.clone()), doc, ttl);
        }
        (content.doc, content.ttl) = (doc, ttl);
        tail.clone()
    }

    fn new(based_on: BasedOn<S>, doc: Doc<S>, ttl: Option<Duration>) -> Arc<Self> {
        let content = Mutex::new(Content { doc, ttl, sent: None });
        let (based_on, waiters) = (Mutex::new(based_on), AtomicUsize::new(0));
        Arc::new(Self { based_on, content, outcome: OnceCell::new(), waiters })
    }

    /// Waits for the outcome. The first waiter drives the commit.
    async fn outcome(&self, group: &GroupCommit<S>, tidelock: &Tidelock) -> &Outcome {
        self.outcome.get_or_init(|| self.commit_batch(group, tidelock)).await
    }

    async fn commit_batch(&self, group: &GroupCommit<S>, tidelock: &Tidelock) -> Outcome {
        let expected = match self.expected(group, tidelock).await {
            Ok(expected) => expected,
            Err(failed) => return failed,
        };
        let commit = self.content().close(group, expected);
        match send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await {
            Ok(CommitOutcome::Committed(committed)) => {
                let written = committed.writes.first().and_then(|written| written.revision);
                self.on_committed(group, written.expect("a document that was put has a revision"))
            }
            Ok(CommitOutcome::Conflict(conflict)) => {
                group.lock().discard_pending(found_live(&group.name, &conflict));
                Outcome::Conflict(conflict)
            }
            Err(error) => {
                group.lock().discard_pending(None);
                Outcome::Failed(error)
            }
        }
    }

    /// Waits for the document this one is based on to be committed.
    async fn expected(
        &self,
        group: &GroupCommit<S>,
        tidelock: &Tidelock,
    ) -> Result<ExpectedRevision, Outcome> {
        let previous = match &*lock(&self.based_on) {
            BasedOn::Stored(expected) => return Ok(*expected),
            BasedOn::Batch(previous) => previous.clone(),
        };
        let expected = ExpectedRevision::Revision(committed_revision(
            boxed_outcome(&previous, group, tidelock).await,
        )?);
        *lock(&self.based_on) = BasedOn::Stored(expected);
        Ok(expected)
    }

    fn on_committed(&self, group: &GroupCommit<S>, revision: Revision) -> Outcome {
        // Lock order: the same as in `push`.
        let mut inner = group.lock();
        inner.committed(self.content().doc.clone(), revision);
        if inner.pending.as_ref().is_some_and(|(_, tail)| std::ptr::eq(&raw const **tail, self)) {
            inner.pending = None;
        }
        Outcome::Committed(revision)
    }

    fn content(&self) -> MutexGuard<'_, Content<S>> {
        lock(&self.content)
    }
}

impl<S: ScopeState> Content<S> {
    /// Closes the batch and returns its commit. May be called again to resend it.
    fn close(&mut self, group: &GroupCommit<S>, expected: ExpectedRevision) -> Commit {
        let Self { doc, ttl, sent } = self;
        let make = || {
            let write = RecordWrite::put(group.name.key(), expected, text(doc));
            let write = match ttl {
                Some(ttl) => write.expiring(When::In(*ttl)),
                None => write,
            };
            Commit::new().with_retry_id().write(write)
        };
        sent.get_or_insert_with(make).clone()
    }
}

/// Boxes the future: a batch awaits the previous one, which has the same type.
fn boxed_outcome<'a, S: ScopeState>(
    batch: &'a Batch<S>,
    group: &'a GroupCommit<S>,
    tidelock: &'a Tidelock,
) -> Pin<Box<dyn Future<Output = &'a Outcome> + Send + 'a>> {
    Box::pin(batch.outcome(group, tidelock))
}

/// Returns the revision of the previous batch, or the outcome that its failure implies.
fn committed_revision(earlier: &Outcome) -> Result<Revision, Outcome> {
    match earlier {
        Outcome::Committed(revision) => Ok(*revision),
        Outcome::Conflict(conflict) => Err(Outcome::Conflict(conflict.clone())),
        // Whether the previous batch was committed may be unknown; this one was not sent.
        Outcome::Failed(error) => Err(Outcome::Failed(error.clone().advising(RetryAdvice::Later))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
