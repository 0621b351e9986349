//! Pagination: rows one at a time, across pages.
//!
//! A page may be shorter than was asked for, or empty, although more follows; only its `next`
//! tells. Code that reads through this module never sees a page, and so cannot mistake one for the
//! end.

use std::future::Future;
use std::vec;

use crate::error::Result;
use crate::leases::{Item, ItemPage, ItemQuery};
use crate::limits;
use crate::log::{
    FeedPage, FeedQuery, FeedStart, Head, HeadPage, HeadQuery, StoredEvent, StreamPage, StreamQuery,
};
use crate::records::{Record, RecordPage, RecordQuery};
use crate::store::Store;

/// A query that a store answers page by page.
pub trait Paged: Clone + Send + Sync {
    /// A row of a page.
    type Row: Send;
    /// A page.
    type Page: Send + Sync;

    /// Reads one page. The caller has to check where it continues.
    fn page<S: Store + ?Sized>(&self, store: &S)
    -> impl Future<Output = Result<Self::Page>> + Send;

    /// The query for the next page; none if this was the last.
    fn after_page(self, page: &Self::Page) -> Option<Self>;

    /// The most rows per page.
    fn most(&self) -> usize;

    /// Sets the most rows per page.
    #[must_use]
    fn at_most(self, limit: usize) -> Self;

    /// The rows of a page, in order.
    fn rows(page: &mut Self::Page) -> &mut Vec<Self::Row>;
}

/// All rows of a query, one at a time: see [`StoreExt::rows`](crate::StoreExt::rows).
#[derive(Debug)]
#[must_use = "nothing is read before the first row is asked for"]
pub struct Rows<'a, S: ?Sized, Q: Paged> {
    store: &'a S,
    /// The query for the next page; none after the last.
    query: Option<Q>,
    read: vec::IntoIter<Q::Row>,
}

impl<'a, S: Store + ?Sized, Q: Paged> Rows<'a, S, Q> {
    pub(crate) fn new(store: &'a S, query: Q) -> Self {
        Self { store, query: Some(query), read: Vec::new().into_iter() }
    }

    /// Reads the next row; none after the last. After an error, the next call asks for the same row
    /// again.
    ///
    /// Cancel safety: a dropped call loses no row.
    pub async fn next(&mut self) -> Result<Option<Q::Row>> {
        loop {
            if let Some(row) = self.read.next() {
                return Ok(Some(row));
            }
            let Some(query) = &self.query else { return Ok(None) };
            let mut page = query.page(self.store).await?;
            self.query = self.query.take().and_then(|query| query.after_page(&page));
            self.read = std::mem::take(Q::rows(&mut page)).into_iter();
        }
    }

    /// Reads all remaining rows into memory.
    pub async fn all(mut self) -> Result<Vec<Q::Row>> {
        let mut rows = Vec::new();
        while let Some(row) = self.next().await? {
            rows.push(row);
        }
        Ok(rows)
    }
}

/// Reads a page with as many rows as were asked for, if there are so many; fewer at the end, or
/// after a number of empty pages that the caller should know of. `next` is set in both cases.
pub(crate) async fn full_page<S: Store + ?Sized, Q: Paged>(store: &S, query: Q) -> Result<Q::Page> {
    let mut page = query.page(store).await?;
    let mut empty = usize::from(Q::rows(&mut page).is_empty());
    while let Some(rest) = query.clone().after_page(&page) {
        let left = query.most().saturating_sub(Q::rows(&mut page).len());
        if left == 0 || empty == limits::EMPTY_PAGES {
            break;
        }
        let mut more = rest.at_most(left).page(store).await?;
        empty = if Q::rows(&mut more).is_empty() { empty + 1 } else { 0 };
        let mut rows = std::mem::take(Q::rows(&mut page));
        rows.append(Q::rows(&mut more));
        *Q::rows(&mut more) = rows;
        page = more;
    }
    Ok(page)
}

impl Paged for StreamQuery {
    type Row = StoredEvent;
    type Page = StreamPage;

    async fn page<S: Store + ?Sized>(&self, store: &S) -> Result<StreamPage> {
        store.read_stream(self.clone()).await
    }

    fn after_page(self, page: &StreamPage) -> Option<Self> {
        page.next.map(|next| self.from(next))
    }

    fn most(&self) -> usize {
        self.limit
    }

    fn at_most(self, limit: usize) -> Self {
        self.limit(limit)
    }

    fn rows(page: &mut StreamPage) -> &mut Vec<StoredEvent> {
        &mut page.events
    }
}

impl Paged for FeedQuery {
    type Row = StoredEvent;
    type Page = FeedPage;

    async fn page<S: Store + ?Sized>(&self, store: &S) -> Result<FeedPage> {
        store.read_feed(self.clone()).await
    }

    fn after_page(self, page: &FeedPage) -> Option<Self> {
        (!page.at_end).then_some(Self { from: FeedStart::After(page.next), ..self })
    }

    fn most(&self) -> usize {
        self.limit
    }

    fn at_most(self, limit: usize) -> Self {
        self.limit(limit)
    }

    fn rows(page: &mut FeedPage) -> &mut Vec<StoredEvent> {
        &mut page.events
    }
}

impl Paged for RecordQuery {
    type Row = Record;
    type Page = RecordPage;

    async fn page<S: Store + ?Sized>(&self, store: &S) -> Result<RecordPage> {
        store.scan(self.clone()).await
    }

    fn after_page(self, page: &RecordPage) -> Option<Self> {
        page.next.clone().map(|next| self.after(next))
    }

    fn most(&self) -> usize {
        self.limit
    }

    fn at_most(self, limit: usize) -> Self {
        self.limit(limit)
    }

    fn rows(page: &mut RecordPage) -> &mut Vec<Record> {
        &mut page.records
    }
}

impl Paged for ItemQuery {
    type Row = Item;
    type Page = ItemPage;

    async fn page<S: Store + ?Sized>(&self, store: &S) -> Result<ItemPage> {
        store.items(self.clone()).await
    }

    fn after_page(self, page: &ItemPage) -> Option<Self> {
        page.next.clone().map(|next| self.after(next))
    }

    fn most(&self) -> usize {
        self.limit
    }

    fn at_most(self, limit: usize) -> Self {
        self.limit(limit)
    }

    fn rows(page: &mut ItemPage) -> &mut Vec<Item> {
        &mut page.items
    }
}

impl Paged for HeadQuery {
    type Row = Head;
    type Page = HeadPage;

    async fn page<S: Store + ?Sized>(&self, store: &S) -> Result<HeadPage> {
        store.heads(self.clone()).await
    }

    fn after_page(self, page: &HeadPage) -> Option<Self> {
        match self {
            Self::Named(_) => None,
            Self::Prefix { prefix, limit, .. } => {
                Some(Self::Prefix { prefix, after: Some(page.next.clone()?), limit })
            }
        }
    }

    fn most(&self) -> usize {
        match self {
            Self::Named(names) => names.len(),
            Self::Prefix { limit, .. } => *limit,
        }
    }

    fn at_most(self, limit: usize) -> Self {
        match self {
            Self::Named(names) => Self::Named(names),
            Self::Prefix { prefix, after, .. } => Self::Prefix { prefix, after, limit },
        }
    }

    fn rows(page: &mut HeadPage) -> &mut Vec<Head> {
        &mut page.heads
    }
}
