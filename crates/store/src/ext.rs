//! Extension methods over the contract, for every store.

use async_trait::async_trait;

use crate::commit::{Commit, CommitOutcome};
use crate::error::Result;
use crate::json::RawJson;
use crate::leases::{Item, ItemFilter, ItemQuery, ItemRef, NamePattern};
use crate::log::{ExpectedVersion, FeedQuery, Head, HeadQuery, NewEvent, StoredEvent, StreamQuery};
use crate::names::{RecordKey, StreamName};
use crate::numbers::{Position, Version};
use crate::records::{ExpectedRevision, RecordWrite, Slot};
use crate::rows::{Paged, Rows, full_page};
use crate::store::Store;

/// Shorter forms of common calls.
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
    async fn put(
        &self,
        key: &RecordKey,
        expected: ExpectedRevision,
        value: RawJson,
    ) -> Result<CommitOutcome> {
        self.commit(Commit::new().write(RecordWrite::put(key, expected, value))).await
    }

    /// Reads one record.
    async fn get_one(&self, key: &RecordKey) -> Result<Slot> {
        let mut slots = self.get(std::slice::from_ref(key)).await?;
        Ok(slots.pop().expect("one key gives one slot"))
    }

    /// Reads one work item by its name (READ-1).
    async fn item(&self, item: &ItemRef) -> Result<Option<Item>> {
        let filter = ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str()));
        Ok(self.items(ItemQuery::new(filter)).await?.items.pop())
    }

    /// The end of the feed: everything appended from now on comes after it (LOG-11).
    async fn feed_end(&self) -> Result<Position> {
        Ok(self.read_feed(FeedQuery::end()).await?.next)
    }

    /// Reads a stream's state, count and last event without its other events.
    async fn head(&self, stream: &StreamName) -> Result<Head> {
        let mut page = self.heads(HeadQuery::Named(vec![stream.clone()])).await?;
        Ok(page.heads.pop().expect("one name gives one head"))
    }

    /// Reads the event at this version of a stream; none if it does not exist or was trimmed.
    async fn event(&self, stream: &StreamName, version: Version) -> Result<Option<StoredEvent>> {
        let page = self.read_stream(StreamQuery::forward(stream).from(version).limit(1)).await?;
        Ok(page.events.into_iter().find(|event| event.version == version))
    }

    /// Reads the event at this position of the feed; none if it does not exist or was trimmed.
    async fn event_at(&self, position: Position) -> Result<Option<StoredEvent>> {
        let before = Position::new(position.get().saturating_sub(1))?;
        let next = self.rows(FeedQuery::after(before).limit(1)).next().await?;
        Ok(next.filter(|event| event.position == position))
    }

    /// Reads all rows of a query, one at a time, across pages. The query's limit is the page size.
    ///
    /// ```
    /// # use tidelock_store::{MemoryStore, RecordQuery, Result, StoreExt};
    /// # async fn example() -> Result<()> {
    /// # let store = MemoryStore::new();
    /// let mut records = store.rows(RecordQuery::prefix("invoice/"));
    /// while let Some(record) = records.next().await? {
    ///     println!("{} {}", record.key, record.value);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn rows<Q: Paged>(&self, query: Q) -> Rows<'_, Self, Q> {
        Rows::new(self, query)
    }

    /// Reads one page with as many rows as were asked for, for callers that pass `next` on to their
    /// own callers.
    ///
    /// It has fewer rows at the end, and after [`EMPTY_PAGES`](crate::limits::EMPTY_PAGES) pages
    /// without a row, so that the caller can decide whether to continue. An empty page with `next`
    /// is therefore not the end here either.
    async fn full_page<Q: Paged>(&self, query: Q) -> Result<Q::Page> {
        full_page(self, query).await
    }

    /// Reads all events of a stream, page by page.
    async fn read_whole_stream(&self, stream: &StreamName) -> Result<Vec<StoredEvent>> {
        self.rows(StreamQuery::forward(stream)).all().await
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
