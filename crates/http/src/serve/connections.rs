//! The open connections, with LRU eviction of idle ones.
//!
//! A connection is idle while its client has to send the head or body of a request, or has nothing
//! to request. When the limit is reached, the connection that has been idle longest is evicted:
//! idle clients never lock out active ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All open connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    places: Mutex<BTreeMap<u64, Arc<ConnectionSlot>>>,
    next: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    /// When it became idle; `None` while a request is in progress.
    waiting: Mutex<Option<Instant>>,
    let_go: CancellationToken,
}

/// Frees the slot when dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    crowd: Arc<Connections>,
    nth: u64,
    pub(super) place: Arc<ConnectionSlot>,
}

impl Connections {
    /// Adds a new connection.
    pub(super) fn seat(self: &Arc<Self>) -> ConnectionGuard {
        let place = Arc::new(ConnectionSlot {
            waiting: Mutex::new(Some(Instant::now())),
            let_go: CancellationToken::new(),
        });
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.places).insert(nth, place.clone());
        ConnectionGuard { crowd: self.clone(), nth, place }
    }

    /// Evicts the connection that has been idle longest; returns whether there was one.
    pub(super) fn let_one_go(&self) -> bool {
        let mut places = lock(&self.places);
        let waiting = places
            .iter()
            .filter_map(|(nth, place)| Some((lock(&place.waiting).as_ref().copied()?, *nth)));
        let Some(place) = waiting.min().and_then(|(_, nth)| places.remove(&nth)) else {
            return false;
        };
        place.let_go.cancel();
        true
    }
}

impl ConnectionSlot {
    /// Marks the connection as idle: it waits for its client.
    pub(super) fn waits(&self) {
        lock(&self.waiting).get_or_insert_with(Instant::now);
    }

    /// Marks the connection as active.
    pub(super) fn works(&self) {
        *lock(&self.waiting) = None;
    }

    /// Resolves when the connection is evicted.
    pub(super) async fn is_let_go(&self) {
        self.let_go.cancelled().await;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        lock(&self.crowd.places).remove(&self.nth);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_has_waited_longest_goes_and_nobody_who_is_worked_for() {
        let crowd = Arc::new(Connections::default());
        let seats: Vec<_> = (0..4).map(|_| crowd.seat()).collect();
        let gone = |nth: usize| seats[nth].place.let_go.is_cancelled();
        tokio::time::advance(Duration::from_secs(1)).await;
        seats[0].place.works();
        seats[1].place.works();
        seats[1].place.waits();
        assert!(crowd.let_one_go());
        assert!(
            gone(2) && !gone(0) && !gone(1) && !gone(3),
            "of two with the same time, the first"
        );
        assert!(crowd.let_one_go() && gone(3));
        assert!(crowd.let_one_go() && gone(1), "it was active in the meantime");
        assert!(!crowd.let_one_go() && !gone(0), "it is active");
    }

    #[tokio::test]
    async fn a_connection_that_ended_is_not_let_go() {
        let crowd = Arc::new(Connections::default());
        drop(crowd.seat());
        assert!(!crowd.let_one_go());
    }
}
