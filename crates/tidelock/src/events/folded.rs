//! A state together with its version.

use std::ops::Deref;
use std::sync::Arc;

use tidelock_store::{Position, StoredEvent, StreamName, Timestamp, Version};

use super::aggregate::Aggregate;

/// A loaded aggregate state. Dereferences to the aggregate.
#[derive(Debug, Clone)]
pub struct Loaded<A> {
    /// The stream it was folded from.
    pub stream: StreamName,
    /// The state.
    pub state: Arc<A>,
    /// The version of the state; `None` if the stream does not exist.
    pub version: Option<Version>,
}

impl<A> Deref for Loaded<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.state
    }
}

/// A state folded up to a version.
#[derive(Debug, Clone)]
pub(crate) struct Folded<A> {
    /// Shared with callers that loaded it; copied on write while they hold it.
    pub(crate) state: Arc<A>,
    pub(crate) version: Option<Version>,
    /// Position and time of the last event.
    pub(crate) last: Option<(Position, Timestamp)>,
    /// Whether any event contained personal data. Such a state is not kept, neither in memory nor
    /// as a snapshot.
    pub(crate) personal: bool,
}

impl<A: Aggregate> Default for Folded<A> {
    fn default() -> Self {
        Self { state: Arc::default(), version: None, last: None, personal: false }
    }
}

impl<A: Aggregate> Folded<A> {
    /// The version of the next event.
    pub(crate) fn next(&self) -> Version {
        self.version.map_or(Version::FIRST, |version| version.plus(1))
    }

    /// Applies an event that was read.
    pub(crate) fn apply(&mut self, stored: &StoredEvent, event: &A::Event) {
        Arc::make_mut(&mut self.state).apply(event);
        self.version = Some(stored.version);
        self.last = Some((stored.position, stored.recorded_at));
    }

    /// Applies events that were appended.
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
