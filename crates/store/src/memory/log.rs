//! Log reads of the in-memory store.

use std::ops::Bound;
use std::sync::Arc;

use super::state::{State, Stream};
use crate::error::{Result, StoreError};
use crate::limits;
use crate::log::{
    Direction, FeedPage, FeedQuery, FeedStart, Head, HeadPage, HeadQuery, StoredEvent, StreamPage,
    StreamQuery, StreamState,
};
use crate::names::StreamName;
use crate::numbers::{Position, Version};

impl State {
    pub(super) fn read_stream(&self, query: &StreamQuery) -> StreamPage {
        let Some(stream) = self.streams.get(&query.stream) else {
            return StreamPage {
                events: Vec::new(),
                state: StreamState::Absent,
                first: None,
                next: None,
            };
        };
        let mut events: Vec<StoredEvent> = match query.direction {
            Direction::Forward => {
                take(stream.events.iter().skip(stream.skipped(query.from)), query.limit)
            }
            Direction::Backward => {
                let newer = query
                    .from
                    .map_or(0, |from| stream.row.version.get().saturating_sub(from.get()));
                take(
                    stream.events.iter().rev().skip(usize::try_from(newer).unwrap_or(usize::MAX)),
                    query.limit,
                )
            }
        };
        let next =
            (events.len() > query.limit).then(|| events.pop()).flatten().map(|event| event.version);
        StreamPage { events, state: stream.row.state(), first: stream.row.first_left(), next }
    }

    pub(super) fn read_feed(&self, query: &FeedQuery) -> Result<FeedPage> {
        let start = self.start(query.from)?;
        let mut page = FeedPage { events: Vec::new(), next: start, at_end: query.is_end() };
        if page.at_end {
            return Ok(page);
        }
        let after = self.feed.range((Bound::Excluded(start), Bound::Unbounded));
        for (seen, (position, event)) in after.enumerate() {
            if page.events.len() == query.limit || seen == limits::FEED_SCAN {
                return Ok(page);
            }
            page.next = *position;
            if query
                .filter
                .passes(event.stream.as_str(), event.event_type.as_str(), || event.metadata.clone())
            {
                page.events.push(StoredEvent::clone(event));
            }
        }
        page.at_end = true;
        Ok(page)
    }

    /// The position after which a page begins.
    fn start(&self, from: FeedStart) -> Result<Position> {
        let last = self.last_position.unwrap_or(Position::START);
        let (position, back) = match from {
            FeedStart::After(position) => (position, 0),
            FeedStart::Before(position, events) => (position, events),
            FeedStart::Last(events) => (last, events),
        };
        match back {
            _ if position > last => Err(StoreError::rewound(position, last)),
            0 => Ok(position),
            events => Ok(self
                .feed
                .range(..=position)
                .rev()
                .nth(events)
                .map_or(Position::START, |(p, _)| *p)),
        }
    }

    pub(super) fn heads(&self, query: HeadQuery) -> HeadPage {
        match query {
            HeadQuery::Named(names) => {
                let heads = names.into_iter().map(|name| self.head(name)).collect();
                HeadPage { heads, next: None }
            }
            HeadQuery::Prefix { prefix, after, limit } => {
                let from = match &after {
                    Some(name) if name.as_str() >= prefix.as_str() => {
                        Bound::Excluded(name.as_str())
                    }
                    _ => Bound::Included(prefix.as_str()),
                };
                let names =
                    self.streams.range::<str, _>((from, Bound::Unbounded)).map(|(name, _)| name);
                let mut names = names.take_while(|name| name.as_str().starts_with(&prefix));
                let heads: Vec<Head> =
                    names.by_ref().take(limit).map(|name| self.head(name.clone())).collect();
                let next = names.next().and(heads.last()).map(|head| head.stream.clone());
                HeadPage { heads, next }
            }
        }
    }

    fn head(&self, name: StreamName) -> Head {
        match self.streams.get(&name) {
            None => Head { stream: name, state: StreamState::Absent, count: 0, last: None },
            Some(stream) => Head {
                stream: name,
                state: stream.row.state(),
                count: stream.row.count(),
                last: stream.events.back().map(|event| StoredEvent::clone(event)),
            },
        }
    }
}

impl Stream {
    /// The number of remaining events before this version.
    fn skipped(&self, from: Option<Version>) -> usize {
        let before = from.map_or(0, |from| from.get().saturating_sub(self.row.first.get()));
        usize::try_from(before).unwrap_or(usize::MAX)
    }
}

/// Takes one more than the limit, to know whether there is more.
fn take<'a>(events: impl Iterator<Item = &'a Arc<StoredEvent>>, limit: usize) -> Vec<StoredEvent> {
    events.take(limit + 1).map(|event| StoredEvent::clone(event)).collect()
}
