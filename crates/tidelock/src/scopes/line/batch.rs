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

use super::{Line, found_live, text};
use crate::events::send;
use crate::handle::Tidelock;
use crate::scopes::document::Doc;
use crate::scopes::state::ScopeState;

pub(crate) struct Batch<S> {
    before: Mutex<Before<S>>,
    content: Mutex<Content<S>>,
    landing: OnceCell<Landing>,
    /// Number of waiters. Changed under the lock of the scope's queue.
    waiters: AtomicUsize,
}

/// What the batch's document is based on. It never overwrites anything else.
enum Before<S> {
    /// The document of that batch; released once it is committed.
    Batch(Arc<Batch<S>>),
    /// A stored document with this revision.
    Landed(ExpectedRevision),
}

struct Content<S> {
    doc: Doc<S>,
    lives: Option<Duration>,
    /// The commit as sent; the batch is closed from then on.
    sent: Option<Commit>,
}

/// Outcome of a batch.
#[derive(Debug)]
pub(crate) enum Landing {
    /// Committed at this revision.
    Landed(Revision),
    /// A concurrent writer was first, or deleted the scope.
    Refused(Conflict),
    /// The store failed.
    Failed(StoreError),
}

/// A waiter of a batch, which drives it. If the last waiter is dropped before the outcome is known,
/// the batch is discarded, so that a later caller does not send mutations whose callers are gone.
pub(crate) struct Waiting<'a, S: ScopeState> {
    line: &'a Line<S>,
    batch: Arc<Batch<S>>,
}

impl<'a, S: ScopeState> Waiting<'a, S> {
    /// The caller holds the lock of the scope's queue.
    pub(super) fn new(line: &'a Line<S>, batch: Arc<Batch<S>>) -> Self {
        batch.waiters.fetch_add(1, Ordering::Relaxed);
        Self { line, batch }
    }

    /// Waits for the outcome.
    pub(crate) async fn landing(&self, tidelock: &Tidelock) -> &Landing {
        self.batch.landing(self.line, tidelock).await
    }
}

impl<S: ScopeState> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        let mut inner = self.line.lock();
        let was_last = self.batch.waiters.fetch_sub(1, Ordering::Relaxed) == 1;
        // An older batch is driven by the waiters of the newer one.
        let is_newest =
            inner.ahead.as_ref().is_some_and(|(_, tail)| Arc::ptr_eq(tail, &self.batch));
        if was_last && is_newest && self.batch.landing.get().is_none() {
            inner.throw_away(None);
        }
    }
}

impl<S: ScopeState> Batch<S> {
    /// Starts a batch on a stored document.
    pub(super) fn first(
        expected: ExpectedRevision,
        doc: Doc<S>,
        lives: Option<Duration>,
    ) -> Arc<Self> {
        Self::new(Before::Landed(expected), doc, lives)
    }

    /// Replaces the document of the newest batch, or starts a batch behind it if that one was sent.
    pub(super) fn behind(tail: &Arc<Self>, doc: Doc<S>, lives: Option<Duration>) -> Arc<Self> {
        let mut content = tail.content();
        if content.sent.is_some() {
            drop(content);
            return Self::new(Before::Batch(tail.clone()), doc, lives);
        }
        (content.doc, content.lives) = (doc, lives);
        tail.clone()
    }

    fn new(before: Before<S>, doc: Doc<S>, lives: Option<Duration>) -> Arc<Self> {
        let content = Mutex::new(Content { doc, lives, sent: None });
        let (before, waiters) = (Mutex::new(before), AtomicUsize::new(0));
        Arc::new(Self { before, content, landing: OnceCell::new(), waiters })
    }

    /// Waits for the outcome. The first waiter drives the commit.
    async fn landing(&self, line: &Line<S>, tidelock: &Tidelock) -> &Landing {
        self.landing.get_or_init(|| self.land(line, tidelock)).await
    }

    async fn land(&self, line: &Line<S>, tidelock: &Tidelock) -> Landing {
        let expected = match self.expected(line, tidelock).await {
            Ok(expected) => expected,
            Err(not_landed) => return not_landed,
        };
        let commit = self.content().send(line, expected);
        match send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await {
            Ok(CommitOutcome::Committed(committed)) => {
                let written = committed.writes.first().and_then(|written| written.revision);
                self.landed(line, written.expect("a document that was put has a revision"))
            }
            Ok(CommitOutcome::Conflict(conflict)) => {
                line.lock().throw_away(found_live(&line.name, &conflict));
                Landing::Refused(conflict)
            }
            Err(error) => {
                line.lock().throw_away(None);
                Landing::Failed(error)
            }
        }
    }

    /// Waits for the document this one is based on to be committed.
    async fn expected(
        &self,
        line: &Line<S>,
        tidelock: &Tidelock,
    ) -> Result<ExpectedRevision, Landing> {
        let before = match &*lock(&self.before) {
            Before::Landed(expected) => return Ok(*expected),
            Before::Batch(before) => before.clone(),
        };
        let expected = ExpectedRevision::Revision(landed(in_a_box(&before, line, tidelock).await)?);
        *lock(&self.before) = Before::Landed(expected);
        Ok(expected)
    }

    fn landed(&self, line: &Line<S>, revision: Revision) -> Landing {
        // Lock order: the same as in `push`.
        let mut inner = line.lock();
        inner.landed(self.content().doc.clone(), revision);
        if inner.ahead.as_ref().is_some_and(|(_, tail)| std::ptr::eq(&raw const **tail, self)) {
            inner.ahead = None;
        }
        Landing::Landed(revision)
    }

    fn content(&self) -> MutexGuard<'_, Content<S>> {
        lock(&self.content)
    }
}

impl<S: ScopeState> Content<S> {
    /// Closes the batch and returns its commit. May be called again to resend it.
    fn send(&mut self, line: &Line<S>, expected: ExpectedRevision) -> Commit {
        let Self { doc, lives, sent } = self;
        let make = || {
            let write = RecordWrite::put(line.name.key(), expected, text(doc));
            let write = match lives {
                Some(lives) => write.expiring(When::In(*lives)),
                None => write,
            };
            Commit::new().with_retry_id().write(write)
        };
        sent.get_or_insert_with(make).clone()
    }
}

/// Boxes the future: a batch awaits the previous one, which has the same type.
fn in_a_box<'a, S: ScopeState>(
    batch: &'a Batch<S>,
    line: &'a Line<S>,
    tidelock: &'a Tidelock,
) -> Pin<Box<dyn Future<Output = &'a Landing> + Send + 'a>> {
    Box::pin(batch.landing(line, tidelock))
}

/// Returns the revision of the previous batch, or the outcome that its failure implies.
fn landed(earlier: &Landing) -> Result<Revision, Landing> {
    match earlier {
        Landing::Landed(revision) => Ok(*revision),
        Landing::Refused(conflict) => Err(Landing::Refused(conflict.clone())),
        // Whether the previous batch was committed may be unknown; this one was not sent.
        Landing::Failed(error) => Err(Landing::Failed(error.clone().advising(RetryAdvice::Later))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
