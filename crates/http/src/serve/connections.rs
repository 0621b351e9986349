//! The open connections, with LRU eviction of idle ones.
//!
//! A connection is idle while its client has to send the head or body of a request, or has nothing
//! to request. When the limit is reached, the connection that has been idle longest is evicted:
//! idle clients never lock out active ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The open connections within the limit.
#[derive(Debug, Default)]
pub(super) struct Connections {
    slots: Mutex<BTreeMap<u64, Arc<ConnectionSlot>>>,
    next: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    /// When it became idle; `None` while a request is in progress.
    idle_since: Mutex<Option<Instant>>,
    evict: CancellationToken,
}

/// Frees the slot when dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    connections: Arc<Connections>,
    nth: u64,
    /// Whether the connection is within the limit. One that is not is never evicted: that would
    /// make no room.
    pub(super) is_admitted: bool,
    pub(super) slot: Arc<ConnectionSlot>,
}

impl Connections {
    /// Admits a new connection if this limit is not reached, or in place of the connection that has
    /// been idle longest.
    pub(super) fn admit(self: &Arc<Self>, limit: usize) -> ConnectionGuard {
        let slot = Arc::new(ConnectionSlot {
            idle_since: Mutex::new(Some(Instant::now())),
            evict: CancellationToken::new(),
        });
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock();
        let is_admitted = slots.len() < limit || evict_idle(&mut slots);
        if is_admitted {
            slots.insert(nth, slot.clone());
        }
        drop(slots);
        ConnectionGuard { connections: self.clone(), nth, is_admitted, slot }
    }

    /// Evicts the connection that has been idle longest; returns whether there was one.
    pub(super) fn evict_idle(&self) -> bool {
        evict_idle(&mut self.slots.lock())
    }
}

fn evict_idle(slots: &mut BTreeMap<u64, Arc<ConnectionSlot>>) -> bool {
    let idle_since = slots
        .iter()
        .filter_map(|(nth, slot)| Some((slot.idle_since.lock().as_ref().copied()?, *nth)));
    let Some(slot) = idle_since.min().and_then(|(_, nth)| slots.remove(&nth)) else {
        return false;
    };
    slot.evict.cancel();
    true
}

impl ConnectionSlot {
    /// Marks the connection as idle: it waits for its client.
    pub(super) fn set_idle(&self) {
        self.idle_since.lock().get_or_insert_with(Instant::now);
    }

    /// Marks the connection as active.
    pub(super) fn set_active(&self) {
        *self.idle_since.lock() = None;
    }

    /// Resolves when the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evict.cancelled().await;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.slots.lock().remove(&self.nth);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_evicted_and_no_active_one() {
        let connections = Arc::new(Connections::default());
        let seats: Vec<_> = (0..4).map(|_| connections.admit(4)).collect();
        let gone = |nth: usize| seats[nth].slot.evict.is_cancelled();
        tokio::time::advance(Duration::from_secs(1)).await;
        seats[0].slot.set_active();
        seats[1].slot.set_active();
        seats[1].slot.set_idle();
        assert!(connections.evict_idle());
        assert!(
            gone(2) && !gone(0) && !gone(1) && !gone(3),
            "of two with the same time, the first"
        );
        assert!(connections.evict_idle() && gone(3));
        assert!(connections.evict_idle() && gone(1), "it was active in the meantime");
        assert!(!connections.evict_idle() && !gone(0), "it is active");
    }

    #[tokio::test]
    async fn a_closed_connection_is_not_evicted() {
        let connections = Arc::new(Connections::default());
        drop(connections.admit(1));
        assert!(!connections.evict_idle());
    }

    #[tokio::test]
    async fn a_connection_beyond_the_limit_makes_no_room_for_another() {
        let connections = Arc::new(Connections::default());
        let active = connections.admit(1);
        active.slot.set_active();
        let beyond = connections.admit(1);
        beyond.slot.set_idle();
        assert!(!beyond.is_admitted && !connections.admit(1).is_admitted);
        assert!(!connections.evict_idle() && !beyond.slot.evict.is_cancelled());
        drop(active);
        assert!(connections.admit(1).is_admitted, "whether or not the one beyond has ended");
    }
}
