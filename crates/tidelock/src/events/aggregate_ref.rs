//! A typed handle on one aggregate.

use std::marker::PhantomData;

use tidelock_store::{ExpectedVersion, Position, Result, StoreExt, StreamName, Timestamp, Version};

use super::aggregate::Aggregate;
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

/// One aggregate, whether it exists or not. Clones are handles on the same.
///
/// A name that cannot be one is reported by the first call that needs it.
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

    /// The aggregate of this stream, whatever its kind.
    pub(crate) fn of_stream(tidelock: Tidelock, stream: &StreamName) -> Self {
        Self { tidelock, stream: Ok(stream.clone()), kind: PhantomData }
    }

    /// The stream that it is folded from.
    ///
    /// # Errors
    /// If kind and id make no name: see [`Aggregate::KIND`]; an id is not empty, has no control
    /// characters, and is not too long.
    pub fn stream(&self) -> Result<&StreamName> {
        self.stream.as_ref().map_err(Clone::clone)
    }

    /// The state as it is in the store now. Only what is not remembered is read.
    pub async fn load(&self) -> Result<Loaded<A>, LoadError> {
        Ok(self.fold().await?.loaded(self.stream()?))
    }

    /// The state as it was at a version.
    pub async fn load_at_version(&self, version: Version) -> Result<Loaded<A>, LoadError> {
        self.load_until(Until::Version(version)).await
    }

    /// The state as it was when the feed had come to a position.
    pub async fn load_at_position(&self, position: Position) -> Result<Loaded<A>, LoadError> {
        self.load_until(Until::Position(position)).await
    }

    /// The state as it was at a time of the store's clock.
    pub async fn load_at_time(&self, time: Timestamp) -> Result<Loaded<A>, LoadError> {
        self.load_until(Until::Time(time)).await
    }

    /// The state as it is in the store now, and whether it may be kept.
    pub(crate) async fn fold(&self) -> Result<Folded<A>, LoadError> {
        let place = self.tidelock.lines().place::<A>(self.stream()?);
        place.load(&**self.tidelock.store()).await
    }

    async fn load_until(&self, until: Until) -> Result<Loaded<A>, LoadError> {
        let stream = self.stream()?;
        Ok(load::load(&**self.tidelock.store(), stream, until).await?.loaded(stream))
    }

    /// All events that it is folded from, the oldest first; trimmed ones are not among them.
    pub async fn history(&self) -> Result<Vec<Recorded<A::Event>>, ReadError> {
        let store = self.tidelock.store();
        let events = store.read_whole_stream(self.stream()?).await?;
        Recorded::read(&**store, events).await
    }

    /// Decides on the state, and appends what was decided, if the stream is still where the state
    /// was; otherwise decides again.
    ///
    /// # Behavior
    /// - A decision that says no is told as [`Refused`](ExecuteError::Refused), once it is known
    ///   that the state it was taken on is that of the store (EVT-3).
    /// - It is taken again after a conflict, as the [retry policy](crate::RetryPolicy) has it
    ///   (EVT-2), or its events are moved behind what was missed, if they
    ///   [commute](Aggregate::commutes) (EVT-5).
    /// - In one process, callers of one aggregate take turns, first come, first served, and share
    ///   commits (EVT-7).
    /// - After an unknown outcome the same commit is sent again (EVT-6).
    ///
    /// # Cancel safety
    /// If the future is dropped while it waits for its turn, nothing happened. Later it may have
    /// happened, and may still. Name an [operation](Self::operation_id) to be able to ask again.
    pub async fn execute<D: IntoEvents<A::Event>, X>(
        &self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Executed, ExecuteError<X>> {
        self.decision().execute(decide).await
    }

    /// A decision about it, with more to be said.
    pub fn decision(&self) -> Decision<A> {
        Decision::new(self.clone())
    }

    /// A decision that is done once: see [`Decision::operation_id`].
    pub fn operation_id(&self, id: impl Into<String>) -> Decision<A> {
        self.decision().operation_id(id)
    }

    /// A decision at this version and no other: see [`Decision::at_version`].
    pub fn at_version(&self, version: Version) -> Decision<A> {
        self.decision().at_version(version)
    }

    /// A decision that creates it: see [`Decision::new_only`].
    pub fn new_only(&self) -> Decision<A> {
        self.decision().new_only()
    }

    /// Appends events without looking at the state: see [`Decision::append`].
    pub async fn append(
        &self,
        expected: ExpectedVersion,
        events: impl IntoEvents<A::Event>,
    ) -> Result<Executed, ExecuteError<std::convert::Infallible>> {
        self.decision().append(expected, events).await
    }

    pub(crate) fn tidelock(&self) -> &Tidelock {
        &self.tidelock
    }

    pub(crate) fn participant(&self) -> Result<Participant<A>> {
        Ok(Participant::new(self.tidelock.lines().place(self.stream()?)))
    }
}
