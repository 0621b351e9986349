//! The one door through which a commit and a user's own SQL land together.

use tidelock_store::{Commit, CommitOutcome, Result, StoreError, StoreOperation};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::PostgresStore;
use crate::commit;
use crate::error::failed;
use crate::pool::Borrowed;
use crate::session::Parameters;
use crate::wake::Wakes;

/// A transaction in the store's database, for statements of one's own, that ends with a commit to
/// the store.
///
/// Either both are there afterwards or neither is, whatever crashes in between: rows of a read
/// model and the cursor that says how far it has read; an effect in a table and the record that
/// says it was done.
///
/// Statements run first, the commit comes last, so that the locks that others wait for are held for
/// a moment only. Dropped without a commit, everything is undone.
#[derive(Debug)]
pub struct PgTx {
    borrowed: Borrowed,
    wakes: Wakes,
}

impl PostgresStore {
    /// Begins a transaction for statements of one's own, on a connection that nobody else has
    /// meanwhile.
    ///
    /// # Errors
    /// `Unavailable` if there is no connection to be had.
    pub async fn begin(&self) -> Result<PgTx> {
        self.shared.check_open(StoreOperation::Commit)?;
        let borrowed =
            self.shared.door.borrow().await.map_err(|e| e.during(StoreOperation::Commit))?;
        let begun = borrowed.session().lend().await;
        begun.map_err(|e| self.shared.place.at(failed(e)))?;
        Ok(PgTx { borrowed, wakes: self.shared.wakes.clone() })
    }
}

impl PgTx {
    /// Runs a statement and gives its rows.
    ///
    /// # Errors
    /// As the server has it. After an error nothing more can be done in this transaction: drop it.
    pub async fn query(
        &self,
        sql: &str,
        with: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.borrowed.session().client().query(sql, with).await
    }

    /// Runs a statement and gives the number of rows it changed.
    ///
    /// # Errors
    /// As the server has it. After an error nothing more can be done in this transaction: drop it.
    pub async fn execute(
        &self,
        sql: &str,
        with: Parameters<'_>,
    ) -> Result<u64, tokio_postgres::Error> {
        self.borrowed.session().client().execute(sql, with).await
    }

    /// Makes the commit and ends the transaction: both are durable, or neither.
    ///
    /// After a conflict the statements are undone as well; and so they are if this very commit was
    /// made before (under the same id, with the same events, or ending the same lease in the same
    /// way): then they landed with that one, and its result is given. So after an unknown outcome,
    /// begin anew, run the same statements and make the same commit.
    ///
    /// # Errors
    /// As [`Store::commit`](tidelock_store::Store::commit). A failure that may pass is not tried
    /// again here, because the statements would have to be run again too: begin anew.
    pub async fn commit(self, commit: Commit) -> Result<CommitOutcome> {
        self.commit_checked(commit).await.map_err(|e: StoreError| e.during(StoreOperation::Commit))
    }

    async fn commit_checked(self, commit: Commit) -> Result<CommitOutcome> {
        commit.check()?;
        self.borrowed.session().take_back().await.map_err(not_taken_back)?;
        let judged = commit::commit_begun(self.borrowed.session(), &commit).await?;
        self.borrowed.give_back();
        self.wakes.written(judged.topics);
        judged.outcome
    }
}

fn not_taken_back(error: tokio_postgres::Error) -> StoreError {
    if error.code() == Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION) {
        return StoreError::invalid(
            "the transaction was ended by one of its own statements, so nothing would land together: leave COMMIT and \
             ROLLBACK to the store",
        );
    }
    failed(error)
}
