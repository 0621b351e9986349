//! Recent events, kept so that a conflicting decision can be rebased instead of run again.

use std::collections::VecDeque;
use std::sync::Arc;

use tidelock_store::Version;

use super::aggregate::Aggregate;
use super::cached_stream::CachedStream;
use crate::group_commit::Entry;

/// Number of event lists kept. A decision that missed more runs again.
const LISTS: usize = 64;

/// Events committed recently, kept while a decision is in flight.
pub(super) struct Recent<E> {
    /// Number of decisions in flight.
    in_flight: usize,
    /// Each list with the version of its first event, in order.
    lists: VecDeque<(Version, Arc<[E]>)>,
}

/// Decided events that are not committed yet, and the version they were decided on.
pub(crate) struct PendingDecision<A: Aggregate> {
    entry: Arc<Entry<CachedStream<A>>>,
    pub(crate) events: Arc<[A::Event]>,
    /// The store's version at the time of the decision. Events pending at that time may have been
    /// committed at other versions, or not at all.
    known: Option<Version>,
}

impl<E> Default for Recent<E> {
    fn default() -> Self {
        Self { in_flight: 0, lists: VecDeque::new() }
    }
}

impl<E> Recent<E> {
    /// Records events of other writers.
    pub(super) fn record_theirs(&mut self, first: Version, events: Vec<E>) {
        if self.in_flight > 0 && !events.is_empty() {
            self.push(first, events.into());
        }
    }

    /// Records events of this process.
    pub(super) fn record_ours(&mut self, first: Version, events: &Arc<[E]>) {
        if self.in_flight > 0 {
            self.push(first, events.clone());
        }
    }

    pub(super) fn clear(&mut self) {
        self.lists.clear();
    }

    fn push(&mut self, first: Version, events: Arc<[E]>) {
        let follows =
            self.lists.back().is_none_or(|(at, list)| at.plus(list.len() as u64) == first);
        if !follows || self.lists.len() == LISTS {
            self.lists.clear();
        }
        self.lists.push_back((first, events));
    }

    /// Returns all events between two versions, if they are still kept.
    fn between(&self, from: Version, end: Version) -> Option<impl Iterator<Item = &E>> {
        let begin = self.lists.front().map(|(first, _)| *first);
        let last = self.lists.back().map(|(first, list)| first.plus(list.len() as u64));
        let known = from == end || (begin.is_some_and(|first| first <= from) && last == Some(end));
        let skipped = begin.map_or(0, |first| from.get().saturating_sub(first.get()));
        let all = self.lists.iter().flat_map(|(_, list)| list.iter());
        known.then(|| all.skip(usize::try_from(skipped).unwrap_or(usize::MAX)))
    }
}

impl<A: Aggregate> PendingDecision<A> {
    /// Starts tracking decided events, so that they can be rebased after a conflict.
    pub(crate) fn new(
        entry: Arc<Entry<CachedStream<A>>>,
        events: Arc<[A::Event]>,
        known: Option<Version>,
    ) -> Self {
        entry.with(|stream| stream.recent.in_flight += 1);
        Self { entry, events, known }
    }

    /// Whether the decision is still valid: every event of it commutes with every event since,
    /// committed or pending. A decision without events is valid if nothing was appended.
    pub(crate) fn is_valid(&self) -> bool {
        self.entry.with(|stream| self.commutes(stream).unwrap_or(false))
    }

    /// Returns `None` if the events since are not known.
    fn commutes(&self, stream: &CachedStream<A>) -> Option<bool> {
        let next = stream.base.as_ref()?.next();
        if self.events.is_empty() {
            return Some(stream.version() == self.known);
        }
        let from = self.known.map_or(Version::FIRST, |version| version.plus(1));
        if next < from {
            return None;
        }
        let committed = stream.recent.between(from, next)?;
        let pending = stream.pending.iter().flat_map(|events| events.iter());
        let mut missed = committed.chain(pending);
        Some(missed.all(|theirs| self.events.iter().all(|ours| A::commutes(ours, theirs))))
    }
}

impl<A: Aggregate> Drop for PendingDecision<A> {
    fn drop(&mut self) {
        self.entry.with(|stream| {
            stream.recent.in_flight -= 1;
            if stream.recent.in_flight == 0 {
                stream.recent.clear();
            }
        });
    }
}
