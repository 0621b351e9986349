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

/// All open connections.
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
    pub(super) slot: Arc<ConnectionSlot>,
}

impl Connections {
    /// Adds a new connection.
    pub(super) fn guard(self: &Arc<Self>) -> ConnectionGuard {
        let slot = Arc::new(ConnectionSlot {
            idle_since: Mutex::new(Some(Instant::now())),
            evict: CancellationToken::new(),
        });
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        self.slots.lock().insert(nth, slot.clone());
        ConnectionGuard { connections: self.clone(), nth, slot }
    }

    /// Evicts the connection that has been idle longest; returns whether there was one.
    pub(super) fn evict_idle(&self) -> bool {
        let mut slots = self.slots.lock();
        let idle_since = slots
            .iter()
            .filter_map(|(nth, slot)| Some((slot.idle_since.lock().as_ref().copied()?, *nth)));
        let Some(slot) = idle_since.min().and_then(|(_, nth)| slots.remove(&nth)) else {
            return false;
        };
        slot.evict.cancel();
        true
    }
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
        let seats: Vec<_> = (0..4).map(|_| connections.guard()).collect();
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
        drop(connections.guard());
        assert!(!connections.evict_idle());
    }
}
