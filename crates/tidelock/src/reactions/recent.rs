//! Events that this process has just routed, so that its handlers need not read them again.
//!
//! Events do not change, so a copy is as good as the store's. It is bounded, and whatever is not
//! here is read. But events can be cleared away, by any process, and stay here: a rebuild reads
//! from the store alone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidelock_store::{StoredEvent, StreamName, Version};

/// Events kept at most.
const EVENTS: usize = 20_000;
/// Bytes of JSON kept at most.
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
    /// Keeps these, for as long as there is room.
    pub(crate) fn keep<'a>(&self, events: impl IntoIterator<Item = &'a StoredEvent>) {
        let mut kept = self.lock();
        for event in events {
            kept.add(event.clone());
        }
    }

    /// The events of this stream from this version on, as far as they are here without a gap.
    pub(crate) fn run(&self, stream: &StreamName, from: Version, limit: usize) -> Vec<StoredEvent> {
        let kept = self.lock();
        let Some(events) = kept.events.get(stream) else { return Vec::new() };
        (0..limit as u64).map_while(|nth| events.get(&from.plus(nth)).cloned()).collect()
    }

    /// This event, if it is here.
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
