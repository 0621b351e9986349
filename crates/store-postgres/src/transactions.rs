//! User transactions: user SQL and a commit in one database transaction.

use tidelock_store::{Commit, CommitOutcome, Result, StoreError, StoreOperation};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::PostgresStore;
use crate::commit;
use crate::connect::Borrowed;
use crate::connect::Parameters;
use crate::error::failed;
use crate::wake::Wakes;

/// A transaction in the store's database for user statements, which ends with a commit to the
/// store.
///
/// Both are committed atomically, or neither is: rows of a read model and the cursor that says how
/// far it has read; an effect in a table and the record that says it was done.
///
/// Statements run first and the commit comes last, so that contended locks are held only briefly.
/// Dropped without a commit, everything is rolled back.
#[derive(Debug)]
pub struct PgTx {
    borrowed: Borrowed,
    wakes: Wakes,
}

impl PostgresStore {
    /// Begins a transaction for user statements, on an exclusive connection.
    ///
    /// # Errors
    /// `Unavailable` if there is no connection.
    pub async fn begin(&self) -> Result<PgTx> {
        self.shared.check_open(StoreOperation::Commit)?;
        let borrowed = self
            .shared
            .transactions
            .borrow()
            .await
            .map_err(|e| e.during(StoreOperation::Commit))?;
        let begun = borrowed.session().begin_for_user().await;
        begun.map_err(|e| self.shared.connector.at(failed(e)))?;
        Ok(PgTx { borrowed, wakes: self.shared.wakes.clone() })
    }
}

impl PgTx {
    /// Runs a statement and returns its rows.
    ///
    /// # Errors
    /// The server's error. After an error the transaction is unusable: drop it.
    pub async fn query(
        &self,
        sql: &str,
        with: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.borrowed.session().client().query(sql, with).await
    }

    /// Runs a statement and returns the number of rows it changed.
    ///
    /// # Errors
    /// The server's error. After an error the transaction is unusable: drop it.
    pub async fn execute(
        &self,
        sql: &str,
        with: Parameters<'_>,
    ) -> Result<u64, tokio_postgres::Error> {
        self.borrowed.session().client().execute(sql, with).await
    }

    /// Commits to the store and ends the transaction: both are durable, or neither.
    ///
    /// After a conflict the statements are rolled back as well. The same holds if this commit was
    /// made before (under the same id, with the same events, or settling the same lease in the same
    /// way): then the statements were committed with it the first time, and its result is returned.
    /// So after an unknown outcome, begin again, run the same statements and make the same commit.
    ///
    /// # Errors
    /// As [`Store::commit`](tidelock_store::Store::commit). A temporary failure is not retried
    /// here, because the statements would have to run again too: begin again.
    pub async fn commit(self, commit: Commit) -> Result<CommitOutcome> {
        self.commit_checked(commit).await.map_err(|e: StoreError| e.during(StoreOperation::Commit))
    }

    async fn commit_checked(self, commit: Commit) -> Result<CommitOutcome> {
        commit.check()?;
        self.borrowed.session().resume_own().await.map_err(not_resumed)?;
        let verdict = commit::commit_begun(self.borrowed.session(), &commit).await?;
        self.borrowed.give_back();
        self.wakes.written(verdict.topics);
        verdict.outcome
    }
}

fn not_resumed(error: tokio_postgres::Error) -> StoreError {
    if error.code() == Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION) {
        return StoreError::invalid(
            "the transaction was ended by one of its own statements, so nothing would land together: leave COMMIT and \
             ROLLBACK to the store",
        );
    }
    failed(error)
}
