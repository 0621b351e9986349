//! Write queue: group commit of history entries.
//!
//! One commit is in flight at a time; later entries share the next one. Entries without a waiter
//! stay until something else is written, or until the turn ends.

use std::collections::VecDeque;

use tidelock_store::NewEvent;
use tokio::sync::oneshot;

use crate::reactions::HandlerError;
use crate::runs::replay::End;
use crate::staging::Staged;

/// The maximum number of entries per commit; below the store's limit, because a long commit delays
/// its waiters.
const ENTRIES: usize = 500;
/// The maximum size of the entries of one commit, in bytes.
const BYTES: usize = 4 << 20;

/// Pending entries.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<NewEvent>,
    /// The number of the newest entry.
    newest: u64,
    /// Entries up to this number are durable.
    pub(crate) durable: u64,
    /// Entries up to this number have a waiter.
    wanted: u64,
    pub(crate) landings: VecDeque<Box<Landing>>,
}

/// An entry that is committed together with staged writes, or not at all.
#[derive(Debug)]
pub(crate) struct Landing {
    /// Its operation.
    pub(crate) at: usize,
    pub(crate) entry: NewEvent,
    /// The end that the entry records, if any.
    pub(crate) end: Option<End>,
    pub(crate) staged: Staged,
    pub(crate) reply: oneshot::Sender<LandingEnd>,
}

/// The outcome of such a commit.
#[derive(Debug)]
pub(crate) enum LandingEnd {
    /// It is committed.
    Landed,
    /// The step has to run again: its transaction is over, and nothing was written.
    Restage,
    /// A staged write was refused.
    Refused(HandlerError),
}

/// The content of one commit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<NewEvent>,
    /// The number of the last entry.
    pub(crate) newest: u64,
    pub(crate) landing: Option<Box<Landing>>,
}

impl Queue {
    /// Appends an entry and returns its number.
    pub(crate) fn push(&mut self, entry: NewEvent) -> u64 {
        self.entries.push_back(entry);
        self.newest += 1;
        self.newest
    }

    /// A number for an entry that is written with a batch and was never queued.
    fn skip(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Requests that entries up to this number become durable.
    pub(crate) fn want(&mut self, number: u64) {
        self.wanted = self.wanted.max(number);
    }

    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted > self.durable || !self.landings.is_empty()
    }

    /// Whether all entries fit into a commit that ends the turn.
    pub(crate) fn is_short(&self) -> bool {
        self.entries.len() <= ENTRIES && self.bytes() <= BYTES
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.payload.as_str().len()).sum()
    }

    /// Puts entries back that were taken and not written.
    pub(crate) fn put_back(&mut self, entries: &[NewEvent]) {
        entries.iter().rev().for_each(|entry| self.entries.push_front(entry.clone()));
    }

    /// Takes as many entries as one commit holds, oldest first. A commit with staged writes follows
    /// the last entry before it.
    pub(crate) fn take(&mut self) -> Batch {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(entry) = self.entries.pop_front() {
            bytes += entry.payload.as_str().len();
            if entries.len() == ENTRIES || (bytes > BYTES && !entries.is_empty()) {
                self.entries.push_front(entry);
                break;
            }
            entries.push(entry);
        }
        let newest = self.newest - self.entries.len() as u64;
        match self.entries.is_empty().then(|| self.landings.pop_front()).flatten() {
            Some(landing) => Batch { entries, newest: self.skip(), landing: Some(landing) },
            None => Batch { entries, newest, landing: None },
        }
    }
}
