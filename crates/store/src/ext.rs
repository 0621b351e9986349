//! Conveniences over the contract, for every store.

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
    async fn put(
        &self,
        key: &RecordKey,
        expected: ExpectedRevision,
        value: RawJson,
    ) -> Result<CommitOutcome> {
        self.commit(Commit::new().write(RecordWrite::put(key, expected, value))).await
    }

    /// What is under one key.
    async fn get_one(&self, key: &RecordKey) -> Result<Slot> {
        let mut slots = self.get(std::slice::from_ref(key)).await?;
        Ok(slots.pop().expect("one key gives one slot"))
    }

    /// One work item, as it stands; found by its name (READ-1).
    async fn item(&self, item: &ItemRef) -> Result<Option<Item>> {
        let filter = ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str()));
        Ok(self.items(ItemQuery::new(filter)).await?.items.pop())
    }

    /// Where the feed ends: everything that is appended from now on comes after it (LOG-11).
    async fn feed_end(&self) -> Result<Position> {
        Ok(self.read_feed(FeedQuery::end()).await?.next)
    }

    /// What there is to know of one stream without reading it.
    async fn head(&self, stream: &StreamName) -> Result<Head> {
        let mut page = self.heads(HeadQuery::Named(vec![stream.clone()])).await?;
        Ok(page.heads.pop().expect("one name gives one head"))
    }

    /// The event at this version of a stream, if it is there and was not trimmed away.
    async fn event(&self, stream: &StreamName, version: Version) -> Result<Option<StoredEvent>> {
        let page = self.read_stream(StreamQuery::forward(stream).from(version).limit(1)).await?;
        Ok(page.events.into_iter().find(|event| event.version == version))
    }

    /// The event at this position of the feed, if it is there and was not trimmed away.
    async fn event_at(&self, position: Position) -> Result<Option<StoredEvent>> {
        let before = Position::new(position.get().saturating_sub(1))?;
        let next = self.rows(FeedQuery::after(before).limit(1)).next().await?;
        Ok(next.filter(|event| event.position == position))
    }

    /// All rows that answer a query, one after the other, however many pages they come in. The
    /// query's limit is how many are read at once.
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

    /// One page, with as many rows as were asked for: for callers that hand `next` on to callers of
    /// their own.
    ///
    /// It has fewer rows at the end, and after so many pages without a row
    /// ([`EMPTY_PAGES`](crate::limits::EMPTY_PAGES)) that a caller should decide whether to look
    /// further. So an empty page with `next` is not the end here either.
    async fn full_page<Q: Paged>(&self, query: Q) -> Result<Q::Page> {
        full_page(self, query).await
    }

    /// All events of a stream, page after page.
    async fn read_whole_stream(&self, stream: &StreamName) -> Result<Vec<StoredEvent>> {
        self.rows(StreamQuery::forward(stream)).all().await
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
