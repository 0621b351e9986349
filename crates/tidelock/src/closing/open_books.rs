//! Unfinished closings, for operators.

use tidelock_store::{
    RecordKey, RecordQuery, Result, Store, StoreError, StoreExt, StreamName, Timestamp, Version,
};

use super::books::Books;
use super::keys;

/// A closing that began and is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenBooks {
    pub(crate) stream: StreamName,
    /// The call, such as `close()`.
    pub(crate) plan: String,
    /// Whether the stream accepts events afterwards.
    pub(crate) goes_on: bool,
    /// Whether the stream rejects events meanwhile.
    pub(crate) shuts: bool,
    pub(crate) begun_at: Option<Timestamp>,
    pub(crate) through: Version,
    pub(crate) archived: Option<Version>,
    /// When the lease of its current or last caller expires.
    pub(crate) held_until: Option<Timestamp>,
}

/// Unfinished closings among a page of all closings.
pub(crate) struct OpenBooksPage {
    pub(crate) books: Vec<OpenBooks>,
    /// Number of closings read.
    pub(crate) looked: usize,
    pub(crate) next: Option<RecordKey>,
}

impl OpenBooks {
    /// Reads a page, after this key.
    pub(crate) async fn page(store: &dyn Store, after: Option<RecordKey>) -> Result<OpenBooksPage> {
        let page =
            store.full_page(RecordQuery { after, ..RecordQuery::prefix(keys::RECORDS) }).await?;
        let mut books = Vec::new();
        for record in &page.records {
            let there: Books = record.value.to()?;
            if !there.done {
                books.push(Self::of(store, &record.key, there).await?);
            }
        }
        Ok(OpenBooksPage { books, looked: page.records.len(), next: page.next })
    }

    async fn of(store: &dyn Store, key: &RecordKey, books: Books) -> Result<Self> {
        let stream = keys::stream_of(key).ok_or_else(|| {
            StoreError::corrupt(format!("record {key:?} is of no stream's books"))
        })?;
        let holder = store.item(&keys::item(&stream)).await?.and_then(|item| item.holder);
        Ok(Self {
            stream,
            plan: books.plan.to_string(),
            goes_on: books.plan.goes_on(),
            shuts: books.plan.shuts(),
            begun_at: books.begun_at,
            through: books.through,
            archived: books.archived,
            held_until: holder.map(|holder| holder.deadline),
        })
    }
}
