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

use super::group_commit::GroupCommit;
use super::name::Name;
use super::state::ScopeState;

/// Two types over the same scope have separate entries; the store resolves their conflicts.
type Key = (TypeId, RecordKey);

pub(crate) struct StateCache {
    /// Number of documents kept.
    capacity: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    map: HashMap<Key, Entry>,
    /// Counts uses: the logical clock of the LRU order.
    uses: u64,
}

struct Entry {
    group: Arc<dyn Any + Send + Sync>,
    used: u64,
}

/// Handle to the cache entry of one scope. Dropping it may remove the entry.
pub(crate) struct CacheEntry<S: ScopeState> {
    group: Arc<GroupCommit<S>>,
    cache: Arc<StateCache>,
}

impl StateCache {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, entries: Mutex::default() })
    }

    /// Returns the entry of a scope, creating it if necessary.
    pub(super) fn entry<S: ScopeState>(self: &Arc<Self>, name: &Name) -> CacheEntry<S> {
        let mut entries = self.lock();
        entries.uses += 1;
        let used = entries.uses;
        let new = || Entry { group: Arc::new(GroupCommit::<S>::new(name.clone())), used };
        let entry = entries.map.entry((TypeId::of::<S>(), name.key().clone())).or_insert_with(new);
        entry.used = used;
        let group = entry.group.clone().downcast().expect("the key has the line's type in it");
        if entries.map.len() > self.capacity + self.capacity / 8 + 64 {
            entries.evict(self.capacity);
        }
        drop(entries);
        CacheEntry { group, cache: self.clone() }
    }

    /// Number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().map.len()
    }

    fn release<S: ScopeState>(&self, group: &Arc<GroupCommit<S>>) {
        if self.capacity > 0 && group.is_worth_caching() {
            return;
        }
        let mut entries = self.lock();
        // One reference is the map's and one is this handle's; a new user has to wait for this
        // lock.
        if Arc::strong_count(group) == 2 {
            entries.map.remove(&(TypeId::of::<S>(), group.name.key().clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Evicts the least recently used entries until `left` remain. Entries in use are kept.
    fn evict(&mut self, left: usize) {
        let mut uses: Vec<u64> = self.map.values().map(|entry| entry.used).collect();
        let surplus = uses.len().saturating_sub(left);
        if surplus == 0 {
            return;
        }
        let (_, youngest, _) = uses.select_nth_unstable(surplus - 1);
        self.map.retain(|_, entry| entry.used > *youngest || Arc::strong_count(&entry.group) > 1);
    }
}

impl<S: ScopeState> Deref for CacheEntry<S> {
    type Target = GroupCommit<S>;

    fn deref(&self) -> &GroupCommit<S> {
        &self.group
    }
}

impl<S: ScopeState> Drop for CacheEntry<S> {
    fn drop(&mut self) {
        self.cache.release(&self.group);
    }
}

impl fmt::Debug for StateCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateCache").field("capacity", &self.capacity).finish_non_exhaustive()
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
    async fn the_number_of_cached_documents_is_bounded() {
        let tidelock = over(80);
        for id in 0..1_000 {
            scope(&tidelock, id).increment("visits", 1).await.unwrap();
        }
        let kept = tidelock.scope_lines().len();
        assert!((80..=80 + 10 + 64 + 1).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn large_and_absent_documents_are_not_cached_and_nothing_is_without_capacity() {
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
    async fn a_cancelled_waiter_leaves_no_entry() {
        let tidelock = over(0);
        {
            let entry =
                tidelock.scope_lines().entry::<Value>(&Name::new(&ScopeKind::USER, "1").unwrap());
            let _lock = entry.mutex.lock().await;
            let scope = scope(&tidelock, 1);
            let waiting = std::pin::pin!(scope.increment("visits", 1));
            assert!(matches!(waiting.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        }
        assert_eq!(tidelock.scope_lines().len(), 0);
        assert_eq!(scope(&tidelock, 1).increment("visits", 1).await.unwrap().value, 1);
    }
}
