//! [`TransactOnce`]: a unit of work under an operation id.
//!
//! The closure's value is written to a record in the commit of the unit of work. A repetition reads
//! the record; a concurrent one conflicts with it, runs its closure again and then reads it.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Commit, ExpectedRevision, RawJson, RecordKey, RecordWrite, StoreExt, When, limits,
};

use super::Transact;
use crate::bounds;
use crate::error::{Error, Result};
use crate::staging::{Tx, keys};

impl<'a, F> Transact<'a, F> {
    /// Makes the unit of work take effect once under this id, however often it is called.
    ///
    /// The closure's value is kept, in the same commit, for seven days or for the [deduplication
    /// window](TransactOnce::dedup_window), and a repetition returns it without running the
    /// closure. An error is not kept: a repetition runs the closure again.
    /// [`Tx::effect_key`] is the id, the same in every repetition.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let next = async |tx: Tx| -> tidelock::Result<u32> {
    ///     let next = tx.get::<u32>("orders/last").await?.unwrap_or_default() + 1;
    ///     tx.put("orders/last", &next)?;
    ///     Ok(next)
    /// };
    /// assert_eq!(tidelock.transact(next).operation_id("request-17").await?, 1);
    /// assert_eq!(tidelock.transact(next).operation_id("request-17").await?, 1); // the same order
    /// assert_eq!(tidelock.transact(next).operation_id("request-18").await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn operation_id(self, id: impl Into<String>) -> TransactOnce<'a, F> {
        TransactOnce { work: self, id: id.into(), dedup_window: limits::COMMIT_MEMORY }
    }
}

/// A unit of work that takes effect once under its operation id, to be awaited.
#[must_use = "nothing is done before it is awaited"]
pub struct TransactOnce<'a, F> {
    work: Transact<'a, F>,
    id: String,
    dedup_window: Duration,
}

impl<F> fmt::Debug for TransactOnce<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactOnce").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<F> TransactOnce<'_, F> {
    /// Sets how long the operation id and the value are kept.
    pub fn dedup_window(mut self, long: Duration) -> Self {
        self.dedup_window = long;
        self
    }

    async fn run<T, E, R>(self) -> Result<T, E>
    where
        F: Fn(Tx) -> R,
        R: Future<Output = Result<T, E>>,
        T: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let kept = Kept::new(&self.id, self.dedup_window)?;
        let Transact { tidelock, closure, retry, metadata, .. } = self.work;
        let once = async |tx: Tx| -> Result<T, E> {
            if let Some(value) = kept.read(&tx).await? {
                return Ok(value);
            }
            let value = closure(tx.clone()).await?;
            kept.stage(&tx, &value)?;
            Ok(value)
        };
        Transact { tidelock, closure: once, retry, metadata, effect_key: Some(self.id) }.run().await
    }
}

/// The record with the value of an operation.
#[derive(Debug)]
struct Kept {
    record: RecordKey,
    dedup_window: Duration,
}

impl Kept {
    fn new(id: &str, dedup_window: Duration) -> Result<Self> {
        bounds::names(id)?;
        bounds::keeps(format_args!("operation {id:?}: a deduplication window"), dedup_window)?;
        Ok(Self { record: keys::operation(id)?, dedup_window })
    }

    /// The value, if the operation was carried out.
    async fn read<T: DeserializeOwned>(&self, tx: &Tx) -> Result<Option<T>> {
        let record = tx.store().get_one(&self.record).await?.into_live();
        Ok(record.map(|record| record.value.to()).transpose()?)
    }

    /// Stages the value. A concurrent repetition that was first makes the closure run again.
    fn stage<T: Serialize>(&self, tx: &Tx, value: &T) -> Result<()> {
        let value = RawJson::new(value)?;
        let write = RecordWrite::put(&self.record, ExpectedRevision::Absent, value)
            .expiring(When::In(self.dedup_window));
        Ok(tx.staged(|staged| staged.derive(Commit::new().write(write)))?)
    }
}

impl<'a, T, E, F, R> IntoFuture for TransactOnce<'a, F>
where
    T: Serialize + DeserializeOwned + Send + 'a,
    E: From<Error> + Send + 'a,
    F: Fn(Tx) -> R + Send + Sync + 'a,
    R: Future<Output = Result<T, E>> + Send + 'a,
{
    type Output = Result<T, E>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}
