//! Read connections, balanced by load.
//!
//! Queries on one connection are answered in turn. So each query goes to the connection with the
//! fewest queries before it: a slow page, or a connection that does not answer, delays others only
//! if there is no alternative.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::connect::lazy_connection::LazyConnection;

#[derive(Debug)]
pub(crate) struct Readers {
    slots: Vec<ReaderSlot>,
    /// Where the search begins, so that equally loaded connections take turns.
    next: AtomicUsize,
}

#[derive(Debug)]
struct ReaderSlot {
    connection: LazyConnection,
    /// Queries in flight.
    in_flight: AtomicUsize,
}

/// A connection to query; it counts as used until this is dropped.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    slot: &'a ReaderSlot,
}

impl Readers {
    pub(crate) fn new(connections: impl Iterator<Item = LazyConnection>) -> Self {
        let slots = connections
            .map(|connection| ReaderSlot { connection, in_flight: AtomicUsize::new(0) })
            .collect();
        Self { slots, next: AtomicUsize::new(0) }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let (before, from) = self.slots.split_at(first);
        let quickest = from.iter().chain(before).min_by_key(|slot| slot.wait());
        Reader::at(quickest.expect("there is at least one"))
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = &LazyConnection> {
        self.slots.iter().map(|slot| &slot.connection)
    }
}

impl ReaderSlot {
    /// The higher, the longer the wait. Abandoned queries are not counted, but the server still has
    /// to answer them.
    fn wait(&self) -> (bool, usize) {
        (self.connection.is_behind(), self.in_flight.load(Ordering::Relaxed))
    }
}

impl<'a> Reader<'a> {
    fn at(slot: &'a ReaderSlot) -> Self {
        slot.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { slot }
    }
}

impl Deref for Reader<'_> {
    type Target = LazyConnection;

    fn deref(&self) -> &LazyConnection {
        &self.slot.connection
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.slot.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
