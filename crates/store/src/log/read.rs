//! Reading the log: a stream, the feed of all streams, and heads.

use serde::Serialize;

use super::{StoredEvent, StreamState};
use crate::error::{Result, StoreError};
use crate::json::RawJson;
use crate::limits;
use crate::names::{EventType, StreamName, check_prefix};
use crate::numbers::{Position, Version};

/// Which way a stream is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// From older to newer.
    #[default]
    Forward,
    /// From newer to older.
    Backward,
}

/// A page of one stream.
#[derive(Debug, Clone)]
pub struct StreamQuery {
    /// The stream.
    pub stream: StreamName,
    /// Which way.
    pub direction: Direction,
    /// The first version to return; the stream's first or last, by the direction, if there is none.
    pub from: Option<Version>,
    /// How many events at most.
    pub limit: usize,
}

impl StreamQuery {
    /// The oldest events.
    pub fn forward(stream: &StreamName) -> Self {
        Self {
            stream: stream.clone(),
            direction: Direction::Forward,
            from: None,
            limit: limits::PAGE_SIZE,
        }
    }

    /// The newest events, newest first.
    pub fn backward(stream: &StreamName) -> Self {
        Self { direction: Direction::Backward, ..Self::forward(stream) }
    }

    /// The same, beginning with this version.
    #[must_use]
    pub fn from(mut self, version: Version) -> Self {
        self.from = Some(version);
        self
    }

    /// The same, with at most this many events.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Refuses what no store should be asked.
    pub fn check(&self) -> Result<()> {
        check_page(self.limit)
    }
}

/// Events of one stream, and what the stream is like. May be fewer than asked for though more
/// follow, but never none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamPage {
    /// The events, in the direction that was asked for.
    pub events: Vec<StoredEvent>,
    /// The stream when they were read.
    pub state: StreamState,
    /// The oldest version that was not trimmed away, if any event is left.
    pub first: Option<Version>,
    /// Where to go on, if there is more that way.
    pub next: Option<Version>,
}

/// Which events of the feed to return. Empty lists let everything through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedFilter {
    /// Streams whose name begins with this.
    pub stream_prefix: String,
    /// Events of one of these types.
    pub types: Vec<EventType>,
    /// Events whose metadata has all of these fields, as strings.
    pub metadata: Vec<(String, String)>,
}

impl FeedFilter {
    /// Whether an event with these features passes.
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
        // Parsed once, however many fields are asked for.
        let Ok(fields) = metadata.to::<serde_json::Value>() else { return false };
        self.metadata
            .iter()
            .all(|(name, value)| fields.get(name).and_then(|f| f.as_str()) == Some(value))
    }
}

/// Where a page of the feed begins.
///
/// Positions are in order but not without gaps, so a place further back is asked for by a number of
/// events, and never computed from a position. That number is at most
/// [`FEED_SCAN`](limits::FEED_SCAN), 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedStart {
    /// Behind this position.
    After(Position),
    /// With the last so many of the events up to this position; with the first event of all, if
    /// there are fewer.
    Before(Position, usize),
    /// With the last so many events of all. With 0 it is the end itself: an empty page, whose
    /// `next` is where to read on for what is appended from now on.
    Last(usize),
}

impl From<Position> for FeedStart {
    fn from(position: Position) -> Self {
        Self::After(position)
    }
}

/// A page of the feed of all streams.
#[derive(Debug, Clone)]
pub struct FeedQuery {
    /// Where it begins.
    pub from: FeedStart,
    /// Which of them.
    pub filter: FeedFilter,
    /// How many events at most.
    pub limit: usize,
}

impl FeedQuery {
    /// The feed after this position.
    pub fn after(position: Position) -> Self {
        Self::from(FeedStart::After(position))
    }

    /// The feed from here on.
    pub fn from(start: FeedStart) -> Self {
        Self { from: start, filter: FeedFilter::default(), limit: limits::PAGE_SIZE }
    }

    /// The end of the feed: no events, and where to read on for what comes.
    pub fn end() -> Self {
        Self::from(FeedStart::Last(0))
    }

    /// The same, of streams whose name begins with this.
    #[must_use]
    pub fn stream_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.filter.stream_prefix = prefix.into();
        self
    }

    /// The same, of these types.
    #[must_use]
    pub fn types(mut self, types: impl IntoIterator<Item = EventType>) -> Self {
        self.filter.types = types.into_iter().collect();
        self
    }

    /// The same, with this field in their metadata.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.filter.metadata.push((name.into(), value.into()));
        self
    }

    /// The same, with at most this many events.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Whether nothing but the end of the feed is asked for.
    pub fn is_end(&self) -> bool {
        self.from == FeedStart::Last(0)
    }

    /// Refuses what no store should be asked.
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

/// Events of the feed, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedPage {
    /// The events, by position. May be empty though more follow, when none of those looked at
    /// passed the filter.
    pub events: Vec<StoredEvent>,
    /// Read on after this. Nothing will ever appear at or before it that is not there now.
    pub next: Position,
    /// Whether the feed ended here when it was read.
    pub at_end: bool,
}

/// Which streams to tell about.
#[derive(Debug, Clone)]
pub enum HeadQuery {
    /// These, in this order.
    Named(Vec<StreamName>),
    /// Those whose name begins with the prefix, by name.
    Prefix {
        /// What their names begin with; everything begins with nothing.
        prefix: String,
        /// Only names after this one.
        after: Option<StreamName>,
        /// How many at most.
        limit: usize,
    },
}

impl HeadQuery {
    /// All streams whose name begins with this, a page of them.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self::Prefix { prefix: prefix.into(), after: None, limit: limits::PAGE_SIZE }
    }

    /// Refuses what no store should be asked.
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

/// What there is to know of a stream without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// The stream.
    pub stream: StreamName,
    /// Whether it exists, its version, and whether it is closed.
    pub state: StreamState,
    /// How many events are there to be read: fewer than the version says once some were trimmed.
    pub count: u64,
    /// The newest event, if any is left.
    pub last: Option<StoredEvent>,
}

/// Heads, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeadPage {
    /// One for each stream. May be fewer than asked for, or none, though more follow.
    pub heads: Vec<Head>,
    /// Read on after this name, if there is more.
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
