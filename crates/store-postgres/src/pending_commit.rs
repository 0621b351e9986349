//! Commits in a transaction that the caller began, on a connection of the caller.

use std::fmt;

use tidelock_store::{Commit, CommitOutcome, Result, StoreError, StoreOperation, Topic};

use crate::PostgresStore;
use crate::commit::{Foreign, ForeignCommit};
use crate::executor::SqlExecutor;
use crate::wake::Wakes;

/// A commit in a transaction of the caller that is still open: it becomes durable with the caller's
/// COMMIT, or never.
#[must_use = "announce it after the COMMIT, so that others need not poll for it"]
pub struct PendingCommit {
    outcome: CommitOutcome,
    made_before: bool,
    topics: Vec<Topic>,
    wakes: Wakes,
}

impl fmt::Debug for PendingCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("PendingCommit");
        debug.field("outcome", &self.outcome).field("made_before", &self.made_before);
        debug.finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Makes a commit in a transaction of the caller, which has to be in this store's database.
    ///
    /// It is judged like any other commit, and its events, records and items are written in the
    /// caller's transaction: with the caller's COMMIT all of it is durable, or nothing. A conflict
    /// leaves the transaction as it was before the call, and so does an error, unless the
    /// connection is lost.
    ///
    /// From here to the end of the transaction, the rows of the commit are locked, and if it has
    /// events, the feed waits for it. Call it last, and commit at once. For the same reason a trim
    /// is refused: it would lock the one row that all commits may need.
    ///
    /// # Errors
    /// - `Invalid`: the commit is malformed or trims a stream; no transaction is open, or it has
    ///   failed before, is read only, or is not in the store's database.
    /// - `Unavailable`, [`RetryAdvice::Later`](tidelock_store::RetryAdvice::Later): another
    ///   transaction was faster; roll back and begin again. Under REPEATABLE READ and SERIALIZABLE
    ///   this also stands for a change since the transaction's first statement.
    /// - As [`Store::commit`](tidelock_store::Store::commit) otherwise. Nothing is durable yet, so
    ///   the outcome is never unknown.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is done, the transaction cannot be committed any more:
    /// the server refuses the COMMIT. If it was done already, the commit is in the transaction.
    pub async fn commit_in(
        &self,
        executor: &mut dyn SqlExecutor,
        commit: &Commit,
    ) -> Result<PendingCommit> {
        self.shared.check_open(StoreOperation::Commit)?;
        check(commit).map_err(|e| e.during(StoreOperation::Commit))?;
        self.shared.used();
        let mut foreign = Foreign { executor, shared: &self.shared };
        let made = foreign.commit(commit).await.map_err(|e| e.during(StoreOperation::Commit))?;
        let ForeignCommit { outcome, made_before, topics, .. } = made;
        Ok(PendingCommit { outcome, made_before, topics, wakes: self.shared.wakes.clone() })
    }
}

fn check(commit: &Commit) -> Result<()> {
    commit.check()?;
    match commit.trims.first() {
        None => Ok(()),
        Some(trim) => Err(StoreError::invalid(format!(
            "stream {:?}: a trim cannot be part of a caller's transaction, because others would have to wait for it",
            trim.stream.as_str()
        ))),
    }
}

impl PendingCommit {
    /// What the commit came to, if the transaction is committed.
    pub fn outcome(&self) -> &CommitOutcome {
        &self.outcome
    }

    /// Whether this commit was made before: under the same id, with the same events, or settling
    /// the same lease in the same way. Then the caller's statements were committed with it the
    /// first time, and this transaction is to be rolled back.
    pub fn made_before(&self) -> bool {
        self.made_before
    }

    /// Wakes those that wait for what has changed, in this process and in others. Call it after the
    /// COMMIT.
    ///
    /// It only makes things faster: without it, they find the change when they next poll.
    pub fn announce(self) {
        if !self.made_before {
            self.wakes.written(self.topics);
        }
    }
}
