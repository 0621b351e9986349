//! Cache of events that this process has just routed, so that its handlers need not read them
//! again.
//!
//! Events are immutable, so a copy never becomes stale. The cache is bounded, with FIFO eviction;
//! misses are read from the store. Any process can delete events, which stay in this cache, so a
//! rebuild bypasses it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidelock_store::{StoredEvent, StreamName, Version};

/// The maximum number of cached events.
const EVENTS: usize = 20_000;
/// The maximum size of cached events, in bytes of JSON.
const BYTES: usize = 32 << 20;

/// The newest events, by stream and version.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    events: HashMap<StreamName, HashMap<Version, StoredEvent>>,
    order: VecDeque<(StreamName, Version)>,
    bytes: usize,
}

impl Recent {
    /// Adds events, and evicts the oldest if needed.
    pub(crate) fn keep<'a>(&self, events: impl IntoIterator<Item = &'a StoredEvent>) {
        let mut kept = self.lock();
        for event in events {
            kept.add(event.clone());
        }
    }

    /// The cached events of this stream from this version on, up to the first gap.
    pub(crate) fn run(&self, stream: &StreamName, from: Version, limit: usize) -> Vec<StoredEvent> {
        let kept = self.lock();
        let Some(events) = kept.events.get(stream) else { return Vec::new() };
        (0..limit as u64).map_while(|nth| events.get(&from.plus(nth)).cloned()).collect()
    }

    /// The event, if it is cached.
    pub(crate) fn get(&self, stream: &StreamName, version: Version) -> Option<StoredEvent> {
        self.lock().events.get(stream)?.get(&version).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, event: StoredEvent) {
        let (stream, version, bytes) = (event.stream.clone(), event.version, size(&event));
        if self.events.entry(stream.clone()).or_default().insert(version, event).is_none() {
            self.order.push_back((stream, version));
            self.bytes += bytes;
        }
        while self.order.len() > EVENTS || self.bytes > BYTES {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some((stream, version)) = self.order.pop_front() else { return };
        let Some(events) = self.events.get_mut(&stream) else { return };
        if let Some(event) = events.remove(&version) {
            self.bytes -= size(&event);
        }
        if events.is_empty() {
            self.events.remove(&stream);
        }
    }
}

fn size(event: &StoredEvent) -> usize {
    event.payload.as_str().len() + event.metadata.as_str().len()
}
