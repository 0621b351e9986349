//! Log reads: one stream, the feed of all streams, and stream heads.

use serde::Serialize;

use super::{StoredEvent, StreamState};
use crate::error::{Result, StoreError};
use crate::json::RawJson;
use crate::limits;
use crate::names::{EventType, StreamName, check_prefix};
use crate::numbers::{Position, Version};

/// The direction in which a stream is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// Oldest first.
    #[default]
    Forward,
    /// Newest first.
    Backward,
}

/// A query for a page of one stream.
#[derive(Debug, Clone)]
pub struct StreamQuery {
    /// The stream.
    pub stream: StreamName,
    /// The direction.
    pub direction: Direction,
    /// The first version to return; by default the stream's first or last, depending on the
    /// direction.
    pub from: Option<Version>,
    /// The most events to return.
    pub limit: usize,
}

impl StreamQuery {
    /// Reads the oldest events first.
    pub fn forward(stream: &StreamName) -> Self {
        Self {
            stream: stream.clone(),
            direction: Direction::Forward,
            from: None,
            limit: limits::PAGE_SIZE,
        }
    }

    /// Reads the newest events first.
    pub fn backward(stream: &StreamName) -> Self {
        Self { direction: Direction::Backward, ..Self::forward(stream) }
    }

    /// Starts at this version.
    #[must_use]
    pub fn from(mut self, version: Version) -> Self {
        self.from = Some(version);
        self
    }

    /// Sets the most events to return.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Validates the query.
    pub fn check(&self) -> Result<()> {
        check_page(self.limit)
    }
}

/// A page of one stream, and the stream's state. It may have fewer events than asked for although
/// more follow, but never none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamPage {
    /// The events, in the direction of the query.
    pub events: Vec<StoredEvent>,
    /// The stream's state at the time of the read.
    pub state: StreamState,
    /// The oldest version that was not trimmed, if an event is left.
    pub first: Option<Version>,
    /// Where to continue, if there are more events in this direction.
    pub next: Option<Version>,
}

/// A filter over the feed. Empty parts let everything pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedFilter {
    /// The prefix of the stream's name.
    pub stream_prefix: String,
    /// The accepted event types.
    pub types: Vec<EventType>,
    /// Metadata fields that the event must have, as strings.
    pub metadata: Vec<(String, String)>,
}

impl FeedFilter {
    /// Whether an event with these properties passes.
    pub fn passes(
        &self,
        stream: &str,
        event_type: &str,
        metadata: impl FnOnce() -> RawJson,
    ) -> bool {
        stream.starts_with(&self.stream_prefix)
            && (self.types.is_empty() || self.types.iter().any(|t| t.as_str() == event_type))
            && (self.metadata.is_empty() || self.metadata_passes(&metadata()))
    }

    fn metadata_passes(&self, metadata: &RawJson) -> bool {
        // Parsed once for all fields.
        let Ok(fields) = metadata.to::<serde_json::Value>() else { return false };
        self.metadata
            .iter()
            .all(|(name, value)| fields.get(name).and_then(|f| f.as_str()) == Some(value))
    }
}

/// Where a page of the feed begins.
///
/// Positions are ordered but have gaps. So an earlier place is given as a number of events, and
/// never computed from a position. That number is at most [`FEED_SCAN`](limits::FEED_SCAN), 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedStart {
    /// After this position.
    After(Position),
    /// With the last `n` events up to this position; with the first event of all if there are
    /// fewer.
    Before(Position, usize),
    /// With the last `n` events of all. With 0 it is the end itself: an empty page, whose `next` is
    /// where to continue for new events.
    Last(usize),
}

impl From<Position> for FeedStart {
    fn from(position: Position) -> Self {
        Self::After(position)
    }
}

/// A query for a page of the feed of all streams.
#[derive(Debug, Clone)]
pub struct FeedQuery {
    /// Where the page begins.
    pub from: FeedStart,
    /// The filter.
    pub filter: FeedFilter,
    /// The most events to return.
    pub limit: usize,
}

impl FeedQuery {
    /// Reads the feed after this position.
    pub fn after(position: Position) -> Self {
        Self::from(FeedStart::After(position))
    }

    /// Reads the feed from this start.
    pub fn from(start: FeedStart) -> Self {
        Self { from: start, filter: FeedFilter::default(), limit: limits::PAGE_SIZE }
    }

    /// Reads the end of the feed: no events, and where to continue for new ones.
    pub fn end() -> Self {
        Self::from(FeedStart::Last(0))
    }

    /// Restricts the query to streams whose name begins with `prefix`.
    #[must_use]
    pub fn stream_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.filter.stream_prefix = prefix.into();
        self
    }

    /// Restricts the query to these event types.
    #[must_use]
    pub fn types(mut self, types: impl IntoIterator<Item = EventType>) -> Self {
        self.filter.types = types.into_iter().collect();
        self
    }

    /// Restricts the query to events with this metadata field.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.filter.metadata.push((name.into(), value.into()));
        self
    }

    /// Sets the most events to return.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Whether the query asks only for the end of the feed.
    pub fn is_end(&self) -> bool {
        self.from == FeedStart::Last(0)
    }

    /// Validates the query.
    pub fn check(&self) -> Result<()> {
        check_prefix(&self.filter.stream_prefix, "stream prefix", limits::STREAM_NAME_BYTES)?;
        check_names(self.filter.types.len() + self.filter.metadata.len())?;
        let fields = self.filter.metadata.iter().map(|(name, value)| name.len() + value.len());
        if let Some(bytes) = fields.max().filter(|bytes| *bytes > limits::METADATA_BYTES) {
            let limit = limits::METADATA_BYTES;
            return Err(StoreError::limit(format!(
                "a filter on {bytes} bytes of metadata; the limit is {limit}"
            )));
        }
        self.check_start()?;
        check_page(self.limit)
    }

    fn check_start(&self) -> Result<()> {
        match self.from {
            FeedStart::Before(_, events) | FeedStart::Last(events)
                if events > limits::FEED_SCAN =>
            {
                let limit = limits::FEED_SCAN;
                Err(StoreError::limit(format!("a look {events} events back; the limit is {limit}")))
            }
            _ => Ok(()),
        }
    }
}

/// A page of the feed, and where to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedPage {
    /// The events, by position. May be empty although more follow, when no examined event passed
    /// the filter.
    pub events: Vec<StoredEvent>,
    /// Continue after this position. No new event will ever appear at or before it.
    pub next: Position,
    /// Whether this was the end of the feed at the time of the read.
    pub at_end: bool,
}

/// A query for stream heads.
#[derive(Debug, Clone)]
pub enum HeadQuery {
    /// These streams, in this order.
    Named(Vec<StreamName>),
    /// Streams whose name begins with the prefix, by name.
    Prefix {
        /// The prefix; an empty one matches every name.
        prefix: String,
        /// Only names after this one.
        after: Option<StreamName>,
        /// The most heads to return.
        limit: usize,
    },
}

impl HeadQuery {
    /// Queries the streams whose name begins with `prefix`.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self::Prefix { prefix: prefix.into(), after: None, limit: limits::PAGE_SIZE }
    }

    /// Validates the query.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Named(names) => check_names(names.len()),
            Self::Prefix { prefix, limit, .. } => {
                check_prefix(prefix, "stream prefix", limits::STREAM_NAME_BYTES)?;
                check_page(*limit)
            }
        }
    }
}

/// A summary of a stream without its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// The stream.
    pub stream: StreamName,
    /// Whether it exists, its version, and whether it is closed.
    pub state: StreamState,
    /// How many events can be read: fewer than the version once some were trimmed.
    pub count: u64,
    /// The newest event, if any is left.
    pub last: Option<StoredEvent>,
}

/// A page of heads, and where to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeadPage {
    /// One head per stream. There may be fewer than asked for, or none, although more follow.
    pub heads: Vec<Head>,
    /// Continue after this name, if there are more.
    pub next: Option<StreamName>,
}

pub(crate) fn check_page(limit: usize) -> Result<()> {
    match limit {
        0 => Err(StoreError::invalid("a page of 0 entries was asked for")),
        n if n > limits::PAGE_SIZE => Err(StoreError::limit(format!(
            "a page of {n} entries was asked for; the limit is {}",
            limits::PAGE_SIZE
        ))),
        _ => Ok(()),
    }
}

/// Refuses a call that names too many things.
pub fn check_names(count: usize) -> Result<()> {
    if count > limits::PAGE_SIZE {
        return Err(StoreError::limit(format!(
            "{count} names in one call; the limit is {}",
            limits::PAGE_SIZE
        )));
    }
    Ok(())
}
