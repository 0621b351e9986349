//! The way that a handler's commit takes: straight to the store, or together with rows in tables of
//! the user's own.

use tidelock_store::{Commit, CommitOutcome, Result};

use crate::worker::LeasedTask;

/// What lands with the commit besides its own parts.
#[derive(Debug, Default)]
pub(crate) enum CommitVia {
    /// Nothing.
    #[default]
    Shut,
    /// What was done in a transaction, which this commit ends.
    #[cfg(feature = "postgres")]
    Postgres(tidelock_store_postgres::PgTx),
    /// Statements that run in the commit's transaction.
    #[cfg(feature = "sqlite")]
    Sqlite(tidelock_store_sqlite::SqliteStore, Vec<tidelock_store_sqlite::SqlStatement>),
}

impl CommitVia {
    /// Whether nothing lands besides.
    pub(crate) fn is_shut(&self) -> bool {
        matches!(self, Self::Shut)
    }

    /// Whether the same can be tried again after a conflict.
    pub(crate) fn can_be_tried_again(&self) -> bool {
        match self {
            Self::Shut => true,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => false,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(..) => true,
        }
    }

    /// Makes the commit this way. A transaction is over afterwards, whatever came of it.
    pub(crate) async fn commit(
        &mut self,
        task: &LeasedTask,
        commit: Commit,
    ) -> Result<CommitOutcome> {
        match self {
            Self::Shut => task.commit(commit).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => match std::mem::take(self) {
                Self::Postgres(own) => own.commit(commit).await,
                _ => unreachable!("it was one a moment ago"),
            },
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store, own) => store.commit_with(commit, own.clone()).await,
        }
    }
}
