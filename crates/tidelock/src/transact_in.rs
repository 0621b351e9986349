//! [`Tidelock::transact_in`]: a unit of work inside a transaction that the caller began.

use std::fmt;
use std::future::IntoFuture;
use std::sync::{Mutex as SyncMutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, EventId, Result, StoreError, async_trait,
};
use tidelock_store_postgres::{PendingCommit, PostgresStore, SqlExecutor};
use tokio::sync::Mutex;

use crate::error::{Error, ErrorKind};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::staging::{CallersTransaction, DECISION_ATTEMPTS, Sender, Staged, Tried, Tx};
use crate::transact::{is_unfenced, lease_lost};

impl Tidelock {
    /// Runs a closure that stages like that of [`transact`](Self::transact), and writes all of it
    /// in a PostgreSQL transaction that you began: it is durable with your COMMIT, or never.
    ///
    /// The closure runs once. A staged decision that returns nothing to the closure is taken again
    /// on a conflict; for anything else a conflict is an error, your transaction is as it was
    /// before the call, and you may roll back and begin again, since only you know your statements.
    ///
    /// The reads of the closure are made by the store's own connections: they do not see what your
    /// transaction has written. So stage everything about one aggregate or scope in one call.
    ///
    /// A [grant](crate::claims::Grant) that the closure got is refunded from where you stored it:
    /// the value in your hands does not learn of your COMMIT.
    ///
    /// Call it last, and commit at once: until then what it wrote is locked, and the feed waits.
    /// See the guide to transactions.
    ///
    /// # Errors
    /// The closure's own; of kind `Conflict` if something that the commit rests on is not, or no
    /// longer, as expected; `LeaseLost` if something that [fences](Tx::fence) it is no longer held;
    /// `Unavailable` if another transaction was faster; `Invalid` if the store is not on
    /// PostgreSQL, the transaction is in another database, or it has failed before; the store's.
    /// Nothing is written after an error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server refuses a COMMIT of a half-written unit of work; what
    /// was written completely by then is in your transaction.
    pub fn transact_in<C, T, E, F, R>(&self, connection: C, closure: F) -> TransactIn<'_, C, F>
    where
        C: SqlExecutor,
        F: FnOnce(Tx) -> R + Send,
        R: Future<Output = Result<T, E>> + Send,
        E: From<Error>,
    {
        TransactIn { tidelock: self, connection, closure, metadata: Metadata::new() }
    }

    /// Makes a commit as it is in a PostgreSQL transaction that you began: see
    /// [`PostgresStore::commit_in`].
    ///
    /// # Errors
    /// Those of [`PostgresStore::commit_in`]; `Invalid` if the store is not on PostgreSQL. A
    /// conflict is an outcome.
    pub async fn commit_in(
        &self,
        mut connection: impl SqlExecutor,
        commit: &Commit,
    ) -> Result<PendingCommit, Error> {
        Ok(below(self)?.commit_in(&mut connection, commit).await?)
    }
}

fn below(tidelock: &Tidelock) -> Result<&PostgresStore> {
    tidelock.postgres().ok_or_else(|| {
        StoreError::invalid(
            "the store is not in PostgreSQL, so it cannot commit in your transaction",
        )
    })
}

/// A unit of work in a transaction of the caller, to be awaited.
#[must_use = "nothing is done before it is awaited"]
pub struct TransactIn<'a, C, F> {
    tidelock: &'a Tidelock,
    connection: C,
    closure: F,
    metadata: Metadata,
}

impl<C, F> fmt::Debug for TransactIn<'_, C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactIn").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

/// A unit of work that was written in a transaction which is still open.
#[derive(Debug, Default)]
#[must_use = "announce it after the COMMIT, so that others need not poll for it"]
pub struct Pending(Option<PendingCommit>);

impl Pending {
    /// Wakes those that wait for what has changed, in this process and in others. Call it after
    /// your COMMIT. Without it, they find the change when they next poll.
    pub fn announce(self) {
        self.0.into_iter().for_each(PendingCommit::announce);
    }

    /// The commit, as it will be after your COMMIT; none if the closure staged nothing.
    pub fn committed(&self) -> Option<&Committed> {
        match self.0.as_ref()?.outcome() {
            CommitOutcome::Committed(committed) => Some(committed),
            CommitOutcome::Conflict(_) => None,
        }
    }
}

/// The caller's transaction, and the commit that was made in it.
struct InTransaction<'a, C> {
    store: &'a PostgresStore,
    connection: Mutex<C>,
    made: SyncMutex<Option<PendingCommit>>,
}

impl<C> fmt::Debug for InTransaction<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTransaction").finish_non_exhaustive()
    }
}

#[async_trait]
impl<C: SqlExecutor> CallersTransaction for InTransaction<'_, C> {
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let mut connection = self.connection.lock().await;
        let pending = self.store.commit_in(&mut *connection, &commit).await?;
        let outcome = pending.outcome().clone();
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending);
        Ok(outcome)
    }
}

impl<C: SqlExecutor, F> TransactIn<'_, C, F> {
    async fn run<T, E, R>(self) -> Result<(T, Pending), E>
    where
        F: FnOnce(Tx) -> R,
        R: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let store = below(self.tidelock).map_err(Error::from)?;
        let tx = Tx::new(self.tidelock, self.metadata, EventId::fresh().to_string());
        let value = (self.closure)(tx.clone()).await?;
        let staged = tx.finish();
        if staged.is_empty() {
            return Ok((value, Pending::default()));
        }
        let (connection, made) = (Mutex::new(self.connection), SyncMutex::default());
        let transaction = InTransaction { store, connection, made };
        land(staged, &transaction).await?;
        let made = transaction.made.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((value, Pending(made)))
    }
}

impl<C, F> TransactIn<'_, C, F> {
    /// Sets the metadata that appended events inherit.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sets the actor of appended events.
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.metadata.actor = Some(actor.into());
        self
    }
}

async fn land(
    mut staged: Staged,
    transaction: &dyn CallersTransaction,
) -> std::result::Result<(), Error> {
    if !staged.via.is_store() {
        return Err(StoreError::invalid(
            "the unit of work has a transaction of the store: run your SQL in the one that it is in",
        )
        .into());
    }
    for attempt in 1..=DECISION_ATTEMPTS {
        match staged.attempt(Sender::Caller(transaction), &Commit::new(), attempt).await? {
            Tried::Landed(_) => return Ok(()),
            Tried::Stale => {}
            Tried::Lost(conflict) => return Err(Error::new(ErrorKind::LeaseLost, conflict)),
            Tried::Moved(conflict) => return Err(conflict.into()),
            Tried::Refused(error) => return Err(refused(error, &staged)),
        }
    }
    let why = "others were quicker every time that the decision was taken";
    Err(Error::new(ErrorKind::Contended, why).retryable())
}

fn refused(error: HandlerError, staged: &Staged) -> Error {
    match error.error().downcast_ref::<Conflict>() {
        Some(conflict) if is_unfenced(conflict, staged) => lease_lost(&format!(
            "a lock or claim that fences the commit is no longer held: {conflict}"
        )),
        Some(conflict) => conflict.clone().into(),
        None => error.into(),
    }
}

impl<'a, C, T, E, F, R> IntoFuture for TransactIn<'a, C, F>
where
    C: SqlExecutor + 'a,
    T: Send + 'a,
    E: From<Error> + Send + 'a,
    F: FnOnce(Tx) -> R + Send + 'a,
    R: Future<Output = Result<T, E>> + Send + 'a,
{
    type Output = Result<(T, Pending), E>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}
