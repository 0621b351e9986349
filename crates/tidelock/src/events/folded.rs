//! A state, and the version that it is the state of. The two are never apart.

use std::ops::Deref;
use std::sync::Arc;

use tidelock_store::{ExpectedVersion, Position, StoredEvent, StreamName, Timestamp, Version};

use super::aggregate::Aggregate;

/// A state as it was loaded; it is the aggregate's own in all but name.
#[derive(Debug, Clone)]
pub struct Loaded<A> {
    /// The stream that it was folded from.
    pub stream: StreamName,
    /// The state.
    pub state: Arc<A>,
    /// The version that it is the state of; none if there is no stream.
    pub version: Option<Version>,
}

impl<A> Deref for Loaded<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.state
    }
}

/// A state, folded up to a version.
#[derive(Debug, Clone)]
pub(crate) struct Folded<A> {
    /// Shared with whoever has loaded it; copied only if it changes while they still look at it.
    pub(crate) state: Arc<A>,
    pub(crate) version: Option<Version>,
    /// Where the last event is in the feed, and since when.
    pub(crate) last: Option<(Position, Timestamp)>,
    /// Whether any event had personal data in it. Such a state is kept nowhere: not in memory, and
    /// not as a snapshot.
    pub(crate) personal: bool,
}

impl<A: Aggregate> Default for Folded<A> {
    fn default() -> Self {
        Self { state: Arc::default(), version: None, last: None, personal: false }
    }
}

impl<A: Aggregate> Folded<A> {
    /// What an append that was decided on this state expects. A new stream must not be there.
    pub(crate) fn expected(&self) -> ExpectedVersion {
        self.version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact)
    }

    /// The version of the next event.
    pub(crate) fn next(&self) -> Version {
        self.version.map_or(Version::FIRST, |version| version.plus(1))
    }

    /// Takes note of an event that was read.
    pub(crate) fn apply(&mut self, stored: &StoredEvent, event: &A::Event) {
        Arc::make_mut(&mut self.state).apply(event);
        self.version = Some(stored.version);
        self.last = Some((stored.position, stored.recorded_at));
    }

    /// Takes note of events that were appended.
    pub(crate) fn append(&mut self, events: &[A::Event], last: Option<(Position, Timestamp)>) {
        let state = Arc::make_mut(&mut self.state);
        for event in events {
            state.apply(event);
        }
        if let Some(more) = (events.len() as u64).checked_sub(1) {
            self.version = Some(self.next().plus(more));
            self.last = last;
        }
    }

    pub(crate) fn loaded(&self, stream: &StreamName) -> Loaded<A> {
        Loaded { stream: stream.clone(), state: self.state.clone(), version: self.version }
    }
}
