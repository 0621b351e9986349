//! Entries on their way to the store.
//!
//! One commit at a time is under way; whatever comes meanwhile shares the next one. Entries that
//! nothing waits for stay until something else is written, or until the turn ends.

use std::collections::VecDeque;

use tidelock_store::NewEvent;
use tokio::sync::oneshot;

use crate::reactions::HandlerError;
use crate::runs::replay::End;
use crate::staging::Staged;

/// Entries in one commit; a commit takes more, but a long one holds back those that wait for it.
const ENTRIES: usize = 500;
/// Bytes of entries in one commit.
const BYTES: usize = 4 << 20;

/// What is to be written.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<NewEvent>,
    /// The number of the newest entry.
    newest: u64,
    /// Entries up to this number are in the store.
    pub(crate) durable: u64,
    /// Somebody waits for entries up to this number.
    wanted: u64,
    pub(crate) landings: VecDeque<Box<Landing>>,
}

/// An entry that lands with other parts of a commit, or not at all.
#[derive(Debug)]
pub(crate) struct Landing {
    /// Whose.
    pub(crate) at: usize,
    pub(crate) entry: NewEvent,
    /// The end that the entry is, if it is one.
    pub(crate) end: Option<End>,
    pub(crate) staged: Staged,
    pub(crate) reply: oneshot::Sender<LandingEnd>,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum LandingEnd {
    /// It is there.
    Landed,
    /// It has to be made anew: its transaction is over, and nothing of it was written.
    Anew,
    /// A part of it did not hold.
    Refused(HandlerError),
}

/// What is written in one commit.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<NewEvent>,
    /// The number of the last of them.
    pub(crate) newest: u64,
    pub(crate) landing: Option<Box<Landing>>,
}

impl Queue {
    /// At the end of what is to be written; gives its number.
    pub(crate) fn push(&mut self, entry: NewEvent) -> u64 {
        self.entries.push_back(entry);
        self.newest += 1;
        self.newest
    }

    /// A number for an entry that is written with a batch and was never in the queue.
    fn skip(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Everything up to this number is waited for.
    pub(crate) fn want(&mut self, number: u64) {
        self.wanted = self.wanted.max(number);
    }

    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted > self.durable || !self.landings.is_empty()
    }

    /// Whether a commit that ends a turn has room for all of it.
    pub(crate) fn is_short(&self) -> bool {
        self.entries.len() <= ENTRIES && self.bytes() <= BYTES
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.payload.as_str().len()).sum()
    }

    /// These were taken, and not written.
    pub(crate) fn put_back(&mut self, entries: &[NewEvent]) {
        entries.iter().rev().for_each(|entry| self.entries.push_front(entry.clone()));
    }

    /// As much as one commit takes, oldest first. A landing goes with the last of what came before
    /// it.
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
