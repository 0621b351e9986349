//! The books of a stream of which nothing is known but its name.
//!
//! Whoever looks after a store can close any stream for good without the program that knows what
//! its events mean. That is all: without a state there is no snapshot, and so such a stream cannot
//! go on from one.

use tidelock_store::{RawJson, Result, StoreError, StreamName};

use super::{Archive, Closing};
use crate::event::{DecodeError, Event, unknown_type};
use crate::events::{Aggregate, AggregateRef};
use crate::handle::Tidelock;

/// An aggregate whose events nobody reads.
#[derive(Debug, Default, Clone, Copy)]
pub struct AnyStream;

/// An event that there never is.
#[derive(Debug, Clone, Copy)]
pub enum NoEvent {}

impl Tidelock {
    /// Goes for the books of any stream, to [`close`](Closing::close) them; see
    /// [`books`](AggregateRef::archive_to) for the archive. The events are not read, so the stream
    /// cannot be restarted.
    pub fn archive_stream_to(
        &self,
        stream: &StreamName,
        archive: impl Archive + 'static,
    ) -> Closing<AnyStream> {
        AggregateRef::of_stream(self.clone(), stream).archive_to(archive)
    }
}

impl Aggregate for AnyStream {
    const KIND: &'static str = "unread";
    type Event = NoEvent;

    fn apply(&mut self, event: &NoEvent) {
        match *event {}
    }
}

impl Event for NoEvent {
    const TYPES: &'static [&'static str] = &[];

    fn event_type(&self) -> &'static str {
        match *self {}
    }

    fn encode(&self) -> Result<RawJson, StoreError> {
        match *self {}
    }

    fn decode(event_type: &str, _: &RawJson) -> Result<Self, DecodeError> {
        Err(unknown_type::<Self>(event_type))
    }
}
