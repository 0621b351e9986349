//! Outbox: entries on their way to the history, group-committed.
//!
//! One commit is in flight at a time; later entries share the next one. Entries without a waiter
//! stay until something else is written, or until the turn ends.

use std::collections::VecDeque;

use tidelock_store::{NewEvent, Result};

use super::OpId;
use crate::runs::history::Entry;

/// The maximum number of entries per commit; below the store's limit, because a long commit delays
/// its waiters.
const ENTRIES: usize = 500;
/// The maximum size of the entries of one commit, in bytes.
const BYTES: usize = 4 << 20;

/// The form in which entries are written.
pub(crate) trait Encoded: Clone {
    /// Encodes an entry.
    fn encode(entry: &Entry) -> Result<Self>;

    /// Its size.
    fn bytes(&self) -> usize;
}

impl Encoded for NewEvent {
    fn encode(entry: &Entry) -> Result<Self> {
        entry.encode()
    }

    fn bytes(&self) -> usize {
        self.payload.as_str().len()
    }
}

/// Pending entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outbox<T> {
    entries: VecDeque<T>,
    /// The number of the newest entry.
    pub(super) newest: u64,
    /// Entries up to this number are durable.
    pub(super) durable: u64,
    /// Entries up to this number have a waiter.
    wanted: u64,
    /// Entries that are committed together with staged writes.
    landings: VecDeque<Box<Landing<T>>>,
}

/// An entry that is committed together with the writes that its operation staged, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Landing<T> {
    /// Its operation.
    pub(crate) op: OpId,
    pub(crate) entry: T,
    /// The entry before it was encoded.
    pub(super) source: Entry,
    /// Whether something of the operation was recorded before.
    pub(super) was_open: bool,
    /// Its place in the order, once it is in a batch.
    pub(super) mark: Option<usize>,
}

/// The content of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch<T> {
    pub(crate) entries: Vec<T>,
    /// The number of the last entry.
    pub(super) newest: u64,
    pub(crate) landing: Option<Box<Landing<T>>>,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        let (entries, landings) = (VecDeque::new(), VecDeque::new());
        Self { entries, newest: 0, durable: 0, wanted: 0, landings }
    }
}

impl<T: Encoded> Outbox<T> {
    /// Appends an entry and returns its number.
    pub(super) fn push(&mut self, entry: T) -> u64 {
        self.entries.push_back(entry);
        self.newest += 1;
        self.newest
    }

    /// Appends an entry that is committed with staged writes. It gets its number when it is taken.
    pub(super) fn stage(&mut self, op: OpId, entry: T, source: Entry, was_open: bool) {
        let landing = Landing { op, entry, source, was_open, mark: None };
        self.landings.push_back(Box::new(landing));
    }

    /// Removes the staged entries of an operation.
    pub(super) fn unstage(&mut self, op: OpId) {
        self.landings.retain(|landing| landing.op != op);
    }

    /// Requests that entries up to this number become durable.
    pub(super) fn want(&mut self, number: u64) {
        self.wanted = self.wanted.max(number);
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted > self.durable || !self.landings.is_empty()
    }

    /// Whether all entries fit into a commit that ends the turn.
    pub(super) fn is_short(&self) -> bool {
        self.entries.len() <= ENTRIES && self.entries.iter().map(T::bytes).sum::<usize>() <= BYTES
    }

    /// Whether everything was taken.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.landings.is_empty()
    }

    /// Puts entries back that were taken and not written.
    pub(super) fn put_back(&mut self, entries: Vec<T>) {
        entries.into_iter().rev().for_each(|entry| self.entries.push_front(entry));
    }

    /// Takes as many entries as one commit holds, oldest first.
    pub(super) fn take_entries(&mut self) -> Vec<T> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(entry) = self.entries.pop_front() {
            bytes += entry.bytes();
            if entries.len() == ENTRIES || (bytes > BYTES && !entries.is_empty()) {
                self.entries.push_front(entry);
                break;
            }
            entries.push(entry);
        }
        entries
    }

    /// Takes one commit's entries. A staged entry follows the last entry before it.
    pub(super) fn take(&mut self) -> Batch<T> {
        let entries = self.take_entries();
        let landing = self.entries.is_empty().then(|| self.landings.pop_front()).flatten();
        if landing.is_some() {
            self.newest += 1;
        }
        Batch { entries, newest: self.newest - self.entries.len() as u64, landing }
    }
}
