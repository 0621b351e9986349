//! State cache: per-process cache of entries, with LRU eviction.
//!
//! All clones of a `Tidelock` share its caches. Their size is bounded. When it is exceeded, the
//! least recently used entries that are not in use are evicted, an eighth of the capacity at a
//! time, so that eviction costs little per call. An entry whose state is not worth caching is
//! removed as soon as its last user drops it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};

use super::entry::Entry;
use super::sync::{Mutex, MutexGuard};
use super::target::Target;

pub(crate) struct StateCache<K> {
    /// Number of states kept.
    capacity: usize,
    entries: Mutex<Entries<K>>,
}

struct Entries<K> {
    /// Two types over the same key have separate entries; the store resolves their conflicts.
    map: HashMap<(TypeId, K), Cached>,
    /// Counts uses: the logical clock of the LRU order.
    uses: u64,
}

struct Cached {
    entry: Arc<dyn Any + Send + Sync>,
    used: u64,
}

/// Handle to a cache entry. Dropping it may remove the entry.
pub(crate) struct CacheEntry<T: Target> {
    entry: Arc<Entry<T>>,
    cache: Arc<StateCache<T::Key>>,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> StateCache<K> {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, entries: Mutex::new(Entries { map: HashMap::new(), uses: 0 }) })
    }

    /// Returns the entry of a key, creating it if necessary.
    pub(crate) fn entry<T: Target<Key = K>>(self: &Arc<Self>, key: &K) -> CacheEntry<T> {
        let mut entries = self.lock();
        entries.uses += 1;
        let used = entries.uses;
        let new = || Cached { entry: Arc::new(Entry::<T>::new(key.clone())), used };
        let cached = entries.map.entry((TypeId::of::<T>(), key.clone())).or_insert_with(new);
        cached.used = used;
        let entry = cached.entry.clone().downcast().expect("the key has the entry's type in it");
        if entries.map.len() > self.capacity + self.capacity / 8 + 64 {
            entries.evict(self.capacity);
        }
        drop(entries);
        CacheEntry { entry, cache: self.clone() }
    }

    /// Number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().map.len()
    }

    fn release<T: Target<Key = K>>(&self, entry: &Arc<Entry<T>>) {
        if self.capacity > 0 && entry.with(|state| state.is_worth_caching()) {
            return;
        }
        let mut entries = self.lock();
        // One reference is the map's and one is this handle's; a new user has to wait for this
        // lock.
        if Arc::strong_count(entry) == 2 {
            entries.map.remove(&(TypeId::of::<T>(), entry.key.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Entries<K> {
    /// Evicts the least recently used entries until `left` remain. Entries in use are kept.
    fn evict(&mut self, left: usize) {
        let mut uses: Vec<u64> = self.map.values().map(|cached| cached.used).collect();
        let surplus = uses.len().saturating_sub(left);
        if surplus == 0 {
            return;
        }
        let (_, youngest, _) = uses.select_nth_unstable(surplus - 1);
        self.map
            .retain(|_, cached| cached.used > *youngest || Arc::strong_count(&cached.entry) > 1);
    }
}

impl<T: Target> Deref for CacheEntry<T> {
    type Target = Arc<Entry<T>>;

    fn deref(&self) -> &Arc<Entry<T>> {
        &self.entry
    }
}

impl<T: Target> Drop for CacheEntry<T> {
    fn drop(&mut self) {
        self.cache.release(&self.entry);
    }
}

impl<K> fmt::Debug for StateCache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateCache").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
