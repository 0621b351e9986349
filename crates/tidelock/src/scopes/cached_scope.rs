//! The cached document of one durable scope, with its pending mutations.
//!
//! A batch writes the document that its last mutation left. A cached document is only ever
//! overwritten at its own revision. The absence of a scope is never cached: it may have been
//! created and deleted since.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedRevision, RawJson, Record, RecordWrite, Revision, Slot,
    Store, StoreExt, ViolationReason, When,
};

use super::document::Doc;
use super::error::ScopeError;
use super::name::Name;
use super::state::ScopeState;
use crate::group_commit::{Entry, Target, View};

/// Size at which an unused document is not cached: there may be many.
const CACHED_BYTES: usize = 64 << 10;

pub(crate) struct CachedScope<S> {
    /// The newest known document of the store; `None` if it has to be read.
    stored: Option<Known<S>>,
    /// The document after all pending mutations.
    pending: Option<Doc<S>>,
}

/// A document and its revision.
type Known<S> = (Doc<S>, Revision);

/// Document to mutate.
pub(crate) struct ScopeView<S> {
    pub(super) doc: Doc<S>,
    /// Its stored revision, unless mutations are pending.
    pub(super) revision: Option<Revision>,
}

impl<S> Default for CachedScope<S> {
    fn default() -> Self {
        Self { stored: None, pending: None }
    }
}

impl<S> ScopeView<S> {
    /// The revision that a write based on this view expects.
    pub(super) fn expected(&self) -> ExpectedRevision {
        self.revision.map_or(ExpectedRevision::Absent, ExpectedRevision::Revision)
    }
}

impl<S: ScopeState> Target for CachedScope<S> {
    type Key = Name;
    type View = ScopeView<S>;
    type Change = (Doc<S>, Option<Duration>);
    /// The document that the last mutation left, and its TTL.
    type Changes = Option<(Doc<S>, Option<Duration>)>;
    type Share = ();
    type Expected = ExpectedRevision;
    type Receipt = Revision;

    fn view(&mut self) -> Option<ScopeView<S>> {
        let (doc, revision) = match (&self.pending, &self.stored) {
            (Some(doc), _) => (doc, None),
            (None, Some((doc, revision))) => (doc, Some(*revision)),
            (None, None) => return None,
        };
        Some(ScopeView { doc: doc.clone(), revision })
    }

    fn expected(view: &ScopeView<S>) -> ExpectedRevision {
        view.expected()
    }

    fn has_room(_: &Self::Changes, _: &Self::Change) -> bool {
        true
    }

    fn add(&mut self, changes: &mut Self::Changes, change: Self::Change) {
        self.pending = Some(change.0.clone());
        *changes = Some(change);
    }

    fn seal(name: &Name, expected: ExpectedRevision, changes: &mut Self::Changes) -> Commit {
        let (doc, ttl) = changes.as_ref().expect("a batch has a change");
        let write = RecordWrite::put(name.key(), expected, text(doc));
        let write = match ttl {
            Some(ttl) => write.expiring(When::In(*ttl)),
            None => write,
        };
        Commit::new().with_retry_id().write(write)
    }

    fn landed(
        state: Option<&mut Self>,
        changes: &Self::Changes,
        committed: &Committed,
    ) -> Revision {
        let written = committed.writes.first().and_then(|written| written.revision);
        let revision = written.expect("a document that was put has a revision");
        if let (Some(state), Some((doc, _))) = (state, changes) {
            state.committed(doc.clone(), revision);
            // Each mutation leaves a document of its own.
            state.pending.take_if(|pending| Arc::ptr_eq(&pending.state, &doc.state));
        }
        revision
    }

    fn after(revision: &Revision) -> ExpectedRevision {
        ExpectedRevision::Revision(*revision)
    }

    fn discard(&mut self, name: &Name, conflict: Option<&Conflict>) {
        self.pending = None;
        self.stored = conflict.and_then(|conflict| found_live(name, conflict));
    }

    fn invalidate(&mut self) {
        self.stored = None;
    }

    fn clear(&mut self) {
        self.stored = None;
    }

    fn is_worth_caching(&self) -> bool {
        let text = self.stored.as_ref().and_then(|(doc, _)| doc.text.as_ref());
        text.is_some_and(|text| text.as_str().len() < CACHED_BYTES)
    }
}

impl<S: ScopeState> CachedScope<S> {
    /// Caches a committed document, unless a newer one is cached.
    pub(super) fn committed(&mut self, doc: Doc<S>, revision: Revision) {
        if self.stored.as_ref().is_none_or(|(_, known)| *known < revision) {
            self.stored = Some((doc, revision));
        }
    }
}

impl<S: ScopeState> Entry<CachedScope<S>> {
    /// Returns the document to mutate. The caller has the turn. Reads from the store only if the
    /// document is unknown.
    pub(super) async fn load(
        &self,
        store: &(impl Store + ?Sized),
    ) -> Result<View<CachedScope<S>>, ScopeError> {
        if let Some(view) = self.view() {
            return Ok(view);
        }
        self.cache_read(&store.get_one(self.key.key()).await?)
    }

    /// Caches what the turn's holder read from the store while nothing was pending.
    pub(super) fn cache_read(&self, slot: &Slot) -> Result<View<CachedScope<S>>, ScopeError> {
        let known = match slot.live().map(|record| known(&self.key, record)).transpose() {
            Ok(None) if matches!(slot, Slot::Deleted(_)) => {
                Err(ScopeError::gone(&self.key, slot.revision()))
            }
            known => known,
        };
        let known = known.inspect_err(|_| self.invalidate())?;
        Ok(self.fresh_view(|state| {
            state.stored.clone_from(&known);
            let (doc, revision) = known.unzip();
            ScopeView { doc: doc.unwrap_or_else(Doc::first), revision }
        }))
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use serde_json::{Value, json};
    use tidelock_store::MemoryStore;

    use super::*;
    use crate::handle::Tidelock;
    use crate::scopes::{Scope, ScopeKind};

    fn over(capacity: usize) -> Tidelock {
        Tidelock::over(Arc::new(MemoryStore::new())).with_cache_capacity(capacity)
    }

    /// A scope whose documents are validated: the store does not edit them by itself.
    fn scope(tidelock: &Tidelock, id: usize) -> Scope<Value> {
        tidelock.scope(ScopeKind::USER, id.to_string()).validate(|_| Ok(()))
    }

    #[tokio::test]
    async fn the_number_of_cached_documents_is_bounded() {
        let tidelock = over(80);
        for id in 0..1_000 {
            scope(&tidelock, id).increment("visits", 1).await.unwrap();
        }
        let kept = tidelock.documents().len();
        assert!((80..=80 + 10 + 64 + 1).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn large_and_absent_documents_are_not_cached_and_nothing_is_without_capacity() {
        let (none, some) = (over(0), over(80));
        scope(&none, 1).increment("visits", 1).await.unwrap();
        assert_eq!(none.documents().len(), 0);
        scope(&some, 1).set_entry("", "large", "x".repeat(100_000)).await.unwrap();
        scope(&some, 2).remove_entry("", "nothing").await.unwrap();
        scope(&some, 3).create(json!(1)).await.unwrap();
        scope(&some, 3).delete().await.unwrap();
        assert_eq!(some.documents().len(), 0);
    }

    #[tokio::test]
    async fn a_cancelled_waiter_leaves_no_entry() {
        let tidelock = over(0);
        {
            let entry = tidelock
                .documents()
                .entry::<CachedScope<Value>>(&Name::new(&ScopeKind::USER, "1").unwrap());
            let _turn = entry.turn(|| None).await;
            let scope = scope(&tidelock, 1);
            let waiting = std::pin::pin!(scope.increment("visits", 1));
            assert!(matches!(waiting.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        }
        assert_eq!(tidelock.documents().len(), 0);
        assert_eq!(scope(&tidelock, 1).increment("visits", 1).await.unwrap().value, 1);
    }
}
