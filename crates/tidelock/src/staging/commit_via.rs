//! Where a staged commit goes: to the store, or there together with rows of the user's own tables.

use tidelock_store::{Commit, CommitOutcome, Conflict, Result};

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
    Postgres(tidelock_store_postgres::PgTx),
    /// Statements that run in the commit's transaction.
    #[cfg(feature = "sqlite")]
    Sqlite(tidelock_store_sqlite::SqliteStore, Vec<tidelock_store_sqlite::SqlStatement>),
}

/// Sends a commit until its outcome is known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// For as long as the task's lease is held.
    Task(&'a LeasedTask),
    /// As often as the handle's retry policy says.
    Handle(&'a Tidelock),
}

impl Sender<'_> {
    async fn send(self, commit: Commit) -> Result<CommitOutcome> {
        match self {
            Self::Task(task) => task.commit(commit).await,
            Self::Handle(tidelock) => {
                let (store, commit) = (&**tidelock.store(), submit::ensure_retry_id(commit));
                submit::send(store, &commit, tidelock.retry(), tidelock.random()).await
            }
        }
    }

    /// Adds what fences every commit of the sender.
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn fenced(self, commit: Commit) -> Commit {
        match self {
            Self::Task(task) => task.under_permit(commit),
            Self::Handle(_) => commit,
        }
    }

    /// Reports a lost race.
    pub(super) fn contended(self, conflict: &Conflict, attempts: usize) {
        match self {
            Self::Task(task) => telemetry::reaction_contended(&task.token(), conflict, attempts),
            Self::Handle(_) => telemetry::transact_contended(conflict, attempts),
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

    /// Makes the commit. A PostgreSQL transaction is over afterwards, whatever the outcome.
    pub(crate) async fn commit(
        &mut self,
        sender: Sender<'_>,
        commit: Commit,
    ) -> Result<CommitOutcome> {
        match self {
            Self::Store => sender.send(commit).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => match std::mem::take(self) {
                Self::Postgres(own) => own.commit(sender.fenced(commit)).await,
                _ => unreachable!("it was one a moment ago"),
            },
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store, own) => store.commit_with(sender.fenced(commit), own.clone()).await,
        }
    }
}
