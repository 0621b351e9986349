//! The event log: streams of events, and the feed of all of them.
//!
//! An event is immutable. A stream is named, ordered and append-only, until it is closed and
//! trimmed. The feed holds every stream's events in the order in which readers could first see
//! them. A position handed out is final.

mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{Result, StoreError};
use crate::ids::EventId;
use crate::json::RawJson;
use crate::limits;
use crate::names::{EventType, StreamName};
use crate::numbers::{Position, Version};

pub(crate) use read::check_page;
pub use read::{
    Direction, FeedFilter, FeedPage, FeedQuery, FeedStart, Head, HeadPage, HeadQuery, StreamPage,
    StreamQuery, check_names,
};

/// An event to append.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEvent {
    /// Idempotency key: makes the append safe to repeat. The other parts of the commit are not
    /// covered by it, but by the id of the commit.
    pub id: EventId,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The event's data.
    pub payload: RawJson,
    /// Data about the event: a JSON object.
    pub metadata: RawJson,
}

impl NewEvent {
    /// Creates an event of this type and payload, with a fresh id and no metadata.
    pub fn new(event_type: EventType, payload: RawJson) -> Self {
        Self { id: EventId::fresh(), event_type, payload, metadata: RawJson::empty_object() }
    }

    /// Creates an event of this type from a serializable payload, with a fresh id and no metadata.
    pub fn of(event_type: &str, payload: &(impl Serialize + ?Sized)) -> Result<Self> {
        Ok(Self::new(EventType::new(event_type)?, RawJson::new(payload)?))
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: EventId) -> Self {
        self.id = id;
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: RawJson) -> Self {
        self.metadata = metadata;
        self
    }

    fn check(&self) -> Result<()> {
        self.payload
            .check_size(format_args!("payload of event {}", self.id), limits::PAYLOAD_BYTES)?;
        self.metadata
            .check_size(format_args!("metadata of event {}", self.id), limits::METADATA_BYTES)?;
        if !self.metadata.is_object() {
            return Err(StoreError::invalid(format!(
                "metadata of event {} is not a JSON object",
                self.id
            )));
        }
        Ok(())
    }
}

/// An event in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// Its id, unique in the store.
    pub id: EventId,
    /// The stream it is in.
    pub stream: StreamName,
    /// Its number in the stream.
    pub version: Version,
    /// Its position in the feed.
    pub position: Position,
    /// The type of the event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The event's data.
    pub payload: RawJson,
    /// Data about the event.
    pub metadata: RawJson,
    /// When the store recorded it, by the store's clock.
    pub recorded_at: Timestamp,
}

impl StoredEvent {
    /// Whether that append would have produced this event.
    pub(crate) fn is_same_fact(&self, stream: &StreamName, new: &NewEvent) -> bool {
        self.stream == *stream
            && self.event_type == new.event_type
            && self.payload.same_value(&new.payload)
            && is_same_metadata(&self.metadata, &new.metadata)
    }
}

/// The fields of a W3C trace context in an event's metadata. They say by which request an event was
/// appended, and a retry is another request.
const TRACE_FIELDS: [&str; 2] = ["traceparent", "tracestate"];

/// Whether two events have the same metadata, whichever trace each was appended in.
fn is_same_metadata(one: &RawJson, other: &RawJson) -> bool {
    let untraced = |metadata: &RawJson| {
        let mut fields: BTreeMap<String, RawJson> = metadata.to().ok()?;
        TRACE_FIELDS.iter().for_each(|field| drop(fields.remove(*field)));
        Some(fields)
    };
    let is_same = |one: BTreeMap<String, RawJson>, other: BTreeMap<String, RawJson>| {
        one.len() == other.len()
            && one.iter().zip(&other).all(|((name, value), (other_name, other_value))| {
                name == other_name && value.same_value(other_value)
            })
    };
    one.same_value(other) || untraced(one).zip(untraced(other)).is_some_and(|(a, b)| is_same(a, b))
}

/// Optimistic concurrency: the state in which a stream must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedVersion {
    /// Any state.
    Any,
    /// It does not exist.
    NoStream,
    /// It exists.
    Exists,
    /// It is at this version.
    Exact(Version),
}

/// The state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// It never had an event.
    Absent,
    /// At this version; accepts appends.
    Open(Version),
    /// At this version; refuses every append.
    Closed(Version),
}

impl StreamState {
    /// The version, if the stream exists.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::Absent => None,
            Self::Open(version) | Self::Closed(version) => Some(version),
        }
    }

    /// Whether the state is the expected one, closed or not.
    pub fn meets(self, expected: ExpectedVersion) -> bool {
        match expected {
            ExpectedVersion::Any => true,
            ExpectedVersion::NoStream => self == Self::Absent,
            ExpectedVersion::Exists => self != Self::Absent,
            ExpectedVersion::Exact(version) => self.version() == Some(version),
        }
    }
}

/// What happens to the stream after an append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterAppend {
    /// It accepts further appends.
    #[default]
    StayOpen,
    /// It is closed with a tombstone: it refuses every append from now on.
    Close,
}

/// A part of a commit: events to append to a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// The stream to append to.
    pub stream: StreamName,
    /// The state in which it must be.
    pub expected: ExpectedVersion,
    /// The events. May be empty only when the append closes the stream.
    pub events: Vec<NewEvent>,
    /// What happens to the stream.
    pub then: AfterAppend,
}

impl Append {
    /// Appends these events to this stream.
    pub fn new(
        stream: &StreamName,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Self {
        let events = events.into_iter().collect();
        Self { stream: stream.clone(), expected, events, then: AfterAppend::StayOpen }
    }

    /// Closes the stream without an event.
    pub fn closing(stream: &StreamName, expected: ExpectedVersion) -> Self {
        Self::new(stream, expected, []).and_close()
    }

    /// Closes the stream after the append.
    #[must_use]
    pub fn and_close(mut self) -> Self {
        self.then = AfterAppend::Close;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.events.is_empty() && self.then == AfterAppend::StayOpen {
            return Err(StoreError::invalid(format!(
                "append to stream {:?} has no events",
                self.stream
            )));
        }
        self.events.iter().try_for_each(NewEvent::check)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.events.iter().map(|e| e.payload.as_str().len() + e.metadata.as_str().len()).sum()
    }
}
