//! Signal inbox of a run: the signals that arrived, in order, and which of them were received.

use std::collections::{HashMap, HashSet, VecDeque};

use tidelock_store::RawJson;

use crate::runs::history::Signalled;

/// The signals of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inbox {
    waiting: VecDeque<Signalled>,
    received: HashMap<String, RawJson>,
    seen: HashSet<String>,
    /// The order of arrival, for the next generation.
    order: Vec<String>,
}

impl Inbox {
    /// Adds a signal, unless it is a duplicate.
    pub(super) fn put(&mut self, signal: Signalled) {
        if self.seen.insert(signal.id.clone()) {
            self.order.push(signal.id.clone());
            self.waiting.push_back(signal);
        }
    }

    pub(super) fn forget(&mut self, id: &str) {
        if self.seen.insert(id.to_owned()) {
            self.order.push(id.to_owned());
        }
    }

    /// The id of the oldest unreceived signal of this name.
    pub(crate) fn next(&self, signal: &str) -> Option<&str> {
        self.waiting
            .iter()
            .find(|waiting| waiting.signal == signal)
            .map(|waiting| waiting.id.as_str())
    }

    /// Marks a signal as received.
    pub(crate) fn receive(&mut self, id: &str) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id)
            && let Some(signal) = self.waiting.remove(at)
        {
            self.received.insert(signal.id, signal.payload);
        }
    }

    /// Takes back that a signal was received: it is in its place again.
    pub(super) fn put_back(&mut self, signal: &str, id: &str) {
        let Some(payload) = self.received.remove(id) else { return };
        let place = |id: &str| self.order.iter().position(|there| there == id);
        let at = self.waiting.partition_point(|there| place(&there.id) < place(id));
        let (signal, id) = (signal.to_owned(), id.to_owned());
        self.waiting.insert(at, Signalled { signal, id, payload });
    }

    /// The payload of a received signal.
    pub(crate) fn payload(&self, id: &str) -> Option<&RawJson> {
        self.received.get(id)
    }

    /// The unreceived signals.
    pub(crate) fn unreceived(&self) -> Vec<Signalled> {
        self.waiting.iter().cloned().collect()
    }

    /// The newest ids that were seen, oldest first.
    pub(crate) fn newest_seen(&self, most: usize) -> Vec<String> {
        let from = self.order.len().saturating_sub(most);
        self.order[from..].to_vec()
    }
}
