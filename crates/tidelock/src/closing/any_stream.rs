//! Closing a stream of unknown type.
//!
//! Operators can close any stream permanently without the program that knows its events. Without a
//! state there is no snapshot, so such a stream cannot be restarted.

use tidelock_store::{RawJson, Result, StoreError, StreamName};

use super::{Archive, Closing};
use crate::event::{DecodeError, Event, unknown_type};
use crate::events::{Aggregate, AggregateRef};
use crate::handle::Tidelock;

/// An aggregate whose events are not decoded.
#[derive(Debug, Default, Clone, Copy)]
pub struct AnyStream;

/// An event type without values.
#[derive(Debug, Clone, Copy)]
pub enum NoEvent {}

impl Tidelock {
    /// Starts closing any stream by name, for [`close`](Closing::close); see
    /// [`AggregateRef::archive_to`] for the archive.
    ///
    /// The events are not decoded, so the stream cannot be restarted.
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
