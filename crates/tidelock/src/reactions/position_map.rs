//! Position map: translates the feed positions in the state of reactions when a log is moved to
//! another store.
//!
//! Streams, versions, records and items can be copied as they are. Positions cannot, because each
//! store assigns its own. Reactions remember some: their routing cursors, and events without a
//! route. Without a translation they would continue at a wrong position, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use tidelock_store::{
    Item, ItemFilter, ItemRef, Mark, NamePattern, Position, QueueName, RawJson, Record, RecordKey,
    Result, StreamName,
};

use super::router::Cursor;
use super::{Reactions, keys};

/// The position of an event of one store in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedPosition {
    /// The new position of the last event up to the remembered one; the start, if there was none.
    pub position: Position,
    /// Whether that event is the one at the remembered position, and not an earlier one.
    pub exact: bool,
}

/// Maps positions of one store's feed to those of another's.
#[derive(Debug, Clone, Default)]
pub struct PositionMap {
    landmarks: BTreeMap<Position, MappedPosition>,
}

impl Reactions {
    /// Returns every position that reactions remember.
    ///
    /// # Errors
    /// Returns the store's error.
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
    /// Creates a map of these positions.
    pub fn new(landmarks: BTreeMap<Position, MappedPosition>) -> Self {
        Self { landmarks }
    }

    /// Translates a record for the new store.
    ///
    /// # Errors
    /// `Invalid` if the record is not one that reactions write under such a key.
    pub fn record(&self, record: Record) -> Result<Record> {
        if keys::routed_reaction(record.key.as_str()).is_none() {
            return Ok(record);
        }
        let mut cursor: Cursor = record.value.to()?;
        cursor.position = self.of(cursor.position).position;
        cursor.start = self.of(cursor.start).position;
        Ok(Record { value: RawJson::new(&cursor)?, ..record })
    }

    /// Translates an item for the new store; `None` if it stands for an event that was not copied.
    ///
    /// # Errors
    /// Never fails today.
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

    /// An unknown position maps to the start: handling an event twice is better than never.
    fn of(&self, position: Position) -> MappedPosition {
        let start = MappedPosition { position: Position::START, exact: false };
        self.landmarks.get(&position).copied().unwrap_or(start)
    }
}

/// The streams, records and queues that hold the state of reactions. Without all of them, reactions
/// start as new.
#[derive(Debug, Clone, Copy)]
pub struct ReactionStorage;

impl ReactionStorage {
    /// Whether reactions own this stream.
    pub fn owns_stream(stream: &StreamName) -> bool {
        keys::is_own_stream(stream.as_str())
    }

    /// Whether reactions own this record, such as a projection's row.
    pub fn owns_record(key: &RecordKey) -> bool {
        keys::is_own_record(key.as_str())
    }

    /// Whether reactions own this queue.
    pub fn owns_queue(queue: &QueueName) -> bool {
        keys::is_own_queue(queue.as_str())
    }
}
