//! The log: streams of events, and the feed of all of them.
//!
//! An event is immutable. A stream is named, ordered and only grows, until it is closed and
//! trimmed. The feed is every stream's events in the order in which readers could first see them; a
//! position handed out is final.

mod read;

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

/// An event that is not in the store yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewEvent {
    /// Makes the append safe to repeat.
    pub id: EventId,
    /// What kind of fact it is.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The fact.
    pub payload: RawJson,
    /// What is known about the fact: a JSON object.
    pub metadata: RawJson,
}

impl NewEvent {
    /// An event of this type with this payload, a fresh id and no metadata.
    pub fn new(event_type: EventType, payload: RawJson) -> Self {
        Self { id: EventId::fresh(), event_type, payload, metadata: RawJson::empty_object() }
    }

    /// An event of this type with the JSON of this value, a fresh id and no metadata.
    pub fn of(event_type: &str, payload: &(impl Serialize + ?Sized)) -> Result<Self> {
        Ok(Self::new(EventType::new(event_type)?, RawJson::new(payload)?))
    }

    /// The same event under an id of your own.
    #[must_use]
    pub fn with_id(mut self, id: EventId) -> Self {
        self.id = id;
        self
    }

    /// The same event with this metadata.
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
    /// Its place in the stream.
    pub version: Version,
    /// Its place in the feed.
    pub position: Position,
    /// What kind of fact it is.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The fact.
    pub payload: RawJson,
    /// What is known about the fact.
    pub metadata: RawJson,
    /// When the store took it, by the store's clock.
    pub recorded_at: Timestamp,
}

impl StoredEvent {
    /// Whether this is what that append would have made of it.
    pub(crate) fn is_same_fact(&self, stream: &StreamName, new: &NewEvent) -> bool {
        self.stream == *stream
            && self.event_type == new.event_type
            && self.payload.same_value(&new.payload)
            && self.metadata.same_value(&new.metadata)
    }
}

/// What a stream must be like for an append to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedVersion {
    /// Anything.
    Any,
    /// It does not exist.
    NoStream,
    /// It exists.
    Exists,
    /// It is at exactly this version.
    Exact(Version),
}

/// What a stream is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// It never had an event.
    Absent,
    /// It is at this version and takes appends.
    Open(Version),
    /// It is at this version and refuses every append.
    Closed(Version),
}

impl StreamState {
    /// The version, if there is a stream.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::Absent => None,
            Self::Open(version) | Self::Closed(version) => Some(version),
        }
    }

    /// Whether this is what was expected, closed or not.
    pub fn meets(self, expected: ExpectedVersion) -> bool {
        match expected {
            ExpectedVersion::Any => true,
            ExpectedVersion::NoStream => self == Self::Absent,
            ExpectedVersion::Exists => self != Self::Absent,
            ExpectedVersion::Exact(version) => self.version() == Some(version),
        }
    }
}

/// What becomes of the stream after an append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterAppend {
    /// It takes further appends.
    #[default]
    StayOpen,
    /// A tombstone is put on it: it refuses every append from now on.
    Close,
}

/// A part of a commit: events at the end of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// The stream to append to.
    pub stream: StreamName,
    /// What it must be like.
    pub expected: ExpectedVersion,
    /// What to append. May be empty only when the stream is closed with it.
    pub events: Vec<NewEvent>,
    /// What becomes of the stream.
    pub then: AfterAppend,
}

impl Append {
    /// These events at the end of this stream.
    pub fn new(
        stream: &StreamName,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Self {
        let events = events.into_iter().collect();
        Self { stream: stream.clone(), expected, events, then: AfterAppend::StayOpen }
    }

    /// No events, only the tombstone.
    pub fn closing(stream: &StreamName, expected: ExpectedVersion) -> Self {
        Self::new(stream, expected, []).and_close()
    }

    /// The same append, with the stream closed behind it.
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
