//! [`Tx`]: a unit of work over every pattern, which lands in one commit or not at all.
//!
//! The calls of a pattern are in a file `tx_….rs` of the pattern; here is what knows none of them.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Bounds, Change, Commit, ExpectedRevision, Guard, RawJson, RecordKey, RecordWrite, Slot, Store,
    StoreError, StoreExt, Wake,
};

use super::{Decision, Fenced, Staged};
use crate::error::Result;
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;

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
            Some(Change::Edit { .. }) => {
                let why = "the store edits it at the commit; read it before";
                return Err(StoreError::invalid(format!("record {key:?}: {why}")).into());
            }
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

    /// Stages the JSON of a value under a key, whatever was there. A second value takes the place
    /// of the first.
    ///
    /// # Errors
    /// `Invalid` if the key is none, or the value cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let rename = async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.put("users/7", "Ada")?;
    ///     tx.delete("names/7")
    /// };
    /// tidelock.transact(rename).await?;
    /// # Ok(())
    /// # }
    /// ```
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

    /// Accesses what is staged; an error once the unit of work is over.
    pub(crate) fn staged<T>(&self, access: impl FnOnce(&mut Staged) -> T) -> Result<T, StoreError> {
        self.lock().as_mut().map(access).ok_or_else(|| {
            StoreError::invalid("the transaction is over: its closure or handler has returned")
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Staged>> {
        self.shared.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.staged(|_| ())
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

/// The error of a second decision about one thing.
pub(crate) fn twice(what: &str, name: &impl Debug) -> StoreError {
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
