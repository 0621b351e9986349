//! State cache: per-process cache of aggregate states and their commit queues, with LRU eviction.
//!
//! All clones of a `Tidelock` share one cache. Its size is bounded. When it is exceeded, the least
//! recently used entries that are not in use are evicted, an eighth of the capacity at a time, so
//! that eviction costs little per call. An entry without a state is removed as soon as its last
//! user drops it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{StreamName, Version};

use super::aggregate::Aggregate;
use super::group_commit::{GroupCommit, PendingDecision};

/// Two types over the same stream have separate entries; the store resolves their conflicts.
type Key = (TypeId, StreamName);

pub(crate) struct StateCache {
    /// Number of states kept.
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

/// Handle to the cache entry of one aggregate. Dropping it may remove the entry.
pub(crate) struct CacheEntry<A: Aggregate> {
    group: Arc<GroupCommit<A>>,
    cache: Arc<StateCache>,
}

impl StateCache {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, entries: Mutex::default() })
    }

    /// Returns the entry of an aggregate, creating it if necessary.
    pub(crate) fn entry<A: Aggregate>(self: &Arc<Self>, stream: &StreamName) -> CacheEntry<A> {
        let mut entries = self.lock();
        entries.uses += 1;
        let used = entries.uses;
        let new = || Entry { group: Arc::new(GroupCommit::<A>::new(stream.clone())), used };
        let entry = entries.map.entry((TypeId::of::<A>(), stream.clone())).or_insert_with(new);
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
    pub(crate) fn len(&self) -> usize {
        self.lock().map.len()
    }

    fn release<A: Aggregate>(&self, group: &Arc<GroupCommit<A>>) {
        if self.capacity > 0 && group.has_state() {
            return;
        }
        let mut entries = self.lock();
        let key = (TypeId::of::<A>(), group.stream.clone());
        // One reference is the map's and one is this handle's; a new user has to wait for this
        // lock.
        if Arc::strong_count(group) == 2 {
            entries.map.remove(&key);
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

impl<A: Aggregate> CacheEntry<A> {
    /// Tracks decided events until they are committed: see [`PendingDecision`].
    pub(crate) fn track(
        &self,
        events: Arc<[A::Event]>,
        known: Option<Version>,
    ) -> PendingDecision<A> {
        PendingDecision::new(self.group.clone(), events, known)
    }
}

impl<A: Aggregate> Deref for CacheEntry<A> {
    type Target = GroupCommit<A>;

    fn deref(&self) -> &GroupCommit<A> {
        &self.group
    }
}

impl<A: Aggregate> Drop for CacheEntry<A> {
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
    use super::*;
    use crate::events::Personal;
    use crate::handle::Tidelock;
    use std::convert::Infallible;
    use tidelock_derive::Event;
    use tidelock_store::MemoryStore;

    #[derive(Debug, Default, Clone)]
    struct Club {
        members: usize,
    }

    #[derive(Debug, Event)]
    enum ClubEvent {
        Founded,
        Joined { name: Personal<String> },
    }

    impl Aggregate for Club {
        const KIND: &'static str = "club";
        type Event = ClubEvent;

        fn apply(&mut self, event: &ClubEvent) {
            if let ClubEvent::Joined { name } = event {
                self.members += usize::from(name.get().is_some());
            }
        }
    }

    async fn found(tidelock: &Tidelock, id: usize) {
        let club = tidelock.aggregate::<Club>(id.to_string());
        club.execute(|_| Ok::<_, Infallible>(ClubEvent::Founded)).await.unwrap();
    }

    fn over(capacity: usize) -> Tidelock {
        Tidelock::over(Arc::new(MemoryStore::new())).with_cache(capacity)
    }

    #[tokio::test]
    async fn the_number_of_cached_states_is_bounded_and_recently_used_ones_stay() {
        let tidelock = over(80);
        for id in 0..1_000 {
            found(&tidelock, id).await;
            found(&tidelock, 0).await;
        }
        assert!(
            (80..=80 + 10 + 64 + 1).contains(&tidelock.lines().len()),
            "{}",
            tidelock.lines().len()
        );
        let remembered = |id: &str| {
            let stream = StreamName::new(format!("club-{id}")).unwrap();
            tidelock.lines().entry::<Club>(&stream).has_state()
        };
        assert!(remembered("0") && remembered("999") && !remembered("1"));
    }

    #[tokio::test]
    async fn without_capacity_an_unused_entry_is_removed() {
        let tidelock = over(0);
        found(&tidelock, 1).await;
        assert_eq!(tidelock.lines().len(), 0);
        tidelock.aggregate::<Club>("1").load().await.unwrap();
        assert_eq!(tidelock.lines().len(), 0);
    }

    #[tokio::test]
    async fn a_state_with_personal_data_is_not_cached() {
        let tidelock = over(80);
        let club = tidelock.aggregate::<Club>("chess");
        let join = |_: &Club| {
            Ok::<_, Infallible>(ClubEvent::Joined { name: Personal::new("ada", "Ada".to_owned()) })
        };
        found(&tidelock, 1).await;
        club.execute(join).await.unwrap();
        club.execute(join).await.unwrap();
        assert_eq!(club.load().await.unwrap().members, 2);
        assert_eq!(tidelock.lines().len(), 1, "only the other one's is");
    }

    #[tokio::test]
    async fn a_cancelled_waiter_leaves_no_entry() {
        let tidelock = over(0);
        let stream = StreamName::new("club-1").unwrap();
        let entry = tidelock.lines().entry::<Club>(&stream);
        let lock = entry.acquire(|| None).await.unwrap();
        {
            let club = tidelock.aggregate::<Club>("1");
            let waiting = std::pin::pin!(club.execute(|_| Ok::<_, Infallible>(ClubEvent::Founded)));
            assert!(futures_poll(waiting).is_pending());
        }
        drop(lock);
        found(&tidelock, 1).await;
        drop(entry);
        assert_eq!(tidelock.lines().len(), 0);
        assert_eq!(tidelock.aggregate::<Club>("1").history().await.unwrap().len(), 1);
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
