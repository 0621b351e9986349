//! [`Feed`]: the events of all streams, in the order of their positions.

use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use tidelock_store::{
    ChangeHint, EventType, FeedFilter, FeedQuery, FeedStart, Position, Store, StoreError, StoreExt,
    StoredEvent, Topic, limits,
};

use crate::backoff::Backoff;
use crate::error::Result;
use crate::event::Event;
use crate::handle::Tidelock;
use crate::list::{List, ListStream, Page};
use crate::reactions::is_reserved;
use crate::recorded::Recorded;

/// How long a follower waits for a change hint before it reads anyway.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pauses of a follower after the first failure, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl Tidelock {
    /// Returns the feed: the events of all streams, in the order of their positions.
    ///
    /// # Examples
    /// ```
    /// use futures_util::StreamExt;
    /// use tidelock::prelude::*;
    /// use tidelock::store::{NewEvent, StoreExt, StreamName};
    ///
    /// #[derive(Debug, PartialEq, Event)]
    /// struct Placed { units: i64 }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// let tidelock = Tidelock::open("memory:").await?;
    /// # let placed = NewEvent::of("placed", &serde_json::json!({ "units": 2 }))?;
    /// # let order = StreamName::new("order-7")?;
    /// # tidelock.store().append(&order, ExpectedVersion::Any, vec![placed]).await?.committed()?;
    /// let page = tidelock.feed().streams("order-").limit(100).await?; // one page
    /// assert_eq!(page.items.len(), 1);
    ///
    /// let mut placed = tidelock.feed().of::<Placed>().follow(); // waits for new events at the end
    /// if let Some(event) = placed.next().await.transpose()? {
    ///     assert_eq!(event.event, Placed { units: 2 });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn feed(&self) -> Feed {
        Feed {
            store: self.store().clone(),
            filter: FeedFilter::default(),
            start: Start::After(Position::START),
            limit: limits::PAGE_SIZE,
            problem: None,
            item: PhantomData,
        }
    }
}

/// The events of all streams that match a filter, in the order of their positions.
///
/// Awaited, it is one [`Page`]. [`all`](Self::all) and [`stream`](Self::stream) read up to the end
/// of the feed, and [`follow`](Self::follow) waits there for new events. The streams that Tidelock
/// itself writes (of runs, for example) are left out, unless [`streams`](Self::streams) names them.
#[must_use = "a feed reads nothing until it is awaited"]
pub struct Feed<T = StoredEvent> {
    store: Arc<dyn Store>,
    filter: FeedFilter,
    start: Start,
    limit: usize,
    /// The first invalid argument, reported when the feed is read.
    problem: Option<StoreError>,
    item: PhantomData<fn() -> T>,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    After(Position),
    End,
}

impl<T> Feed<T> {
    /// Reads only events of these stored types.
    pub fn types<S: AsRef<str>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        match types.into_iter().map(|name| EventType::new(name.as_ref())).collect() {
            Ok(types) => self.filter.types = types,
            Err(error) => _ = self.problem.get_or_insert(error),
        }
        self
    }

    /// Reads only streams whose name begins with `prefix`.
    pub fn streams(mut self, prefix: impl Into<String>) -> Self {
        self.filter.stream_prefix = prefix.into();
        self
    }

    /// Reads only events with this metadata field.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.filter.metadata.push((name.into(), value.into()));
        self
    }

    /// Starts after this position; at the beginning by default.
    pub fn after(mut self, position: Position) -> Self {
        self.start = Start::After(position);
        self
    }

    /// Starts at the end of the feed, where it is when the feed is first read.
    pub fn from_end(mut self) -> Self {
        self.start = Start::End;
        self
    }

    /// Sets the most events of a page; 1,000 by default, which is also the limit.
    pub fn limit(mut self, events: usize) -> Self {
        self.limit = events;
        self
    }

    /// Reads only events of type `E`, decoded.
    pub fn of<E: Event>(self) -> Feed<Recorded<E>> {
        let Feed { store, filter, start, limit, problem, item: _ } = self.types(E::TYPES);
        Feed { store, filter, start, limit, problem, item: PhantomData }
    }

    fn query(&self, after: Position, limit: usize) -> FeedQuery {
        FeedQuery { from: FeedStart::After(after), filter: self.filter.clone(), limit }
    }

    async fn start(&self) -> Result<Position> {
        match (&self.problem, self.start) {
            (Some(problem), _) => Err(problem.clone().into()),
            (None, Start::After(position)) => Ok(position),
            (None, Start::End) => Ok(self.store.feed_end().await?),
        }
    }

    /// Whether an event belongs to the application, or its stream was asked for.
    fn is_meant(&self, event: &StoredEvent) -> bool {
        is_reserved(&self.filter.stream_prefix) || !is_reserved(event.stream.as_str())
    }
}

impl<T: FeedItem> Feed<T> {
    /// Reads every event up to the end of the feed into memory.
    ///
    /// # Errors
    /// `Unreadable` if an event cannot be decoded; the store's errors.
    pub async fn all(self) -> Result<Vec<T>> {
        self.list().all().await
    }

    /// Reads every event up to the end of the feed, while the stream is polled.
    pub fn stream(self) -> ListStream<T> {
        self.list().stream()
    }

    /// Reads every event, and waits for new ones at the end of the feed.
    ///
    /// Each event comes once, in order; none is skipped. To continue after a restart, keep the
    /// position of the last event that was processed and pass it to [`after`](Self::after). After
    /// an error for which a retry can help, the next poll reads on from the same place, after a
    /// pause; after any other error the stream ends.
    pub fn follow(self) -> Follow<T> {
        // Subscribed before the first read, so that no change is missed.
        let hint = self.store.signal(Topic::Log);
        let follower = Follower {
            feed: self,
            at: None,
            hint,
            read: VecDeque::new(),
            failures: 0,
            ended: false,
        };
        let events = stream::unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            Some((next, follower))
        });
        Follow { events: events.boxed() }
    }

    fn list(self) -> List<T, Position> {
        let (limit, feed) = (self.limit, Arc::new(self));
        let list = List::new(move |after, limit| {
            let feed = feed.clone();
            async move {
                let after = match after {
                    Some(after) => after,
                    None => feed.start().await?,
                };
                let (items, next, at_end) = feed.page(after, limit).await?;
                Ok(Page { items, next: (!at_end).then_some(next) })
            }
        });
        list.limit(limit)
    }

    /// Reads a page: the events, where to continue, and whether this is the end for now.
    async fn page(&self, after: Position, limit: usize) -> Result<(Vec<T>, Position, bool)> {
        let mut page = self.store.full_page(self.query(after, limit)).await?;
        page.events.retain(|event| self.is_meant(event));
        Ok((T::decode(&*self.store, page.events).await?, page.next, page.at_end))
    }
}

impl<T: FeedItem> IntoFuture for Feed<T> {
    type Output = Result<Page<T, Position>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.list().into_future()
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("filter", &self.filter)
            .field("start", &self.start)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// What a feed consists of: events as they are stored, or decoded.
pub trait FeedItem: private::Sealed + Send + Sized + 'static {
    /// Converts stored events.
    #[doc(hidden)]
    fn decode(
        store: &dyn Store,
        events: Vec<StoredEvent>,
    ) -> impl Future<Output = Result<Vec<Self>>> + Send;
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::StoredEvent {}
    impl<E> Sealed for super::Recorded<E> {}
}

impl FeedItem for StoredEvent {
    async fn decode(_: &dyn Store, events: Vec<StoredEvent>) -> Result<Vec<Self>> {
        Ok(events)
    }
}

impl<E: Event> FeedItem for Recorded<E> {
    async fn decode(store: &dyn Store, events: Vec<StoredEvent>) -> Result<Vec<Self>> {
        Ok(Self::read(store, events).await?)
    }
}

/// The events of a [`Feed`], also those to come.
#[must_use = "a stream reads nothing until it is polled"]
pub struct Follow<T> {
    events: BoxStream<'static, Result<T>>,
}

impl<T> Stream for Follow<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(cx)
    }
}

impl<T> fmt::Debug for Follow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").finish_non_exhaustive()
    }
}

struct Follower<T> {
    feed: Feed<T>,
    /// Where to continue; the feed's start before the first read.
    at: Option<Position>,
    hint: ChangeHint,
    read: VecDeque<T>,
    /// Failures since the last success.
    failures: u32,
    ended: bool,
}

impl<T: FeedItem> Follower<T> {
    async fn next(&mut self) -> Option<Result<T>> {
        while !self.ended {
            if let Some(event) = self.read.pop_front() {
                return Some(Ok(event));
            }
            if let Some(earlier) = self.failures.checked_sub(1) {
                let backoff = Backoff::exponential(BACKOFF.0, BACKOFF.1);
                tokio::time::sleep(backoff.after(earlier, 0.0)).await;
            }
            match self.look().await {
                Ok(()) => self.failures = 0,
                Err(error) => {
                    self.failures = self.failures.saturating_add(1);
                    self.ended = !error.is_retryable();
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// Reads the next page; at the end of the feed, waits for a change first.
    async fn look(&mut self) -> Result<()> {
        let after = match self.at {
            Some(after) => after,
            None => *self.at.insert(self.feed.start().await?),
        };
        let (events, next, at_end) = self.feed.page(after, self.feed.limit).await?;
        self.at = Some(next);
        self.read = events.into();
        if at_end && self.read.is_empty() {
            let _in_time = tokio::time::timeout(POLL_INTERVAL, self.hint.wait()).await;
        }
        Ok(())
    }
}
