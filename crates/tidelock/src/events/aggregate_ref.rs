//! Typed handle to one aggregate.

use std::marker::PhantomData;

use tidelock_store::{Position, Result, StoreExt, StreamName, Timestamp, Version};

use super::aggregate::Aggregate;
use super::cached_stream::CachedStream;
use super::decision::Decision;
use super::error::{ExecuteError, LoadError};
use super::executed::Executed;
use super::folded::{Folded, Loaded};
use super::into_events::IntoEvents;
use super::keys;
use super::load::{self, Until};
use super::participant::Participant;
use crate::handle::Tidelock;
use crate::recorded::{ReadError, Recorded};

/// Handle to one aggregate, which may or may not exist yet.
///
/// Cloning is cheap; clones refer to the same aggregate.
///
/// An invalid name is reported by the first call that uses it.
#[derive(Debug)]
pub struct AggregateRef<A> {
    tidelock: Tidelock,
    stream: Result<StreamName>,
    kind: PhantomData<fn() -> A>,
}

impl<A> Clone for AggregateRef<A> {
    fn clone(&self) -> Self {
        Self { tidelock: self.tidelock.clone(), stream: self.stream.clone(), kind: PhantomData }
    }
}

impl<A: Aggregate> AggregateRef<A> {
    pub(crate) fn new(tidelock: Tidelock, id: &str) -> Self {
        Self { tidelock, stream: keys::stream(A::KIND, id), kind: PhantomData }
    }

    /// Creates a handle to a stream, regardless of the aggregate's kind.
    pub(crate) fn of_stream(tidelock: Tidelock, stream: &StreamName) -> Self {
        Self { tidelock, stream: Ok(stream.clone()), kind: PhantomData }
    }

    /// Returns the name of the stream the aggregate is folded from.
    ///
    /// # Errors
    /// If kind and id do not form a valid name: see [`Aggregate::KIND`]. An id must not be empty,
    /// contain control characters, or exceed the length limit.
    pub fn stream(&self) -> Result<&StreamName> {
        self.stream.as_ref().map_err(Clone::clone)
    }

    /// Loads the current state from the store. Reads only the events after the cached state.
    ///
    /// # Errors
    /// [`LoadError`] if an event cannot be decoded, the events needed were trimmed or archived, or
    /// the store failed.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// #[derive(Default, Clone)]
    /// struct Stock { left: i64 }
    ///
    /// #[derive(Event)]
    /// enum StockEvent { Received { units: i64 } }
    ///
    /// impl Aggregate for Stock {
    ///     const KIND: &'static str = "stock";
    ///     type Event = StockEvent;
    ///
    ///     fn apply(&mut self, event: &StockEvent) {
    ///         let StockEvent::Received { units } = event;
    ///         self.left += units;
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let stock = tidelock.aggregate::<Stock>("sku-7");
    /// assert_eq!(stock.load().await?.version, None, "it does not exist yet");
    ///
    /// stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 3 })).await?;
    /// let loaded = stock.load().await?;
    /// assert_eq!((loaded.left, loaded.version.map(|version| version.get())), (3, Some(1)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn load(&self) -> Result<Loaded<A>, LoadError> {
        Ok(self.fold().await?.loaded(self.stream()?))
    }

    /// Loads the state at an earlier version.
    ///
    /// # Errors
    /// As [`load`](Self::load), and [`LoadError::NotReached`] if the stream has not reached the
    /// version.
    pub async fn load_at_version(&self, version: Version) -> Result<Loaded<A>, LoadError> {
        self.load_until(Until::Version(version)).await
    }

    /// Loads the state as of a position in the feed.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_at_position(&self, position: Position) -> Result<Loaded<A>, LoadError> {
        self.load_until(Until::Position(position)).await
    }

    /// Loads the state as of a time of the store's clock.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_at_time(&self, time: Timestamp) -> Result<Loaded<A>, LoadError> {
        self.load_until(Until::Time(time)).await
    }

    /// Loads the current state, with what is needed to cache it or to write a snapshot.
    pub(crate) async fn fold(&self) -> Result<Folded<A>, LoadError> {
        let entry = self.tidelock.states().entry::<CachedStream<A>>(self.stream()?);
        entry.load(&**self.tidelock.store()).await
    }

    async fn load_until(&self, until: Until) -> Result<Loaded<A>, LoadError> {
        let stream = self.stream()?;
        Ok(load::load(&**self.tidelock.store(), stream, until).await?.loaded(stream))
    }

    /// Reads all events of the aggregate, oldest first. Trimmed events are not included.
    ///
    /// # Errors
    /// [`ReadError`] if an event cannot be decoded, or the store failed.
    pub async fn history(&self) -> Result<Vec<Recorded<A::Event>>, ReadError> {
        let store = self.tidelock.store();
        let events = store.read_whole_stream(self.stream()?).await?;
        Recorded::read(&**store, events).await
    }

    /// Decides on the state and appends the resulting events, if the stream is still at the version
    /// of that state.
    ///
    /// Otherwise decides again.
    ///
    /// # Behavior
    /// - A refusal is returned as [`Refused`](ExecuteError::Refused) only after its state was
    ///   revalidated against the store (EVT-3).
    /// - After a conflict the decision runs again according to the [retry
    ///   policy](crate::Retry) (EVT-2), or its events are rebased behind the missed ones if
    ///   they [commute](Aggregate::commutes) (EVT-5).
    /// - Within one process, decisions on one aggregate are queued in FIFO order and share commits
    ///   (EVT-7).
    /// - After an unknown outcome the same commit is sent again (EVT-6).
    ///
    /// # Errors
    /// [`ExecuteError::Refused`] if the decision returned an error; the other variants tell why
    /// nothing was appended.
    ///
    /// # Cancel safety
    /// If the future is dropped while it waits in the queue, nothing happened. Later, the events
    /// may have been appended, or may still be. Use an [operation id](Self::operation_id) to be
    /// able to ask again.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// #[derive(Default, Clone)]
    /// struct Stock { left: i64 }
    ///
    /// #[derive(Event)]
    /// enum StockEvent { Received { units: i64 }, Reserved { units: i64 } }
    ///
    /// impl Aggregate for Stock {
    ///     const KIND: &'static str = "stock";
    ///     type Event = StockEvent;
    ///
    ///     fn apply(&mut self, event: &StockEvent) {
    ///         match event {
    ///             StockEvent::Received { units } => self.left += units,
    ///             StockEvent::Reserved { units } => self.left -= units,
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let stock = tidelock.aggregate::<Stock>("sku-7");
    /// stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 3 })).await?;
    ///
    /// let reserve = |units| move |stock: &Stock| match stock.left >= units {
    ///     true => Ok(StockEvent::Reserved { units }),
    ///     false => Err(format!("only {} left", stock.left)),
    /// };
    /// let executed = stock.execute(reserve(2)).await?;
    /// assert_eq!(executed.events.len(), 1);
    ///
    /// let refused = stock.execute(reserve(2)).await.unwrap_err();
    /// assert_eq!(refused.refused().as_deref(), Some("only 1 left"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn execute<D: IntoEvents<A::Event>, X>(
        &self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Executed, ExecuteError<X>> {
        self.decision().execute(decide).await
    }

    /// Starts a decision with options.
    pub fn decision(&self) -> Decision<A> {
        Decision::new(self.clone())
    }

    /// Starts a decision that takes effect once: see [`Decision::operation_id`].
    pub fn operation_id(&self, id: impl Into<String>) -> Decision<A> {
        self.decision().operation_id(id)
    }

    /// Starts a decision that requires this version: see [`Decision::at_version`].
    pub fn at_version(&self, version: Version) -> Decision<A> {
        self.decision().at_version(version)
    }

    /// Starts a decision that creates the aggregate: see [`Decision::new_only`].
    pub fn new_only(&self) -> Decision<A> {
        self.decision().new_only()
    }

    /// Appends events without loading the state, whatever the version: see [`Decision::append`].
    ///
    /// # Errors
    /// [`ExecuteError::Closed`] if the stream is closed; [`ExecuteError::Store`] if the store
    /// failed.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// #[derive(Default, Clone)]
    /// struct Stock { left: i64 }
    ///
    /// #[derive(Event)]
    /// struct Received { units: i64 }
    ///
    /// impl Aggregate for Stock {
    ///     const KIND: &'static str = "stock";
    ///     type Event = Received;
    ///
    ///     fn apply(&mut self, event: &Received) {
    ///         self.left += event.units;
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let stock = tidelock.aggregate::<Stock>("sku-7");
    /// stock.append(Received { units: 3 }).await?;
    /// assert_eq!(stock.load().await?.left, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append(
        &self,
        events: impl IntoEvents<A::Event>,
    ) -> Result<Executed, ExecuteError<std::convert::Infallible>> {
        self.decision().append(events).await
    }

    pub(crate) fn tidelock(&self) -> &Tidelock {
        &self.tidelock
    }

    pub(crate) fn participant(&self) -> Result<Participant<A>> {
        Ok(Participant::new(self.tidelock.states().entry(self.stream()?)))
    }
}
