//! [`Tx`]: a unit of work over every pattern, which lands in one commit or not at all.

use std::fmt::{Debug, Display};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Bounds, Change, Commit, ExpectedRevision, ExpectedVersion, Guard, NewEvent, RawJson, RecordKey,
    RecordWrite, Slot, Store, StoreError, StoreExt, StreamName, Wake,
};

use super::{Decision, Fenced, Landing, Staged};
use crate::claims::{
    AttachedKey, ClaimGuard, Grant, Quota, QuotaExceeded, RateExceeded, RateLimit, RateUsage,
    Reservation, Singleton, SingletonTaken,
};
use crate::error::Result;
use crate::event_draft::IntoNewEvents;
use crate::events::{Aggregate, AggregateRef, ExecuteError, IntoEvents, Loaded};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::outcome::Outcome;
use crate::queues::EnqueueItem;
use crate::scopes::{Scope, ScopeError, ScopeRead, ScopeState};

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

    /// Refuses a handle on another store: its parts would land in this one.
    pub(crate) fn check_store(&self, of: &Tidelock) -> Result<(), StoreError> {
        self.check()?;
        match Arc::ptr_eq(of.store(), self.store()) {
            true => Ok(()),
            false => Err(StoreError::invalid(
                "a handle of another store in a transaction; make it with the Tidelock that runs the transaction",
            )),
        }
    }

    /// Requires at the commit that what was read has not changed.
    pub(crate) fn pin(&self, guards: impl IntoIterator<Item = Guard>) -> Result<(), StoreError> {
        self.staged(|staged| staged.pin(guards))
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
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[derive(Debug, Default, Clone)]
    /// # struct Stock { left: i64 }
    /// # #[derive(Debug, Clone, Event)]
    /// # enum StockEvent { Received { units: i64 }, Reserved { units: i64 } }
    /// # impl Aggregate for Stock {
    /// #     const KIND: &'static str = "stock";
    /// #     type Event = StockEvent;
    /// #     fn apply(&mut self, event: &StockEvent) {
    /// #         match event {
    /// #             StockEvent::Received { units } => self.left += units,
    /// #             StockEvent::Reserved { units } => self.left -= units,
    /// #         }
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let stock = tidelock.aggregate::<Stock>("assam");
    /// stock.append(StockEvent::Received { units: 3 }).await?;
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let reserve = |stock: &Stock| match stock.left {
    ///             2.. => Ok(StockEvent::Reserved { units: 2 }),
    ///             left => Err(format!("only {left} left")),
    ///         };
    ///         tx.execute(&stock, reserve).await?;
    ///         tx.put("orders/7", &2)
    ///     })
    ///     .await?;
    /// assert_eq!(stock.load().await?.state.left, 1);
    /// # Ok(())
    /// # }
    /// ```
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
        self.check_store(aggregate.tidelock())?;
        let stream = aggregate.stream()?;
        if self.staged(|staged| staged.decides_on(stream))? {
            return Err(twice("stream", stream).into());
        }
        let decide = Arc::new(decide);
        // The trace of this call, also when the decision is taken again.
        let decision = aggregate.decision().metadata(self.metadata().traced().into_owned());
        let first = match decision.clone().propose_guarded(&*decide).await {
            Ok(parts) => parts,
            Err((error, guards)) => {
                self.pin(guards)?;
                return Err(error);
            }
        };
        let again = move || {
            let (decision, decide) = (decision.clone(), decide.clone());
            async move {
                let proposed = decision.propose_guarded(&*decide).await;
                proposed.map_err(|(error, _)| HandlerError::again(error.to_string()))
            }
            .boxed()
        };
        let decided = aggregate.clone();
        let follow = move |parts: &Commit| {
            let (decided, parts) = (decided.clone(), parts.clone());
            async move { decided.write_snapshot_after(&parts).await }.boxed()
        };
        let decision = Decision::taken(Box::new(again), first).followed_by(Box::new(follow));
        let is_first = self.staged(|staged| {
            let is_first = !staged.decides_on(stream);
            if is_first {
                staged.decisions.push(decision);
            }
            is_first
        })?;
        // A concurrent call may have decided about the aggregate meanwhile.
        if is_first { Ok(()) } else { Err(twice("stream", stream).into()) }
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

    /// Loads an aggregate as it is in the store, and stages a guard on its version. Events that
    /// this unit of work stages are not part of the state.
    ///
    /// # Errors
    /// Those of [`AggregateRef::load`].
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[derive(Debug, Default, Clone)]
    /// # struct Stock { left: i64 }
    /// # #[derive(Debug, Clone, Event)]
    /// # enum StockEvent { Received { units: i64 }, Reserved { units: i64 } }
    /// # impl Aggregate for Stock {
    /// #     const KIND: &'static str = "stock";
    /// #     type Event = StockEvent;
    /// #     fn apply(&mut self, event: &StockEvent) {
    /// #         match event {
    /// #             StockEvent::Received { units } => self.left += units,
    /// #             StockEvent::Reserved { units } => self.left -= units,
    /// #         }
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let stock = tidelock.aggregate::<Stock>("assam");
    /// let report = tidelock.transact(async |tx: Tx| -> tidelock::Result<i64> {
    ///     let left = tx.load(&stock).await?.state.left; // the commit is refused if it changes meanwhile
    ///     tx.put("report/assam", &left)?;
    ///     Ok(left)
    /// });
    /// assert_eq!(report.await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn load<A: Aggregate>(&self, aggregate: &AggregateRef<A>) -> Result<Loaded<A>> {
        self.check_store(aggregate.tidelock())?;
        let (stream, loaded) = (aggregate.stream()?, aggregate.load().await?);
        let expected = loaded.version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
        self.pin([Guard::Stream { stream: stream.clone(), expected }])?;
        Ok(loaded)
    }

    /// Reads the record under a key as this unit of work leaves it, and stages a guard on the
    /// revision that was read.
    ///
    /// # Errors
    /// `Unreadable` if the record is not a `T`; the store's errors.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let next = async |tx: Tx| -> tidelock::Result<u32> {
    ///     let next = tx.get::<u32>("orders/last").await?.unwrap_or_default() + 1;
    ///     tx.put("orders/last", &next)?; // runs again if another order was first
    ///     Ok(next)
    /// };
    /// assert_eq!(tidelock.transact(next).await?, 1);
    /// assert_eq!(tidelock.transact(next).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get<T: DeserializeOwned>(&self, key: impl AsRef<str>) -> Result<Option<T>> {
        let key = RecordKey::new(key.as_ref())?;
        let staged = self.staged(|staged| staged.writes_to(&key).cloned())?;
        let added = match staged.map(|write| write.change) {
            Some(Change::Put { value, .. }) => return Ok(Some(value.to()?)),
            Some(Change::Delete) => return Ok(None),
            Some(Change::Add { delta, .. }) => Some(delta),
            Some(_) | None => None,
        };
        let slot = self.store().get_one(&key).await?;
        self.pin([Guard::Record { expected: expected(&slot), key }])?;
        let value = slot.live().map(|record| &record.value);
        Ok(match added {
            Some(delta) => {
                let count: i64 = value.map(RawJson::to).transpose()?.unwrap_or_default();
                Some(RawJson::new(&count.saturating_add(delta))?.to()?)
            }
            None => value.map(RawJson::to).transpose()?,
        })
    }

    /// Changes the state of a stored scope by a function of it, and returns what the function
    /// returned. A second change in the same unit of work sees the first one.
    ///
    /// # Errors
    /// Those of [`Scope::mutate`], without its deadline: a concurrent change is found at the
    /// commit. `Invalid` for a scope in memory, which no commit can hold.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
    /// basket.push("", "tea").await?;
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let items = tx.mutate(&basket, std::mem::take).await?;
    ///         tx.put("orders/7", &items)
    ///     })
    ///     .await?;
    /// assert!(basket.get().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
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
        let read = self.read_scope(scope).await.map_err(ScopeError::widen)?;
        match read.change(mutate) {
            Ok((Some(write), answer)) => {
                self.staged(|staged| staged.replace(Commit::new().write(write)))?;
                Ok(answer)
            }
            Ok((None, answer)) => {
                self.pin([read.guard()])?;
                Ok(answer)
            }
            Err(refused) => {
                self.pin([read.guard()])?;
                Err(refused)
            }
        }
    }

    /// Reads a scope as this unit of work leaves it. That it is gone is compared at the commit.
    pub(crate) async fn read_scope<'a, S: ScopeState>(
        &self,
        scope: &'a Scope<S>,
    ) -> Result<ScopeRead<'a, S>, ScopeError> {
        self.check()?;
        let key = scope.key()?;
        scope.stored().map_or(Ok(()), |(tidelock, _)| self.check_store(tidelock))?;
        let staged = self.staged(|staged| staged.writes_to(key).cloned())?;
        let is_staged = staged.is_some();
        let read = scope.read(staged).await;
        if let (Err(ScopeError::Gone { .. }), false) = (&read, is_staged) {
            let expected = ExpectedRevision::Absent;
            self.pin([Guard::Record { key: key.clone(), expected }])?;
        }
        read
    }

    /// Takes units of a quota, if so many are left. Several calls for one quota add up. The grant
    /// can be refunded once this unit of work is committed.
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
        self.check_store(quota.tidelock())?;
        let (counter, landing) = (quota.counter()?, Landing::default());
        loop {
            let before = self.staged(|staged| staged.added_to(&counter))?;
            let (parts, grant) = match quota.propose(units, before, &landing).await? {
                Outcome::Granted(proposed) => proposed,
                Outcome::Refused((exceeded, guards)) => {
                    self.pin(guards)?;
                    return Ok(Outcome::Refused(exceeded));
                }
            };
            // A concurrent call may have staged units meanwhile.
            if self.staged(|staged| {
                let is_current = staged.added_to(&counter) == before;
                if is_current {
                    staged.add(&counter, parts);
                    staged.landings.push(landing.clone());
                }
                is_current
            })? {
                return Ok(Outcome::Granted(grant));
            }
        }
    }

    /// Takes units of a rate limit, if so many are available. Several calls for one rate limit add
    /// up.
    ///
    /// # Errors
    /// The store's errors; an exceeded rate limit is an outcome.
    pub async fn take_rate(
        &self,
        rate: &RateLimit,
        units: u32,
    ) -> Result<Outcome<RateUsage, RateExceeded>> {
        self.check_store(rate.tidelock())?;
        let record = rate.record()?;
        loop {
            let before = self.staged(|staged| staged.drawn_from(&record))?;
            let (write, usage) = match rate.propose(units, before).await? {
                Outcome::Granted(proposed) => proposed,
                Outcome::Refused((exceeded, guard)) => {
                    self.pin([guard])?;
                    return Ok(Outcome::Refused(exceeded));
                }
            };
            // A concurrent call may have staged units meanwhile.
            let staged = self.staged(|staged| {
                (staged.drawn_from(&record) == before).then(|| staged.draw(write))
            })?;
            if let Some(staged) = staged {
                staged?;
                return Ok(Outcome::Granted(usage));
            }
        }
    }

    /// Takes a singleton, with details for later claimants.
    ///
    /// # Errors
    /// The store's errors; `Invalid` for a second claim of the singleton. A singleton that is taken
    /// is an outcome.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let welcome = tidelock.singleton("welcome").of("alice");
    /// let greet = async |tx: Tx| -> tidelock::Result<bool> {
    ///     let is_first = tx.claim(&welcome, "at the door").await?.is_granted();
    ///     if is_first {
    ///         tx.enqueue_item(tx.tidelock().queue("mail").enqueue("alice"))?;
    ///     }
    ///     Ok(is_first)
    /// };
    /// assert!(tidelock.transact(greet).await?);
    /// assert!(!tidelock.transact(greet).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim(
        &self,
        singleton: &Singleton,
        details: &(impl Serialize + ?Sized),
    ) -> Result<Outcome<(), SingletonTaken>> {
        self.check_store(singleton.tidelock())?;
        let parts = match singleton.propose(details).await? {
            Outcome::Granted(parts) => parts,
            Outcome::Refused((taken, guards)) => {
                self.pin(guards)?;
                return Ok(Outcome::Refused(taken));
            }
        };
        let key = parts.writes[0].key.clone();
        let is_first = self.staged(|staged| {
            let is_first = staged.writes_to(&key).is_none();
            if is_first {
                staged.derive(parts);
            }
            is_first
        })?;
        if is_first { Ok(Outcome::Granted(())) } else { Err(twice("claim", &key).into()) }
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
        self.check_store(aggregate.tidelock())?;
        self.parts(aggregate.decision().metadata(self.metadata().clone()).parts(events)?)
    }

    /// Stages events at the end of a stream, which must then be as expected. They inherit the
    /// metadata of the unit of work where they do not say otherwise.
    ///
    /// # Errors
    /// `Invalid` if the name is none, or an event cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// tidelock
    ///     .transact(async |tx: Tx| {
    ///         tx.append_to("order-7", ExpectedVersion::NoStream, event("placed", json!({ "units": 2 })))
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_to(
        &self,
        stream: impl AsRef<str>,
        expected: ExpectedVersion,
        events: impl IntoNewEvents,
    ) -> Result<()> {
        self.check()?;
        let stream = StreamName::new(stream.as_ref())?;
        let events = events.into_new_events()?.into_iter().map(|event| self.caused(event));
        let events: Vec<_> = events.collect();
        self.parts(Commit::new().append(&stream, expected, events))
    }

    /// Stages the JSON of a value under a key, whatever was there. A second value takes the place
    /// of the first.
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

    /// Stages an addition to a counter, which must then be within the range. Several additions to
    /// one counter add up.
    ///
    /// # Errors
    /// `Invalid` if the key is none, if the record is replaced by this unit of work, or if
    /// additions of both signs have bounds.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let sell = async |tx: Tx| tx.add("sold/tea", 2, ..=18); // never more than 18
    /// tidelock.transact(sell).await?;
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let payment = tidelock.idempotency("pay:42");
    /// let IdempotencyClaim::Won(claim) = payment.claim::<String>().await? else { panic!("it is new") };
    /// tidelock
    ///     .transact(async |tx: Tx| {
    ///         tx.put("payments/42", &700)?;
    ///         tx.complete(&claim, &"receipt 1".to_owned())
    ///     })
    ///     .await?; // the payment and the answer to every repetition, or neither
    /// assert!(matches!(payment.claim::<String>().await?, IdempotencyClaim::Done(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete<T: Serialize + DeserializeOwned>(
        &self,
        claim: &ClaimGuard<T>,
        value: &T,
    ) -> Result<()> {
        let write = claim.completion(value)?;
        self.fenced_parts([write.key.clone()], Commit::new().write(write))
    }

    /// Stages the completion of a claim that is continued by its fence.
    ///
    /// # Errors
    /// `LeaseLost` if it is no longer held under this fence.
    pub async fn complete_attached(
        &self,
        claim: &AttachedKey,
        value: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        self.check_store(claim.tidelock())?;
        let write = claim.completion(RawJson::new(value)?).await?;
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
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let guard = tidelock.lock("report").acquire().await?.granted()?;
    /// tidelock
    ///     .transact(async |tx: Tx| {
    ///         tx.fence(&guard)?; // refused, if the lock was lost meanwhile
    ///         tx.put("report/2026", "done")
    ///     })
    ///     .await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
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
    pub(crate) fn fenced_parts(
        &self,
        keys: impl IntoIterator<Item = RecordKey>,
        parts: Commit,
    ) -> Result<()> {
        Ok(self.staged(|staged| {
            staged.stage(parts)?;
            staged.fenced.extend(keys);
            Ok::<_, StoreError>(())
        })??)
    }

    /// Stages parts of a commit as they are: everything that the store's contract has.
    ///
    /// # Errors
    /// `Invalid` if the unit of work is over.
    pub fn parts(&self, parts: Commit) -> Result<()> {
        Ok(self.staged(|staged| staged.stage(parts))??)
    }

    /// Begins a transaction in the store's PostgreSQL database that lands with this unit of work:
    /// read and write your own tables in it. Later calls return the same one. Drop it before the
    /// closure or handler returns.
    ///
    /// If the closure or handler runs again, its statements were rolled back, and it gets another
    /// transaction.
    ///
    /// # Errors
    /// `Invalid` if the store is not on PostgreSQL; `Unavailable` if there is no connection.
    ///
    /// # Examples
    /// ```no_run
    /// # use tidelock::prelude::*;
    /// # async fn example(tidelock: Tidelock) -> tidelock::Result<()> {
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let sql = tx.postgres().await?;
    ///         sql.execute("UPDATE invoices SET paid = true WHERE id = $1", &[&7_i64]).await?;
    ///         tx.enqueue_item(tx.tidelock().queue("receipts").enqueue("invoice-7"))
    ///     })
    ///     .await
    /// # }
    /// ```
    #[cfg(feature = "postgres")]
    pub async fn postgres(&self) -> Result<Arc<tidelock_store_postgres::PgTx>> {
        use super::CommitVia;

        let open = |staged: &mut Staged| match &staged.via {
            CommitVia::Postgres(open) => Some(open.clone()),
            _ => None,
        };
        if let Some(open) = self.staged(open)? {
            return Ok(open);
        }
        let store = self.tidelock().postgres().ok_or_else(|| elsewhere("PostgreSQL"))?;
        let begun = Arc::new(store.begin().await?);
        // A concurrent call may have been faster.
        let open = self.staged(|staged| match open(staged) {
            Some(first) => first,
            None => {
                staged.via = CommitVia::Postgres(begun.clone());
                begun
            }
        })?;
        Ok(open)
    }

    /// Stages statements for your own tables in the store's SQLite file. They run in the commit's
    /// transaction, in the order in which they were staged.
    ///
    /// # Errors
    /// `Invalid` if the store is not in SQLite.
    ///
    /// # Examples
    /// ```no_run
    /// # use tidelock::prelude::*;
    /// use tidelock::sqlite::{SqlStatement, Value};
    ///
    /// # async fn example(tidelock: Tidelock) -> tidelock::Result<()> {
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let open = SqlStatement::new("SELECT sum(cents) FROM invoices WHERE NOT paid");
    ///         let due = tx.sqlite_rows(open).await?; // compared again at the commit
    ///         tx.sqlite([SqlStatement::new("UPDATE invoices SET paid = 1")])?;
    ///         match due[0][0] {
    ///             Value::Integer(cents) => tx.add("revenue", cents, ..),
    ///             _ => Ok(()),
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn sqlite(
        &self,
        own: impl IntoIterator<Item = tidelock_store_sqlite::SqlStatement>,
    ) -> Result<()> {
        self.sqlite_parts(|parts| parts.statements.extend(own))
    }

    /// Runs a query on your own tables in the store's SQLite file, and rests the commit on its
    /// rows: it is made again in the commit's transaction, and if it returns other rows then, the
    /// closure or handler runs again.
    ///
    /// It does not see what is only staged. A query that returns something else each time, such as
    /// the time of day, can never be committed.
    ///
    /// # Errors
    /// `Invalid` if the store is not in SQLite, or the query is refused.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite_rows(
        &self,
        query: tidelock_store_sqlite::SqlStatement,
    ) -> Result<Vec<Vec<tidelock_store_sqlite::Value>>> {
        let store = self.tidelock().sqlite().ok_or_else(|| elsewhere("SQLite"))?;
        let read = store.query(query).await?;
        let rows = read.rows().to_vec();
        self.sqlite_parts(|parts| parts.reads.push(read))?;
        Ok(rows)
    }

    #[cfg(feature = "sqlite")]
    fn sqlite_parts(&self, change: impl FnOnce(&mut super::SqliteParts)) -> Result<()> {
        use super::CommitVia;

        let store = self.tidelock().sqlite().ok_or_else(|| elsewhere("SQLite"))?;
        Ok(self.staged(|staged| {
            if !matches!(staged.via, CommitVia::Sqlite(..)) {
                staged.via = CommitVia::Sqlite(store.clone(), super::SqliteParts::default());
            }
            if let CommitVia::Sqlite(_, parts) = &mut staged.via {
                change(parts);
            }
        })?)
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
        metadata.trace = metadata.trace.or_else(|| self.metadata().traced().trace.clone());
        // It was JSON before, and a few short fields do not change that.
        match metadata.to_json() {
            Ok(metadata) => event.with_metadata(metadata),
            Err(_) => event,
        }
    }
}

/// The one that began a unit of work. Dropping it ends the unit of work, so that no clone outlives
/// the closure or handler, however that ends.
#[derive(Debug)]
pub(crate) struct TxOwner(Tx);

impl TxOwner {
    pub(crate) fn new(tx: Tx) -> Self {
        Self(tx)
    }
}

impl std::ops::Deref for TxOwner {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        &self.0
    }
}

impl Drop for TxOwner {
    fn drop(&mut self) {
        self.0.finish();
    }
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn elsewhere(database: &str) -> StoreError {
    StoreError::invalid(format!("the store is not in {database}, so your SQL cannot land with it"))
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
