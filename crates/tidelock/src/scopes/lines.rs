//! State cache: per-process cache of scope documents and their commit queues, with LRU eviction.
//!
//! All clones of a `Tidelock` share one cache. Its size is bounded. When it is exceeded, the least
//! recently used entries that are not in use are evicted, an eighth of the capacity at a time, so
//! that eviction costs little per call. An entry without a document is removed as soon as its last
//! user drops it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::RecordKey;

use super::line::Line;
use super::name::Name;
use super::state::ScopeState;

/// Two types over the same scope have separate entries; the store resolves their conflicts.
type Key = (TypeId, RecordKey);

pub(crate) struct Lines {
    /// Number of documents kept.
    capacity: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    lines: HashMap<Key, Entry>,
    /// Counts uses: the logical clock of the LRU order.
    uses: u64,
}

struct Entry {
    line: Arc<dyn Any + Send + Sync>,
    used: u64,
}

/// Handle to the cache entry of one scope. Dropping it may remove the entry.
pub(crate) struct Place<S: ScopeState> {
    line: Arc<Line<S>>,
    lines: Arc<Lines>,
}

impl Lines {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, entries: Mutex::default() })
    }

    /// Returns the entry of a scope, creating it if necessary.
    pub(super) fn place<S: ScopeState>(self: &Arc<Self>, name: &Name) -> Place<S> {
        let mut entries = self.lock();
        entries.uses += 1;
        let used = entries.uses;
        let new = || Entry { line: Arc::new(Line::<S>::new(name.clone())), used };
        let entry =
            entries.lines.entry((TypeId::of::<S>(), name.key().clone())).or_insert_with(new);
        entry.used = used;
        let line = entry.line.clone().downcast().expect("the key has the line's type in it");
        if entries.lines.len() > self.capacity + self.capacity / 8 + 64 {
            entries.forget(self.capacity);
        }
        drop(entries);
        Place { line, lines: self.clone() }
    }

    /// Number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().lines.len()
    }

    fn leave<S: ScopeState>(&self, line: &Arc<Line<S>>) {
        if self.capacity > 0 && line.is_worth_keeping() {
            return;
        }
        let mut entries = self.lock();
        // One reference is the map's and one is this handle's; a new user has to wait for this
        // lock.
        if Arc::strong_count(line) == 2 {
            entries.lines.remove(&(TypeId::of::<S>(), line.name.key().clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Evicts the least recently used entries until `left` remain. Entries in use are kept.
    fn forget(&mut self, left: usize) {
        let mut uses: Vec<u64> = self.lines.values().map(|entry| entry.used).collect();
        let surplus = uses.len().saturating_sub(left);
        if surplus == 0 {
            return;
        }
        let (_, youngest, _) = uses.select_nth_unstable(surplus - 1);
        self.lines.retain(|_, entry| entry.used > *youngest || Arc::strong_count(&entry.line) > 1);
    }
}

impl<S: ScopeState> Deref for Place<S> {
    type Target = Line<S>;

    fn deref(&self) -> &Line<S> {
        &self.line
    }
}

impl<S: ScopeState> Drop for Place<S> {
    fn drop(&mut self) {
        self.lines.leave(&self.line);
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("capacity", &self.capacity).finish_non_exhaustive()
    }
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
        Tidelock::over(Arc::new(MemoryStore::new())).with_cache(capacity)
    }

    fn scope(tidelock: &Tidelock, id: usize) -> Scope<Value> {
        tidelock.scope(ScopeKind::USER, id.to_string())
    }

    #[tokio::test]
    async fn the_number_of_remembered_documents_is_bounded() {
        let tidelock = over(80);
        for id in 0..1_000 {
            scope(&tidelock, id).increment("visits", 1).await.unwrap();
        }
        let kept = tidelock.scope_lines().len();
        assert!((80..=80 + 10 + 64 + 1).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn without_a_cache_and_of_what_is_large_or_not_there_nothing_stays() {
        let (none, some) = (over(0), over(80));
        scope(&none, 1).increment("visits", 1).await.unwrap();
        assert_eq!(none.scope_lines().len(), 0);
        scope(&some, 1).set_entry("", "large", "x".repeat(100_000)).await.unwrap();
        scope(&some, 2).remove_entry("", "nothing").await.unwrap();
        scope(&some, 3).create(json!(1)).await.unwrap();
        scope(&some, 3).delete().await.unwrap();
        assert_eq!(some.scope_lines().len(), 0);
    }

    #[tokio::test]
    async fn a_caller_who_goes_away_while_waiting_leaves_no_trace() {
        let tidelock = over(0);
        {
            let place =
                tidelock.scope_lines().place::<Value>(&Name::new(&ScopeKind::USER, "1").unwrap());
            let _turn = place.turns.take().await;
            let scope = scope(&tidelock, 1);
            let waiting = std::pin::pin!(scope.increment("visits", 1));
            assert!(matches!(waiting.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        }
        assert_eq!(tidelock.scope_lines().len(), 0);
        assert_eq!(scope(&tidelock, 1).increment("visits", 1).await.unwrap().value, 1);
    }
}
