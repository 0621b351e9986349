//! Submitting a commit until its outcome is known.

use tidelock_store::{Commit, CommitId, CommitOutcome, Result, RetryAdvice, Store};
use uuid::Uuid;

use crate::group_commit::Submit;
use crate::handle::Tidelock;
use crate::retry::{Random, RetryLimits};

impl Submit for Tidelock {
    async fn submit(&self, commit: &Commit) -> Result<CommitOutcome> {
        send(&**self.store(), commit, self.retry(), self.random()).await
    }
}

/// Adds a retry id, unless the commit can be repeated without one because it only appends events.
pub(crate) fn ensure_retry_id(commit: Commit) -> Commit {
    let only_appends = commit.parts() == commit.appends.len();
    if only_appends || commit.id.is_some() { commit } else { commit.with_retry_id() }
}

/// Derives the commit id from the operation and the content. The same commit of the same operation
/// has the same id, so a repeat returns the first outcome.
pub(crate) fn derive_id(commit: Commit, operation: &str) -> Commit {
    let id = Uuid::new_v5(&Uuid::from_bytes(commit.fingerprint()), operation.as_bytes());
    commit.with_id(CommitId::from_bytes(id.into_bytes()))
}

/// Sends a commit. After an unknown outcome it sends the same commit again, which returns the
/// outcome of the first.
pub(crate) async fn send(
    store: &(impl Store + ?Sized),
    commit: &Commit,
    limits: RetryLimits,
    random: &Random,
) -> Result<CommitOutcome> {
    let mut attempts = limits.begin();
    let mut unknown = false;
    loop {
        let error = match store.commit(commit.clone()).await {
            Err(error) if error.advice() != RetryAdvice::Never => error,
            done => return done,
        };
        unknown |= error.advice() == RetryAdvice::Unknown;
        if !attempts.next(random).await {
            // Even if the last attempt certainly failed, an earlier one may have been committed.
            return Err(if unknown { error.advising(RetryAdvice::Unknown) } else { error });
        }
    }
}
