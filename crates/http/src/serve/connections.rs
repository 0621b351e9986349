//! Who is connected, and whom the server waits for.
//!
//! A connection waits for its client while the client has a head or a body of a request to send,
//! and while it has nothing to ask. If there is no room for another connection, the one that has
//! waited longest is let go: whoever asks for something is never turned away by those who ask for
//! nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All connections that are open.
#[derive(Debug, Default)]
pub(super) struct Connections {
    places: Mutex<BTreeMap<u64, Arc<ConnectionSlot>>>,
    next: AtomicU64,
}

/// One of them.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    /// Since when it waits for its client; nothing while there is something to do for it.
    waiting: Mutex<Option<Instant>>,
    let_go: CancellationToken,
}

/// A place that is free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    crowd: Arc<Connections>,
    nth: u64,
    pub(super) place: Arc<ConnectionSlot>,
}

impl Connections {
    /// A place for a connection that was just opened.
    pub(super) fn seat(self: &Arc<Self>) -> ConnectionGuard {
        let place = Arc::new(ConnectionSlot {
            waiting: Mutex::new(Some(Instant::now())),
            let_go: CancellationToken::new(),
        });
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.places).insert(nth, place.clone());
        ConnectionGuard { crowd: self.clone(), nth, place }
    }

    /// Lets go of the connection that has waited for its client longest; says whether there was
    /// one.
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
    /// The client has to send something before anything can be done.
    pub(super) fn waits(&self) {
        lock(&self.waiting).get_or_insert_with(Instant::now);
    }

    /// There is something to do for the client.
    pub(super) fn works(&self) {
        *lock(&self.waiting) = None;
    }

    /// When another connection needs the room.
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
        assert!(gone(2) && !gone(0) && !gone(1) && !gone(3), "of two that came at once, the first");
        assert!(crowd.let_one_go() && gone(3));
        assert!(crowd.let_one_go() && gone(1), "it was worked for meanwhile");
        assert!(!crowd.let_one_go() && !gone(0), "it is worked for");
    }

    #[tokio::test]
    async fn a_connection_that_ended_is_not_let_go() {
        let crowd = Arc::new(Connections::default());
        drop(crowd.seat());
        assert!(!crowd.let_one_go());
    }
}
