//! Sending a commit until it is known what became of it.

use tidelock_store::{Commit, CommitId, CommitOutcome, Result, RetryAdvice, Store};
use uuid::Uuid;

use super::retry::{Random, RetryPolicy};

/// Under an id, if the events alone do not make it safe to send it again.
pub(crate) fn repeatable(commit: Commit) -> Commit {
    let only_appends = commit.parts() == commit.appends.len();
    if only_appends || commit.id.is_some() { commit } else { commit.with_retry_id() }
}

/// Under an id that the same commit of the same operation has again, so that whoever makes it a
/// second time has the first one's result.
pub(crate) fn once(commit: Commit, operation: &str) -> Commit {
    let id = Uuid::new_v5(&Uuid::from_bytes(commit.fingerprint()), operation.as_bytes());
    commit.with_id(CommitId::from_bytes(id.into_bytes()))
}

/// Sends a commit; if the store does not say what became of it, sends the same one again, which
/// then tells.
pub(crate) async fn send(
    store: &(impl Store + ?Sized),
    commit: &Commit,
    policy: RetryPolicy,
    random: &Random,
) -> Result<CommitOutcome> {
    let mut attempts = policy.begin();
    let mut unknown = false;
    loop {
        let error = match store.commit(commit.clone()).await {
            Err(error) if error.advice() != RetryAdvice::Never => error,
            done => return done,
        };
        unknown |= error.advice() == RetryAdvice::Unknown;
        if !attempts.next(random).await {
            // Whatever the last try says of itself, an earlier one may have landed.
            return Err(if unknown { error.advising(RetryAdvice::Unknown) } else { error });
        }
    }
}
