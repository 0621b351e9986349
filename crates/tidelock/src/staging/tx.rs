//! [`Tx`]: a unit of work over every pattern, which lands in one commit or not at all.

use std::fmt::{Debug, Display};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Bounds, Commit, ExpectedRevision, ExpectedVersion, Guard, NewEvent, RawJson, RecordKey,
    RecordWrite, Slot, Store, StoreError, StoreExt, StreamName, Wake,
};

use super::{Decision, Fenced, Staged};
use crate::claims::{
    ClaimGuard, Grant, Quota, QuotaExceeded, Reservation, Singleton, SingletonTaken,
};
use crate::error::Result;
use crate::events::{Aggregate, AggregateRef, ExecuteError, IntoEvents, Loaded};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::outcome::Outcome;
use crate::queues::EnqueueItem;
use crate::scopes::{Scope, ScopeError, ScopeState};

/// A unit of work: what is staged here lands in one commit, or not at all.
///
/// [`Tidelock::transact`] and [`RunCtx::transact`](crate::runs::RunCtx::transact) pass one to their
/// closure, and [`ReactionCtx`](crate::reactions::ReactionCtx) is one, so a helper that takes `&Tx`
/// works in all three. Clones are handles on the same unit of work.
///
/// Two kinds of calls meet a conflict differently:
/// - A call that returns a value from the state ([`get`](Self::get), [`load`](Self::load),
///   [`mutate`](Self::mutate), [`take`](Self::take), [`claim`](Self::claim)) is compared at the
///   commit. If the state has changed since, the closure or handler runs again.
/// - A call that returns nothing from the state ([`execute`](Self::execute),
///   [`propose`](Self::propose), [`start`](Self::start), [`signal`](Self::signal)) is decided again
///   alone.
///
/// Once the closure or handler has returned, every call is an error.
#[derive(Debug, Clone)]
pub struct Tx {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tidelock: Tidelock,
    metadata: Metadata,
    effect_key: String,
    /// None once the unit of work is over.
    staged: Mutex<Option<Staged>>,
}

impl Tx {
    pub(crate) fn new(tidelock: &Tidelock, metadata: Metadata, effect_key: String) -> Self {
        let (tidelock, staged) = (tidelock.clone(), Mutex::new(Some(Staged::default())));
        Self { shared: Arc::new(Shared { tidelock, metadata, effect_key, staged }) }
    }

    /// Ends the unit of work and takes what was staged.
    pub(crate) fn finish(&self) -> Staged {
        self.lock().take().unwrap_or_default()
    }

    /// The handle. Writes made through it are not part of this unit of work.
    pub fn tidelock(&self) -> &Tidelock {
        &self.shared.tidelock
    }

    /// The store, for reading. Reads made through it are not compared at the commit.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.tidelock().store()
    }

    /// The metadata that appended events inherit.
    pub fn metadata(&self) -> &Metadata {
        &self.shared.metadata
    }

    /// An idempotency key for effects outside the store: the same however often the closure or
    /// handler runs for this unit of work.
    pub fn effect_key(&self) -> &str {
        &self.shared.effect_key
    }

    /// Decides on the current state of an aggregate, and stages the events. On a conflict the
    /// decision is taken again, without the closure or handler.
    ///
    /// One decision for each aggregate: staged events are not visible to a second one.
    ///
    /// # Errors
    /// [`Refused`](ExecuteError::Refused) with the decision's own reason; the errors of
    /// [`AggregateRef::execute`]; `Invalid` for a second decision about the aggregate.
    pub async fn execute<A, D, X>(
        &self,
        aggregate: &AggregateRef<A>,
        decide: impl Fn(&A) -> Result<D, X> + Send + Sync + 'static,
    ) -> Result<(), ExecuteError<X>>
    where
        A: Aggregate,
        D: IntoEvents<A::Event> + Send + 'static,
        X: Display + Debug + Send + Sync + 'static,
    {
        self.check()?;
        let stream = aggregate.stream()?;
        if self.staged(|staged| staged.decides_on(stream))? {
            return Err(twice("stream", stream).into());
        }
        let decide = Arc::new(decide);
        let decision = aggregate.decision().metadata(self.metadata().clone());
        let first = decision.clone().propose(&*decide).await?;
        let again = move || {
            let (decision, decide) = (decision.clone(), decide.clone());
            async move {
                let proposed = decision.propose(&*decide).await;
                proposed.map_err(|error| HandlerError::again(error.to_string()))
            }
            .boxed()
        };
        let decision = Decision::taken(Box::new(again), first);
        Ok(self.staged(|staged| staged.decisions.push(decision))?)
    }

    /// Stages the parts that a function of the current state returns. On a conflict the function
    /// runs again, without the closure or handler.
    ///
    /// # Errors
    /// The function's own error.
    pub async fn propose<F>(
        &self,
        propose: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<(), HandlerError>
    where
        F: Future<Output = Result<Commit, HandlerError>> + Send + 'static,
    {
        self.check()?;
        let decision = Decision::new(Box::new(move || propose().boxed())).await?;
        Ok(self.staged(|staged| staged.decisions.push(decision))?)
    }

    /// Loads an aggregate, and stages a guard on its version.
    ///
    /// # Errors
    /// Those of [`AggregateRef::load`].
    pub async fn load<A: Aggregate>(&self, aggregate: &AggregateRef<A>) -> Result<Loaded<A>> {
        self.check()?;
        let (stream, loaded) = (aggregate.stream()?, aggregate.load().await?);
        let expected = loaded.version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
        self.guard(Guard::Stream { stream: stream.clone(), expected })?;
        Ok(loaded)
    }

    /// Reads the record under a key, and stages a guard on its revision.
    ///
    /// # Errors
    /// `Unreadable` if the record is not a `T`; the store's errors.
    pub async fn get<T: DeserializeOwned>(&self, key: impl AsRef<str>) -> Result<Option<T>> {
        self.check()?;
        let key = RecordKey::new(key.as_ref())?;
        let slot = self.store().get_one(&key).await?;
        let value = slot.live().map(|record| record.value.to()).transpose()?;
        self.guard(Guard::Record { expected: expected(&slot), key })?;
        Ok(value)
    }

    /// Changes the state of a stored scope by a function of it, and returns what the function
    /// returned. A second change in the same unit of work sees the first one.
    ///
    /// # Errors
    /// Those of [`Scope::mutate`], without its deadline: a concurrent change is found at the
    /// commit. `Invalid` for a scope in memory, which no commit can hold.
    pub async fn mutate<S: ScopeState, R>(
        &self,
        scope: &Scope<S>,
        mutate: impl FnOnce(&mut S) -> R,
    ) -> Result<R> {
        let mutated = self.try_mutate(scope, |state| Ok(mutate(state))).await;
        mutated.map_err(|error: ScopeError| error.into())
    }

    /// Changes the state of a stored scope by a function that may refuse. See
    /// [`mutate`](Self::mutate).
    ///
    /// # Errors
    /// [`Refused`](ScopeError::Refused) with the function's own reason; those of
    /// [`mutate`](Self::mutate).
    pub async fn try_mutate<S: ScopeState, R, X>(
        &self,
        scope: &Scope<S>,
        mutate: impl FnOnce(&mut S) -> Result<R, X>,
    ) -> Result<R, ScopeError<X>> {
        self.check()?;
        let key = scope.key()?;
        let staged = self.staged(|staged| staged.writes_to(key).cloned())?;
        let (parts, answer) = scope.propose(staged, mutate).await?;
        self.staged(|staged| staged.replace(parts))?;
        Ok(answer)
    }

    /// Takes units of a quota, if so many are left. Several calls for one quota add up.
    ///
    /// # Errors
    /// The store's errors; an exceeded quota is an outcome.
    ///
    /// # Examples
    /// ```
    /// use tidelock::ErrorKind;
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let seats = tidelock.quota("seats", 5);
    /// let booked = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.take(&seats, 3).await?.granted()?;
    ///     tx.take(&seats, 3).await?.granted()?;
    ///     Ok(())
    /// });
    /// assert_eq!(booked.await.unwrap_err().kind(), ErrorKind::Exceeded);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(&self, quota: &Quota, units: u32) -> Result<Outcome<Grant, QuotaExceeded>> {
        let counter = quota.counter()?;
        loop {
            let before = self.staged(|staged| staged.added_to(&counter))?;
            let (parts, grant) = match quota.propose(units, before).await? {
                Outcome::Granted(proposed) => proposed,
                Outcome::Refused(exceeded) => return Ok(Outcome::Refused(exceeded)),
            };
            // A concurrent call may have staged units meanwhile.
            if self.staged(|staged| {
                let is_current = staged.added_to(&counter) == before;
                if is_current {
                    staged.add(&counter, parts);
                }
                is_current
            })? {
                return Ok(Outcome::Granted(grant));
            }
        }
    }

    /// Takes a singleton, with details for later claimants.
    ///
    /// # Errors
    /// The store's errors; `Invalid` for a second claim of the singleton. A singleton that is taken
    /// is an outcome.
    pub async fn claim(
        &self,
        singleton: &Singleton,
        details: &(impl Serialize + ?Sized),
    ) -> Result<Outcome<(), SingletonTaken>> {
        self.check()?;
        let parts = match singleton.propose(details).await? {
            Outcome::Granted(parts) => parts,
            Outcome::Refused(taken) => return Ok(Outcome::Refused(taken)),
        };
        let key = &parts.writes[0].key;
        if self.staged(|staged| staged.writes_to(key).is_some())? {
            return Err(twice("claim", key).into());
        }
        self.parts(parts)?;
        Ok(Outcome::Granted(()))
    }

    /// Stages events at the end of an aggregate's stream, whatever its state.
    ///
    /// # Errors
    /// `Invalid` if an event cannot be encoded, or the name is none.
    pub fn append<A: Aggregate>(
        &self,
        aggregate: &AggregateRef<A>,
        events: impl IntoEvents<A::Event>,
    ) -> Result<()> {
        self.check()?;
        self.parts(aggregate.decision().metadata(self.metadata().clone()).parts(events)?)
    }

    /// Stages events at the end of a stream, which must then be as expected. They inherit the
    /// metadata of the unit of work where they do not say otherwise.
    ///
    /// # Errors
    /// `Invalid` if the name is none.
    pub fn append_to(
        &self,
        stream: impl AsRef<str>,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Result<()> {
        self.check()?;
        let stream = StreamName::new(stream.as_ref())?;
        let events: Vec<NewEvent> = events.into_iter().map(|event| self.caused(event)).collect();
        self.parts(Commit::new().append(&stream, expected, events))
    }

    /// Stages the JSON of a value under a key, whatever was there.
    ///
    /// # Errors
    /// `Invalid` if the key is none, or the value cannot be stored.
    pub fn put(&self, key: impl AsRef<str>, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.put_if(key, ExpectedRevision::Any, value)
    }

    /// Stages the JSON of a value under a key, which must then be as expected.
    ///
    /// # Errors
    /// `Invalid` if the key is none, or the value cannot be stored.
    pub fn put_if(
        &self,
        key: impl AsRef<str>,
        expected: ExpectedRevision,
        value: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        let key = RecordKey::new(key.as_ref())?;
        self.write(RecordWrite::put(&key, expected, RawJson::new(value)?))
    }

    /// Stages the deletion of a record.
    ///
    /// # Errors
    /// `Invalid` if the key is none.
    pub fn delete(&self, key: impl AsRef<str>) -> Result<()> {
        let key = RecordKey::new(key.as_ref())?;
        self.write(RecordWrite::delete(&key, ExpectedRevision::Any))
    }

    /// Stages an addition to a counter, which must then be within the range.
    ///
    /// # Errors
    /// `Invalid` if the key is none.
    pub fn add(
        &self,
        key: impl AsRef<str>,
        delta: i64,
        within: impl RangeBounds<i64>,
    ) -> Result<()> {
        let key = RecordKey::new(key.as_ref())?;
        self.write(RecordWrite::add(&key, delta, Bounds::from_range(within)))
    }

    /// Stages a change to a record.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    pub fn write(&self, write: RecordWrite) -> Result<()> {
        self.parts(Commit::new().write(write))
    }

    /// Stages an item of a queue: `tx.enqueue_item(tidelock.queue("mail").enqueue("order-7"))`.
    ///
    /// # Errors
    /// `Invalid` if a name is none, the data cannot be stored, or the item has an operation id: the
    /// commit is what makes it happen once.
    pub fn enqueue_item(&self, item: EnqueueItem) -> Result<()> {
        self.parts(item.into_parts()?)
    }

    /// Stages a wake of a work item.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    pub fn wake(&self, wake: Wake) -> Result<()> {
        self.parts(Commit::new().wake(wake))
    }

    /// Stages a guard: the commit lands only if this still holds.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    pub fn guard(&self, guard: Guard) -> Result<()> {
        self.parts(Commit { guards: vec![guard], ..Commit::new() })
    }

    /// Stages the completion of a claim with its result.
    ///
    /// # Errors
    /// `Invalid` if the value cannot be stored.
    pub fn complete<T: Serialize + DeserializeOwned>(
        &self,
        claim: &ClaimGuard<T>,
        value: &T,
    ) -> Result<()> {
        let write = claim.completion(value)?;
        self.fenced_parts([write.key.clone()], Commit::new().write(write))
    }

    /// Stages the confirmation of a reservation.
    ///
    /// # Errors
    /// The errors of [`Reservation::confirmation`].
    pub fn confirm(&self, reservation: &Reservation) -> Result<()> {
        let writes = reservation.confirmation()?;
        let is_pinned =
            |write: &&RecordWrite| matches!(write.expected, ExpectedRevision::Revision(_));
        let keys: Vec<_> = writes.iter().filter(is_pinned).map(|write| write.key.clone()).collect();
        self.fenced_parts(keys, writes.into_iter().fold(Commit::new(), Commit::write))
    }

    /// Fences the commit by a lock, claim or lease: it lands only while that is held.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    pub fn fence(&self, held: &impl Fenced) -> Result<()> {
        let parts = held.fence_parts()?;
        let key = |guard: &Guard| match guard {
            Guard::Record { key, .. } => Some(key.clone()),
            Guard::Stream { .. } => None,
        };
        let keys: Vec<_> = parts.guards.iter().filter_map(key).collect();
        self.fenced_parts(keys, parts)
    }

    /// Stages parts that no longer hold for good once one of these records has changed.
    fn fenced_parts(&self, keys: impl IntoIterator<Item = RecordKey>, parts: Commit) -> Result<()> {
        Ok(self.staged(|staged| {
            staged.fenced.extend(keys);
            staged.join(parts);
        })?)
    }

    /// Stages parts of a commit as they are: everything that the store's contract has.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    pub fn parts(&self, parts: Commit) -> Result<()> {
        Ok(self.staged(|staged| staged.join(parts))?)
    }

    /// Lands a transaction of the store's PostgreSQL database with this unit of work. Begin it with
    /// [`PostgresStore::begin`](tidelock_store_postgres::PostgresStore::begin), and write to your
    /// own tables in it.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    #[cfg(feature = "postgres")]
    pub fn with_postgres(&self, own: tidelock_store_postgres::PgTx) -> Result<()> {
        Ok(self.staged(|staged| staged.via = super::CommitVia::Postgres(own))?)
    }

    /// Lands these statements, for your own tables in the store's SQLite file, with this unit of
    /// work.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    #[cfg(feature = "sqlite")]
    pub fn with_sqlite(
        &self,
        store: &tidelock_store_sqlite::SqliteStore,
        own: impl IntoIterator<Item = tidelock_store_sqlite::SqlStatement>,
    ) -> Result<()> {
        let via = super::CommitVia::Sqlite(store.clone(), own.into_iter().collect());
        Ok(self.staged(|staged| staged.via = via)?)
    }

    /// Accesses what is staged; an error once the unit of work is over.
    pub(crate) fn staged<T>(&self, access: impl FnOnce(&mut Staged) -> T) -> Result<T, StoreError> {
        self.lock().as_mut().map(access).ok_or_else(|| {
            StoreError::invalid("the transaction is over: its closure or handler has returned")
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Staged>> {
        self.shared.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.staged(|_| ())
    }

    /// Adds what the event leaves out of the metadata.
    fn caused(&self, event: NewEvent) -> NewEvent {
        let (mut metadata, inherited) = (Metadata::from_json(&event.metadata), self.metadata());
        metadata.correlation = metadata.correlation.or_else(|| inherited.correlation.clone());
        metadata.causation = metadata.causation.or(inherited.causation);
        metadata.reaction = metadata.reaction.or_else(|| inherited.reaction.clone());
        // It was JSON before, and three short fields do not change that.
        match metadata.to_json() {
            Ok(metadata) => event.with_metadata(metadata),
            Err(_) => event,
        }
    }
}

fn twice(what: &str, name: &impl Debug) -> StoreError {
    StoreError::invalid(format!(
        "{what} {name:?} comes twice in one transaction; what is staged is not visible to a second decision"
    ))
}

/// The record as it was read.
fn expected(slot: &Slot) -> ExpectedRevision {
    match slot {
        Slot::Live(record) => ExpectedRevision::Revision(record.revision),
        Slot::Deleted(_) | Slot::Absent => ExpectedRevision::Absent,
    }
}
