//! What of a reaction hangs on the places of events in the feed, for whoever moves a log to another
//! store.
//!
//! Streams, versions, records and items can be copied as they are; positions cannot, because each
//! store gives out its own. Reactions remember some: how far events are routed, and which of them
//! have no route yet. Without a translation they would go on at a wrong place, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use tidelock_store::{
    Item, ItemFilter, ItemRef, Mark, NamePattern, Position, QueueName, RawJson, Record, RecordKey,
    Result, StreamName,
};

use super::router::Cursor;
use super::{Reactions, keys};

/// Where an event of one store lies in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedPosition {
    /// The position, in the new store, of the last event up to the place that was remembered; the
    /// start, if there was none.
    pub position: Position,
    /// Whether that event is the one at that place, and not an earlier one.
    pub exact: bool,
}

/// From places in one store's feed to those in another's.
#[derive(Debug, Clone, Default)]
pub struct PositionMap {
    landmarks: BTreeMap<Position, MappedPosition>,
}

impl Reactions {
    /// Every position that reactions remember.
    ///
    /// # Errors
    /// What the store says.
    pub async fn remembered(&self) -> Result<BTreeSet<Position>> {
        let mut positions = BTreeSet::new();
        for (_, cursor) in self.cursors().await? {
            positions.extend([cursor.position, cursor.start]);
        }
        let unrouted = ItemFilter {
            queue: NamePattern::like(keys::queues()),
            key: NamePattern::like(keys::unrouted_items()),
            ..ItemFilter::default()
        };
        let items = self.all(unrouted).await?;
        positions.extend(items.iter().filter_map(|item| keys::unrouted_position(&item.item.key)));
        Ok(positions)
    }
}

impl PositionMap {
    /// With these places known.
    pub fn new(landmarks: BTreeMap<Position, MappedPosition>) -> Self {
        Self { landmarks }
    }

    /// The record as it must be in the new store.
    ///
    /// # Errors
    /// `Invalid` if it is not what reactions keep under such a key.
    pub fn record(&self, record: Record) -> Result<Record> {
        if keys::routed_reaction(record.key.as_str()).is_none() {
            return Ok(record);
        }
        let mut cursor: Cursor = record.value.to()?;
        cursor.position = self.of(cursor.position).position;
        cursor.start = self.of(cursor.start).position;
        Ok(Record { value: RawJson::new(&cursor)?, ..record })
    }

    /// The item as it must be in the new store; nothing if it stands for an event that is not there
    /// any more.
    ///
    /// # Errors
    /// None today.
    pub fn item(&self, item: Item) -> Result<Option<Item>> {
        let Some(position) = keys::unrouted_position(&item.item.key) else { return Ok(Some(item)) };
        let landmark = self.of(position);
        if !landmark.exact {
            return Ok(None);
        }
        let mark = Mark::from(landmark.position);
        let at = if item.at < item.mark { Mark::ZERO } else { mark };
        let key = keys::unrouted(landmark.position);
        Ok(Some(Item { item: ItemRef { key, queue: item.item.queue.clone() }, at, mark, ..item }))
    }

    /// A place that nobody remembered is before everything: what is done twice is better than what
    /// is never done.
    fn of(&self, position: Position) -> MappedPosition {
        let start = MappedPosition { position: Position::START, exact: false };
        self.landmarks.get(&position).copied().unwrap_or(start)
    }
}

/// Whether a stream, a record or a queue is kept by reactions: without all of these they begin as
/// if they were new.
#[derive(Debug, Clone, Copy)]
pub struct KeptByReactions;

impl KeptByReactions {
    /// Whether this stream is.
    pub fn stream(self, stream: &StreamName) -> bool {
        keys::is_own_stream(stream.as_str())
    }

    /// Whether this record is; a projection's row is.
    pub fn record(self, key: &RecordKey) -> bool {
        keys::is_own_record(key.as_str())
    }

    /// Whether this queue is.
    pub fn queue(self, queue: &QueueName) -> bool {
        keys::is_own_queue(queue.as_str())
    }
}
