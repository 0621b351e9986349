//! The line of those who change one durable scope, in one process.
//!
//! Callers take turns. Whoever has the turn changes the document as it will be once everything
//! before it is committed, puts the result into the open batch, and lets the next one in; the batch
//! is committed meanwhile, and the next one when it is done. So a hot scope costs one commit for
//! many mutations, and nobody of this process fights anybody. If a batch does not land, nothing
//! that was done on top of it lands either, and all of it is done again.
//!
//! A document that is remembered is only ever written over at its own revision. That a scope does
//! not exist is never remembered: it may have been created and deleted since.

mod batch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{
    Conflict, ExpectedRevision, RawJson, Record, Revision, Slot, Store, StoreExt, ViolationReason,
};

use super::document::Doc;
use super::error::ScopeError;
use super::fair_mutex::Turns;
use super::name::Name;
use super::options::Options;
use super::reentrancy::Identity;
use super::state::ScopeState;

pub(crate) use batch::{Batch, Landing, Waiting};

/// Bytes from which on a document is not remembered when nobody is in line: there may be many.
const TOO_LARGE_TO_KEEP: usize = 64 << 10;

/// All that this process knows of one scope.
pub(crate) struct Line<S> {
    pub(super) name: Name,
    /// What they are at is below, for batches land whoever has the turn.
    pub(super) turns: Turns<()>,
    /// Never held while anything is waited for: batches land whoever has the turn.
    inner: Mutex<Inner<S>>,
}

/// A document, at its revision.
type Known<S> = (Doc<S>, Revision);

struct Inner<S> {
    /// What is in the store, as far as this process knows; nothing, if that has to be looked up.
    base: Option<Known<S>>,
    /// The document once everything pending has landed, and the newest batch; the older ones hang
    /// on it.
    ahead: Option<(Doc<S>, Arc<Batch<S>>)>,
    /// Counts the times that something pending was thrown away.
    failures: u64,
}

/// What there is to change.
pub(crate) struct View<S> {
    pub(super) doc: Doc<S>,
    /// The revision in the store that this is, unless it hangs on a batch.
    pub(super) revision: Option<Revision>,
    /// Whether it was compared with the store for this caller.
    is_fresh: bool,
    /// What has to land for it to be true.
    tail: Option<Arc<Batch<S>>>,
    failures: u64,
}

impl<S: ScopeState> Line<S> {
    pub(super) fn new(name: Name) -> Self {
        let inner = Inner { base: None, ahead: None, failures: 0 };
        Self { name, turns: Turns::at(()), inner: Mutex::new(inner) }
    }

    pub(super) fn identity(&self) -> Identity {
        std::ptr::from_ref(self).addr()
    }

    /// What to change, for whoever has the turn. Reads only if that is not known.
    pub(super) async fn view<X>(
        &self,
        store: &(impl Store + ?Sized),
    ) -> Result<View<S>, ScopeError<X>> {
        if let Some(view) = self.lock().view() {
            return Ok(view);
        }
        let slot = store.get_one(self.name.key()).await?;
        self.look(&slot).map_err(ScopeError::widen)
    }

    /// Takes note of what was found in the store by whoever has the turn, when nothing is pending.
    pub(super) fn look(&self, slot: &Slot) -> Result<View<S>, ScopeError> {
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

    /// Puts what was made of a view into a batch; not if the view has become untrue meanwhile.
    pub(super) fn push(
        &self,
        view: &View<S>,
        doc: Doc<S>,
        options: &Options<S>,
    ) -> Option<Waiting<'_, S>> {
        let mut inner = self.lock();
        if inner.failures != view.failures {
            return None;
        }
        let batch = match &view.tail {
            Some(tail) => Batch::behind(tail, doc.clone(), options.lives),
            None => Batch::first(view.expected(), doc.clone(), options.lives),
        };
        inner.ahead = Some((doc, batch.clone()));
        Some(Waiting::new(self, batch))
    }

    /// Waits with others for what a view hangs on, if it hangs on anything; not if the view has
    /// become untrue meanwhile.
    pub(super) fn wait(&self, view: &View<S>) -> Option<Option<Waiting<'_, S>>> {
        let inner = self.lock();
        (inner.failures == view.failures)
            .then(|| view.tail.clone().map(|tail| Waiting::new(self, tail)))
    }

    /// The batch that has to land before somebody can be alone, for whoever has the turn.
    pub(super) fn tail(&self) -> Option<Waiting<'_, S>> {
        let inner = self.lock();
        inner.ahead.as_ref().map(|(_, tail)| Waiting::new(self, tail.clone()))
    }

    /// Makes the next one look at the store first.
    pub(super) fn distrust(&self) {
        self.lock().base = None;
    }

    /// Takes note of what somebody alone has committed.
    pub(super) fn landed(&self, doc: Doc<S>, revision: Revision) {
        self.lock().landed(doc, revision);
    }

    /// Whether there is something worth remembering, when nobody is in line.
    pub(super) fn is_worth_keeping(&self) -> bool {
        let inner = self.lock();
        let text = inner.base.as_ref().and_then(|(doc, _)| doc.text.as_ref());
        text.is_some_and(|text| text.as_str().len() < TOO_LARGE_TO_KEEP)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> View<S> {
    /// What must still be in the store for whatever was made of this to be written.
    pub(super) fn expected(&self) -> ExpectedRevision {
        self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision)
    }

    /// Whether nothing but what is remembered says that this is true.
    pub(super) fn is_only_remembered(&self) -> bool {
        self.tail.is_none() && !self.is_fresh
    }
}

impl<S: ScopeState> Inner<S> {
    /// What to change, if that is known.
    fn view(&self) -> Option<View<S>> {
        let view = |doc: &Doc<S>, revision, tail| View {
            doc: doc.clone(),
            revision,
            is_fresh: false,
            tail,
            failures: self.failures,
        };
        match (&self.ahead, &self.base) {
            (Some((doc, tail)), _) => Some(view(doc, None, Some(tail.clone()))),
            (None, Some((doc, revision))) => Some(view(doc, Some(*revision), None)),
            (None, None) => None,
        }
    }

    /// Takes note of a document that has landed, unless a newer one is known.
    fn landed(&mut self, doc: Doc<S>, revision: Revision) {
        if self.base.as_ref().is_none_or(|(_, known)| *known < revision) {
            self.base = Some((doc, revision));
        }
    }

    /// Whatever is pending will not land; this is what is in the store, if that is known.
    fn throw_away(&mut self, found: Option<Known<S>>) {
        self.ahead = None;
        self.failures += 1;
        self.base = found;
    }
}

/// What a refused commit found where it expected another revision of a scope.
pub(super) fn found<'a>(name: &Name, conflict: &'a Conflict) -> Option<&'a Slot> {
    conflict.violations.iter().find_map(|clash| match &clash.reason {
        ViolationReason::Record { key, found, .. } if key == name.key() => Some(found),
        _ => None,
    })
}

/// The same, if there is a document that can be gone on with.
fn found_live<S: ScopeState>(name: &Name, conflict: &Conflict) -> Option<Known<S>> {
    known(name, found(name, conflict)?.live()?).ok()
}

fn known<S: ScopeState>(name: &Name, record: &Record) -> Result<Known<S>, ScopeError> {
    Ok((Doc::of(name, record)?, record.revision))
}

/// The text of a document that is to be written.
pub(super) fn text<S>(doc: &Doc<S>) -> RawJson {
    doc.text.clone().expect("what is to be written was encoded")
}
