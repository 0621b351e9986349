//! Where a staged commit goes: to the store, or there together with rows of the user's own tables.

#[cfg(feature = "postgres")]
use tidelock_store::async_trait;
use tidelock_store::{Commit, CommitOutcome, Conflict, Result, StoreError};

use crate::events::submit;
use crate::handle::Tidelock;
use crate::telemetry;
use crate::worker::LeasedTask;

/// What lands with the commit besides its own parts.
#[derive(Debug, Default)]
pub(crate) enum CommitVia {
    /// Nothing.
    #[default]
    Store,
    /// A transaction, which the commit ends.
    #[cfg(feature = "postgres")]
    Postgres(std::sync::Arc<tidelock_store_postgres::PgTx>),
    /// Statements that run in the commit's transaction, and reads on which it rests.
    #[cfg(feature = "sqlite")]
    Sqlite(tidelock_store_sqlite::SqliteStore, SqliteParts),
}

/// What a commit carries for the user's own tables in SQLite.
#[cfg(feature = "sqlite")]
#[derive(Debug, Default, Clone)]
pub(crate) struct SqliteParts {
    pub(crate) reads: Vec<tidelock_store_sqlite::SqlRead>,
    pub(crate) statements: Vec<tidelock_store_sqlite::SqlStatement>,
}

/// What a staged commit came to.
#[derive(Debug)]
pub(crate) enum ViaOutcome {
    /// What the store says.
    Store(CommitOutcome),
    /// Rows of the user's own tables are not what the code has read.
    #[cfg(feature = "sqlite")]
    RowsChanged {
        /// The query that returned them.
        sql: String,
    },
}

/// A transaction that the caller began, and ends. A commit in it is judged, and written.
#[cfg(feature = "postgres")]
#[async_trait]
pub(crate) trait CallersTransaction: std::fmt::Debug + Send + Sync {
    /// Makes the commit in it.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome>;
}

/// Sends a commit until its outcome is known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// For as long as the task's lease is held.
    Task(&'a LeasedTask),
    /// As often as the handle's retry policy says.
    Handle(&'a Tidelock),
    /// Into a transaction of the caller.
    #[cfg(feature = "postgres")]
    Caller(&'a dyn CallersTransaction),
}

impl Sender<'_> {
    /// Whether what was committed has landed: in a transaction of the caller it lands later.
    pub(super) fn is_final(self) -> bool {
        match self {
            Self::Task(_) | Self::Handle(_) => true,
            #[cfg(feature = "postgres")]
            Self::Caller(_) => false,
        }
    }

    async fn send(self, commit: Commit) -> Result<CommitOutcome> {
        match self {
            Self::Task(task) => task.commit(commit).await,
            Self::Handle(tidelock) => {
                let (store, commit) = (&**tidelock.store(), submit::ensure_retry_id(commit));
                submit::send(store, &commit, tidelock.retry(), tidelock.random()).await
            }
            #[cfg(feature = "postgres")]
            Self::Caller(transaction) => transaction.commit(commit).await,
        }
    }

    /// Adds what fences every commit of the sender.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn fenced(self, commit: Commit) -> Commit {
        match self {
            Self::Task(task) => task.under_permit(commit),
            Self::Handle(_) => commit,
            #[cfg(feature = "postgres")]
            Self::Caller(_) => commit,
        }
    }

    /// Reports a lost race.
    pub(super) fn contended(self, conflict: &Conflict, attempts: usize) {
        match self {
            Self::Task(task) => telemetry::reaction_contended(&task.token(), conflict, attempts),
            Self::Handle(_) => telemetry::transact_contended(conflict, attempts),
            #[cfg(feature = "postgres")]
            Self::Caller(_) => telemetry::transact_contended(conflict, attempts),
        }
    }
}

impl CommitVia {
    /// Whether the commit goes to the store alone.
    pub(crate) fn is_store(&self) -> bool {
        matches!(self, Self::Store)
    }

    /// Whether the same can be tried again after a conflict.
    pub(crate) fn can_be_tried_again(&self) -> bool {
        match self {
            Self::Store => true,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => false,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(..) => true,
        }
    }

    /// Whether the code that staged still has its transaction, so that the commit cannot end it.
    pub(crate) fn is_kept(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(own) => std::sync::Arc::strong_count(own) > 1,
            _ => false,
        }
    }

    /// Makes the commit. A PostgreSQL transaction is over afterwards, whatever the outcome.
    pub(crate) async fn commit(
        &mut self,
        sender: Sender<'_>,
        commit: Commit,
    ) -> Result<ViaOutcome> {
        match self {
            Self::Store => sender.send(commit).await.map(ViaOutcome::Store),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => match std::mem::take(self) {
                Self::Postgres(own) => match std::sync::Arc::into_inner(own) {
                    Some(own) => own.commit(sender.fenced(commit)).await.map(ViaOutcome::Store),
                    None => Err(kept()),
                },
                _ => unreachable!("it was one a moment ago"),
            },
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store, own) => {
                let SqliteParts { reads, statements } = own.clone();
                Ok(
                    match store.commit_resting_on(sender.fenced(commit), reads, statements).await? {
                        tidelock_store_sqlite::SqlOutcome::Store(outcome) => {
                            ViaOutcome::Store(outcome)
                        }
                        tidelock_store_sqlite::SqlOutcome::Changed { sql } => {
                            ViaOutcome::RowsChanged { sql }
                        }
                    },
                )
            }
        }
    }
}

/// The commit ends the transaction, so nothing else may still have it.
pub(crate) fn kept() -> StoreError {
    StoreError::invalid("the code kept its transaction: drop every clone before it returns")
}
