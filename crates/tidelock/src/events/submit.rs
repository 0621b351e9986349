//! Submitting a commit until its outcome is known.

use tidelock_store::{
    Commit, CommitId, CommitOutcome, Conflict, ExpectedRevision, Result, RetryAdvice, Store,
    StoreErrorKind,
};
use tracing::Instrument;
use uuid::Uuid;

use super::keys;
use crate::group_commit::Submit;
use crate::handle::Tidelock;
use crate::retry::{Random, RetryLimits};
use crate::telemetry;

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
    store: &dyn Store,
    commit: &Commit,
    limits: RetryLimits,
    random: &Random,
) -> Result<CommitOutcome> {
    let mut attempts = limits.begin();
    let mut submission = Submission::new(store, commit);
    loop {
        let error = match submission.send().await {
            Err(error) if error.advice() != RetryAdvice::Never => error,
            done => return done,
        };
        if !attempts.next(random).await {
            // Even if the last attempt certainly failed, an earlier one may have been committed.
            let unknown = submission.is_unknown;
            return Err(if unknown { error.advising(RetryAdvice::Unknown) } else { error });
        }
    }
}

/// A commit that is sent until its outcome is known.
///
/// An attempt without an answer may reach the store later than the next one. If it was made, the
/// commit's id tells; if the next one was refused, it could still be made, after the caller was
/// told that it was not. So the id of a refused commit is used up before the caller is told.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    store: &'a dyn Store,
    commit: &'a Commit,
    /// Whether the outcome of an attempt is unknown.
    is_unknown: bool,
    /// Why the commit was refused; its id is not used up yet.
    refused: Option<Conflict>,
}

impl<'a> Submission<'a> {
    pub(crate) fn new(store: &'a dyn Store, commit: &'a Commit) -> Self {
        Self { store, commit, is_unknown: false, refused: None }
    }

    /// Tries once to learn the outcome. After an error that a retry can resolve, call it again.
    pub(crate) async fn send(&mut self) -> Result<CommitOutcome> {
        loop {
            if self.refused.is_none() {
                match self.attempt(self.commit.clone()).await? {
                    CommitOutcome::Conflict(conflict) if self.can_come_late() => {
                        self.refused = Some(conflict);
                    }
                    outcome => return Ok(outcome),
                }
            }
            let used_up = self.attempt(nothing_under_the_id_of(self.commit)?).await;
            let refused = self.refused.take();
            match used_up {
                Ok(_) => return Ok(refused.map(CommitOutcome::Conflict).expect("it was refused")),
                // An earlier attempt was made after all: the next one returns its result.
                Err(error) if error.kind() == StoreErrorKind::IdempotencyMismatch => {}
                Err(error) => {
                    self.refused = refused;
                    return Err(error);
                }
            }
        }
    }

    /// Whether an earlier attempt can still be made. An id that the caller chose is not used up:
    /// the caller may send the commit again under it.
    fn can_come_late(&self) -> bool {
        self.is_unknown && self.commit.has_retry_id()
    }

    /// Sends it once, in a span of its own.
    async fn attempt(&mut self, commit: Commit) -> Result<CommitOutcome> {
        let span = telemetry::commit_span(self.store, &commit);
        let sent = self.store.commit(commit).instrument(span).await;
        self.is_unknown |= sent.as_ref().is_err_and(|e| e.advice() == RetryAdvice::Unknown);
        sent
    }
}

/// A commit without effect under the same id, so that the store refuses the other one as a
/// mismatch.
fn nothing_under_the_id_of(commit: &Commit) -> Result<Commit> {
    let nothing = Commit::new().guard_record(&keys::nothing()?, ExpectedRevision::Any);
    Ok(Commit { id: commit.id, id_memory: commit.id_memory, ..nothing })
}
