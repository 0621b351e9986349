//! Conveniences over the contract, for every store.

use async_trait::async_trait;

use crate::commit::{Commit, CommitOutcome};
use crate::error::Result;
use crate::json::Json;
use crate::leases::{Item, ItemFilter, ItemQuery, ItemRef, NamePattern};
use crate::log::{Event, ExpectedVersion, FeedQuery, NewEvent, StreamQuery};
use crate::marks::Position;
use crate::names::{RecordKey, StreamName};
use crate::records::{ExpectedRevision, Slot, Write};
use crate::store::Store;

/// What is common enough to deserve a shorter way.
#[async_trait]
pub trait StoreExt: Store {
    /// Commits events to one stream and nothing else.
    async fn append(
        &self,
        stream: &StreamName,
        expected: ExpectedVersion,
        events: Vec<NewEvent>,
    ) -> Result<CommitOutcome> {
        self.commit(Commit::new().append(stream, expected, events)).await
    }

    /// Commits one record and nothing else.
    async fn put(&self, key: &RecordKey, expected: ExpectedRevision, value: Json) -> Result<CommitOutcome> {
        self.commit(Commit::new().write(Write::put(key, expected, value))).await
    }

    /// What is under one key.
    async fn get_one(&self, key: &RecordKey) -> Result<Slot> {
        let mut slots = self.get(std::slice::from_ref(key)).await?;
        Ok(slots.pop().expect("one key gives one slot"))
    }

    /// One work item, as it stands.
    async fn item(&self, item: &ItemRef) -> Result<Option<Item>> {
        let filter = ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str()));
        Ok(self.items(ItemQuery::new(filter)).await?.items.pop())
    }

    /// Where the feed ends: everything that is appended from now on comes after it (LOG-11).
    async fn feed_end(&self) -> Result<Position> {
        Ok(self.read_feed(FeedQuery::end()).await?.next)
    }

    /// All events of a stream, page after page.
    async fn read_whole_stream(&self, stream: &StreamName) -> Result<Vec<Event>> {
        let mut page = self.read_stream(StreamQuery::forward(stream)).await?;
        let mut events = page.events;
        while let Some(next) = page.next {
            page = self.read_stream(StreamQuery::forward(stream).from(next)).await?;
            events.append(&mut page.events);
        }
        Ok(events)
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
