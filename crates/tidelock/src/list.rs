//! [`List`]: a listing, read as one page, as all rows, or as a stream of rows.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use tidelock_store::limits;

use crate::error::{Error, Result};

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page<T, C> {
    /// The rows. There may be fewer than the limit, or none, although more follow.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<C>,
}

/// Reads the page after a cursor, with at most so many rows.
type ReadPage<T, C> =
    dyn Fn(Option<C>, usize) -> BoxFuture<'static, Result<Page<T, C>>> + Send + Sync;

/// A listing that has not been read yet.
///
/// Awaited, it is one [`Page`]; [`all`](Self::all) and [`stream`](Self::stream) read every page.
///
/// # Examples
/// ```
/// # use tidelock::prelude::*;
/// # use tidelock::scopes::ScopeFilter;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidelock::Result<()> {
/// # let tidelock = Tidelock::open("memory:").await?;
/// let baskets = || tidelock.scopes().list(&ScopeFilter::kind("basket"));
/// let first = baskets().limit(100).await?; // one page
/// let second = baskets().limit(100).after(first.next).await?; // the next one
/// let all = baskets().all().await?; // every row
/// # assert!(second.items.is_empty() && all.is_empty());
/// # Ok(())
/// # }
/// ```
#[must_use = "a listing reads nothing until it is awaited"]
pub struct List<T, C> {
    read: Arc<ReadPage<T, C>>,
    after: Option<C>,
    limit: usize,
}

impl<T, C> List<T, C> {
    pub(crate) fn new<F, R>(read: F) -> Self
    where
        F: Fn(Option<C>, usize) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Page<T, C>>> + Send + 'static,
    {
        let read =
            Arc::new(move |after, limit| -> BoxFuture<'static, _> { Box::pin(read(after, limit)) });
        Self { read, after: None, limit: limits::PAGE_SIZE }
    }

    /// Starts after this cursor, the `next` of an earlier page; at the beginning with `None`.
    pub fn after(mut self, cursor: impl Into<Option<C>>) -> Self {
        self.after = cursor.into();
        self
    }

    /// Sets the most rows of a page; 1,000 by default, which is also the limit.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = rows;
        self
    }
}

impl<T: Send + 'static, C: Clone + Send + 'static> List<T, C> {
    /// Reads every row into memory, page by page.
    ///
    /// # Errors
    /// The store's errors.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// use tidelock::runs::RunFilter;
    ///
    /// let open = RunFilter::all().workflow("checkout");
    /// let page = tidelock.runs().list(&open).limit(100).await?; // one page
    /// let all = tidelock.runs().list(&open).all().await?; // every page
    /// assert_eq!((page.items.len(), all.len()), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn all(self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// Reads every row, page by page, while the stream is polled.
    pub fn stream(self) -> ListStream<T> {
        let Self { read, after, limit } = self;
        let pages = stream::try_unfold(Some(after), move |cursor| {
            let page = cursor.map(|after| read(after, limit));
            async move {
                let Some(page) = page else { return Ok::<_, Error>(None) };
                let Page { items, next } = page.await?;
                Ok(Some((stream::iter(items.into_iter().map(Ok)), next.map(Some))))
            }
        });
        ListStream { rows: pages.try_flatten().boxed() }
    }
}

impl<T: 'static, C: 'static> IntoFuture for List<T, C> {
    type Output = Result<Page<T, C>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        (self.read)(self.after, self.limit)
    }
}

impl<T, C: Clone> Clone for List<T, C> {
    fn clone(&self) -> Self {
        Self { read: self.read.clone(), after: self.after.clone(), limit: self.limit }
    }
}

impl<T, C: fmt::Debug> fmt::Debug for List<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("after", &self.after)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The rows of a [`List`], read while they are polled. Ends after the last row, or after an error.
#[must_use = "a stream reads nothing until it is polled"]
pub struct ListStream<T> {
    rows: BoxStream<'static, Result<T>>,
}

impl<T> Stream for ListStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.poll_next_unpin(cx)
    }
}

impl<T> fmt::Debug for ListStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListStream").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_store::StoreError;

    /// The numbers up to 5, at most two of a page; every other page is empty although more follows.
    fn numbers() -> List<u32, (u32, bool)> {
        List::new(|after: Option<(u32, bool)>, limit| async move {
            let (last, was_empty) = after.unwrap_or((0, false));
            let items: Vec<u32> = match was_empty {
                true => (last + 1..=5).take(limit.min(2)).collect(),
                false => Vec::new(),
            };
            let last = items.last().copied().unwrap_or(last);
            Ok(Page { items, next: (last < 5).then_some((last, !was_empty)) })
        })
    }

    #[tokio::test]
    async fn all_rows_are_read_across_empty_and_short_pages() {
        assert_eq!(numbers().all().await.unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(numbers().limit(1).after((3, true)).all().await.unwrap(), [4, 5]);
    }

    #[tokio::test]
    async fn awaiting_it_reads_one_page() {
        let page = numbers().after((2, true)).await.unwrap();
        assert_eq!(page, Page { items: vec![3, 4], next: Some((4, false)) });
        assert!(numbers().after(None).await.unwrap().items.is_empty(), "an empty first page");
    }

    #[tokio::test]
    async fn a_stream_ends_after_an_error() {
        let list = List::<u32, u32>::new(|after, _| async move {
            match after {
                None => Ok(Page { items: vec![1], next: Some(1) }),
                Some(_) => Err(StoreError::invalid("a broken page").into()),
            }
        });
        let rows: Vec<_> = list.stream().map(|row| row.is_ok()).collect().await;
        assert_eq!(rows, [true, false]);
    }
}
