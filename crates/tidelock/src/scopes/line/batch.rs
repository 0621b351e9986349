//! Mutations that are committed together.
//!
//! What a batch writes is the document that the last of its mutations left. It takes more until its
//! commit is sent, which is as soon as the batch before it has landed. It is driven by whoever
//! waits for it; if that one goes away in the middle, the next one sends the same commit again, and
//! the store answers with what the first did.

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
    /// How many wait for it. Changed under the line's lock.
    waiters: AtomicUsize,
}

/// What the document of a batch was made of. It is never written over anything else.
enum Before<S> {
    /// What that one writes; let go of when it has landed.
    Batch(Arc<Batch<S>>),
    /// What is in the store like this.
    Landed(ExpectedRevision),
}

struct Content<S> {
    doc: Doc<S>,
    lives: Option<Duration>,
    /// As it was sent; from then on nothing is added.
    sent: Option<Commit>,
}

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Landing {
    /// It is there.
    Landed(Revision),
    /// Somebody else was quicker, or took the scope away.
    Refused(Conflict),
    /// The store failed.
    Failed(StoreError),
}

/// One who waits for a batch, and drives it. When the last of them goes away before it is known
/// what became of it, the line forgets the batch: what nobody wants any more is not sent by whoever
/// comes next, some other day.
pub(crate) struct Waiting<'a, S: ScopeState> {
    line: &'a Line<S>,
    batch: Arc<Batch<S>>,
}

impl<'a, S: ScopeState> Waiting<'a, S> {
    /// For whoever holds the line's lock.
    pub(super) fn new(line: &'a Line<S>, batch: Arc<Batch<S>>) -> Self {
        batch.waiters.fetch_add(1, Ordering::Relaxed);
        Self { line, batch }
    }

    /// What becomes of it.
    pub(crate) async fn landing(&self, tidelock: &Tidelock) -> &Landing {
        self.batch.landing(self.line, tidelock).await
    }
}

impl<S: ScopeState> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        let mut inner = self.line.lock();
        let was_last = self.batch.waiters.fetch_sub(1, Ordering::Relaxed) == 1;
        // If it is not the newest, those who wait for a newer one drive it.
        let is_newest =
            inner.ahead.as_ref().is_some_and(|(_, tail)| Arc::ptr_eq(tail, &self.batch));
        if was_last && is_newest && self.batch.landing.get().is_none() {
            inner.throw_away(None);
        }
    }
}

impl<S: ScopeState> Batch<S> {
    /// A document that was made of what is in the store.
    pub(super) fn first(
        expected: ExpectedRevision,
        doc: Doc<S>,
        lives: Option<Duration>,
    ) -> Arc<Self> {
        Self::new(Before::Landed(expected), doc, lives)
    }

    /// A document that was made of the one that the newest batch has: it takes its place there, or
    /// goes into a batch behind it.
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

    /// What becomes of it. Whoever asks drives it, if nobody else does.
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

    /// Waits for what it was made of to land.
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
        // In this order, which is that of `push`.
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
    /// What is sent, again and again if need be.
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

/// A batch waits for the one before it, which is of the same kind: somewhere the types must end.
fn in_a_box<'a, S: ScopeState>(
    batch: &'a Batch<S>,
    line: &'a Line<S>,
    tidelock: &'a Tidelock,
) -> Pin<Box<dyn Future<Output = &'a Landing> + Send + 'a>> {
    Box::pin(batch.landing(line, tidelock))
}

/// The revision of the batch before, or what it means that it did not land.
fn landed(earlier: &Landing) -> Result<Revision, Landing> {
    match earlier {
        Landing::Landed(revision) => Ok(*revision),
        Landing::Refused(conflict) => Err(Landing::Refused(conflict.clone())),
        // Whether that one happened is for its callers to wonder; this one did not.
        Landing::Failed(error) => Err(Landing::Failed(error.clone().advising(RetryAdvice::Later))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
