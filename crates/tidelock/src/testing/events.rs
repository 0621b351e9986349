//! The events of a stream, or of all streams, to assert on.

use std::fmt::Debug;

use tidelock_store::{FeedQuery, MemoryStore, Position, StoreExt, StoredEvent, StreamName};

use super::compare::{assert_same, names};
use super::finish;
use crate::event::Event;
use crate::events::IntoEvents;
use crate::reactions::is_reserved;
use crate::recorded::Recorded;

/// The events of a stream, or of all streams, as they were when this was read.
#[derive(Debug, Clone)]
pub struct TestEvents {
    what: String,
    store: MemoryStore,
    events: Vec<StoredEvent>,
}

impl TestEvents {
    #[track_caller]
    pub(super) fn of_stream(store: &MemoryStore, stream: &str) -> Self {
        let name = StreamName::new(stream).expect("the name of a stream");
        let events = finish(store.read_whole_stream(&name)).expect("a store in memory is readable");
        Self { what: format!("events of stream {stream:?}"), store: store.clone(), events }
    }

    pub(super) fn of_all_streams(store: &MemoryStore) -> Self {
        let feed = finish(store.rows(FeedQuery::after(Position::START)).all());
        let mut events = feed.expect("a store in memory is readable");
        events.retain(|event| !is_reserved(event.stream.as_str()));
        Self { what: "events of all streams".into(), store: store.clone(), events }
    }

    /// Returns the types, in order.
    pub fn types(&self) -> Vec<String> {
        names(self.events.iter().map(|event| event.event_type.as_str()))
    }

    /// Returns the stored events, with their metadata.
    pub fn stored(&self) -> &[StoredEvent] {
        &self.events
    }

    /// Returns the decoded events.
    ///
    /// # Panics
    /// If one of them is not an `E`.
    #[track_caller]
    pub fn decoded<E: Event>(&self) -> Vec<Recorded<E>> {
        finish(Recorded::read(&self.store, self.events.clone()))
            .unwrap_or_else(|error| panic!("{}: {error}", self.what))
    }

    /// Asserts that there are exactly events of these types, in this order.
    ///
    /// # Panics
    /// If there are others.
    #[track_caller]
    pub fn assert_types<'a>(&self, expected: impl IntoIterator<Item = &'a str>) -> &Self {
        assert_same(&self.what, &names(expected), &self.types());
        self
    }

    /// Asserts that there are exactly these events, in this order.
    ///
    /// # Panics
    /// If there are others, or one of them is not an `E`.
    #[track_caller]
    pub fn assert_eq<E: Event + Debug>(&self, expected: impl IntoEvents<E>) -> &Self {
        let expected: Vec<_> = expected.into_events().iter().map(|e| format!("{e:?}")).collect();
        let found: Vec<_> =
            self.decoded::<E>().iter().map(|recorded| format!("{:?}", recorded.event)).collect();
        assert_same(&self.what, &expected, &found);
        self
    }

    /// Asserts that there are none.
    ///
    /// # Panics
    /// If there are some.
    #[track_caller]
    pub fn assert_none(&self) {
        assert_same(&self.what, &[], &self.types());
    }
}
