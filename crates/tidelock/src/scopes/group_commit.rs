//! Group commit: mutations of one durable scope, queued in FIFO order and committed in batches.
//!
//! The lock's holder mutates the document as it will be once all pending mutations are committed.
//! It puts the result into the open batch and releases the lock. Meanwhile the previous batch is
//! being committed; the open one follows when that ends. A hot scope therefore costs one commit for
//! many mutations, without conflicts inside the process. If a batch fails, every mutation on top of
//! it fails too, and all of them run again.
//!
//! A cached document is only ever overwritten at its own revision. The absence of a scope is never
//! cached: it may have been created and deleted since.

mod batch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{
    Conflict, ExpectedRevision, RawJson, Record, Revision, Slot, Store, StoreExt, ViolationReason,
};

use super::document::Doc;
use super::error::ScopeError;
use super::fair_mutex::FairMutex;
use super::name::Name;
use super::options::Options;
use super::reentrancy::Identity;
use super::state::ScopeState;

pub(crate) use batch::{Batch, BatchWaiter, Outcome};

/// Size at which an unused document is not cached: there may be many.
const CACHED_BYTES: usize = 64 << 10;

/// State and commit queue of one scope in this process.
pub(crate) struct GroupCommit<S> {
    pub(super) name: Name,
    /// The mutation lock. The document is in `inner`, because batches complete regardless of the
    /// lock's holder.
    pub(super) mutex: FairMutex<()>,
    /// Never held across an await.
    inner: Mutex<Inner<S>>,
}

/// A document and its revision.
type Known<S> = (Doc<S>, Revision);

struct Inner<S> {
    /// The newest known document of the store; `None` if it has to be read.
    base: Option<Known<S>>,
    /// The document after all pending mutations, and the newest batch, which references the older
    /// ones.
    pending: Option<(Doc<S>, Arc<Batch<S>>)>,
    /// Counts how often pending mutations were discarded.
    failures: u64,
}

/// Document to mutate.
pub(crate) struct View<S> {
    pub(super) doc: Doc<S>,
    /// Its stored revision, unless it depends on a batch.
    pub(super) revision: Option<Revision>,
    /// Whether it was compared with the store for this caller.
    is_fresh: bool,
    /// The batch that must be committed for this document to be true.
    tail: Option<Arc<Batch<S>>>,
    failures: u64,
}

impl<S: ScopeState> GroupCommit<S> {
    pub(super) fn new(name: Name) -> Self {
        let inner = Inner { base: None, pending: None, failures: 0 };
        Self { name, mutex: FairMutex::new(()), inner: Mutex::new(inner) }
    }

    pub(super) fn identity(&self) -> Identity {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the document to mutate. The caller holds the lock. Reads from the store only if the
    /// document is unknown.
    pub(super) async fn view<X>(
        &self,
        store: &(impl Store + ?Sized),
    ) -> Result<View<S>, ScopeError<X>> {
        if let Some(view) = self.lock().view() {
            return Ok(view);
        }
        let slot = store.get_one(self.name.key()).await?;
        self.cache_read(&slot).map_err(ScopeError::widen)
    }

    /// Caches what the lock's holder read from the store while nothing was pending.
    pub(super) fn cache_read(&self, slot: &Slot) -> Result<View<S>, ScopeError> {
        let known = slot.live().map(|record| known(&self.name, record)).transpose();
        let failures = {
            let mut inner = self.lock();
            inner.base = known.as_ref().ok().cloned().flatten();
            inner.failures
        };
        let view = |doc, revision| View { doc, revision, is_fresh: true, tail: None, failures };
        match (known?, slot) {
            (Some((doc, revision)), _) => Ok(view(doc, Some(revision))),
            (None, Slot::Deleted(revision)) => Err(ScopeError::gone(&self.name, Some(*revision))),
            (None, _) => Ok(view(Doc::first(), None)),
        }
    }

    /// Adds a mutated document to a batch. Returns `None` if the view is no longer valid.
    pub(super) fn push(
        &self,
        view: &View<S>,
        doc: Doc<S>,
        options: &Options<S>,
    ) -> Option<BatchWaiter<'_, S>> {
        let mut inner = self.lock();
        if inner.failures != view.failures {
            return None;
        }
        let batch = match &view.tail {
            Some(tail) => Batch::behind(tail, doc.clone(), options.ttl),
            None => Batch::first(view.expected(), doc.clone(), options.ttl),
        };
        inner.pending = Some((doc, batch.clone()));
        Some(BatchWaiter::new(self, batch))
    }

    /// Waits for the batch that a view depends on, if any. Returns `None` if the view is no longer
    /// valid.
    pub(super) fn wait_for(&self, view: &View<S>) -> Option<Option<BatchWaiter<'_, S>>> {
        let inner = self.lock();
        (inner.failures == view.failures)
            .then(|| view.tail.clone().map(|tail| BatchWaiter::new(self, tail)))
    }

    /// Returns the batch that must end before the lock's holder can commit on its own.
    pub(super) fn tail(&self) -> Option<BatchWaiter<'_, S>> {
        let inner = self.lock();
        inner.pending.as_ref().map(|(_, tail)| BatchWaiter::new(self, tail.clone()))
    }

    /// Forces the next mutation to read the store first.
    pub(super) fn invalidate(&self) {
        self.lock().base = None;
    }

    /// Caches a document that a mutation with its own commit has written.
    pub(super) fn committed(&self, doc: Doc<S>, revision: Revision) {
        self.lock().committed(doc, revision);
    }

    /// Whether the document is worth caching while unused.
    pub(super) fn is_worth_caching(&self) -> bool {
        let inner = self.lock();
        let text = inner.base.as_ref().and_then(|(doc, _)| doc.text.as_ref());
        text.is_some_and(|text| text.as_str().len() < CACHED_BYTES)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> View<S> {
    /// The revision that a write based on this view expects.
    pub(super) fn expected(&self) -> ExpectedRevision {
        self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision)
    }

    /// Whether this view rests on the cache alone.
    pub(super) fn is_only_cached(&self) -> bool {
        self.tail.is_none() && !self.is_fresh
    }
}

impl<S: ScopeState> Inner<S> {
    /// Returns the document to mutate, if it is known.
    fn view(&self) -> Option<View<S>> {
        let view = |doc: &Doc<S>, revision, tail| View {
            doc: doc.clone(),
            revision,
            is_fresh: false,
            tail,
            failures: self.failures,
        };
        match (&self.pending, &self.base) {
            (Some((doc, tail)), _) => Some(view(doc, None, Some(tail.clone()))),
            (None, Some((doc, revision))) => Some(view(doc, Some(*revision), None)),
            (None, None) => None,
        }
    }

    /// Caches a committed document, unless a newer one is cached.
    fn committed(&mut self, doc: Doc<S>, revision: Revision) {
        if self.base.as_ref().is_none_or(|(_, known)| *known < revision) {
            self.base = Some((doc, revision));
        }
    }

    /// Discards the pending mutations. `found` is the stored document, if known.
    fn discard_pending(&mut self, found: Option<Known<S>>) {
        self.pending = None;
        self.failures += 1;
        self.base = found;
    }
}

/// Returns the record that a conflicting commit found instead of the expected revision.
pub(super) fn found<'a>(name: &Name, conflict: &'a Conflict) -> Option<&'a Slot> {
    conflict.violations.iter().find_map(|clash| match &clash.reason {
        ViolationReason::Record { key, found, .. } if key == name.key() => Some(found),
        _ => None,
    })
}

/// Decodes the conflicting document, if it is live and readable.
fn found_live<S: ScopeState>(name: &Name, conflict: &Conflict) -> Option<Known<S>> {
    known(name, found(name, conflict)?.live()?).ok()
}

fn known<S: ScopeState>(name: &Name, record: &Record) -> Result<Known<S>, ScopeError> {
    Ok((Doc::of(name, record)?, record.revision))
}

/// The JSON of a document to write.
pub(super) fn text<S>(doc: &Doc<S>) -> RawJson {
    doc.text.clone().expect("what is to be written was encoded")
}
