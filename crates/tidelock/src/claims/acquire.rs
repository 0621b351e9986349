//! Acquiring one or several claims in a single commit, all or none.
//!
//! The first commit expects every claim to be free. A conflict shows what is there instead, and
//! each claim evaluates it: it is held by another claimant, or it can be acquired under another
//! condition (such as an expired lease), which the next commit then compares with.

use std::fmt::Debug;

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, RecordKey, Result, Slot, StoreError, Timestamp,
    ViolationReason,
};

use super::{ClaimError, ClaimKey, Claims};
use crate::events::submit;

/// Number of commits before the attempt is given up as contended.
const ATTEMPTS: u32 = 32;

/// A claim to acquire.
pub(super) trait Acquire: Debug + Send {
    /// Name of the claim.
    fn key(&self) -> &ClaimKey;

    /// Adds the claim's writes and guards to a commit.
    fn stage(&self, commit: Commit) -> Result<Commit>;

    /// Whether the claim can detect from the store's records that an earlier commit of its own
    /// succeeded although the reply was lost.
    fn detects_commit(&self) -> bool;

    /// Called after the commit.
    fn won(&mut self, committed: &Committed) -> Result<()>;

    /// Called after a conflict.
    fn evaluate(&mut self, conflict: &Conflict) -> Result<ConflictVerdict>;
}

/// A claim's verdict on a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConflictVerdict {
    /// The conflict was not about this claim.
    Unrelated,
    /// The claim can still be acquired; try again.
    Retry,
    /// The claim is acquired: an earlier attempt was committed, at this time if known.
    AlreadyCommitted(Option<Timestamp>),
    /// The claim cannot be acquired.
    Refused,
}

impl ConflictVerdict {
    fn committed_at(self) -> Option<Option<Timestamp>> {
        match self {
            Self::AlreadyCommitted(since) => Some(since),
            _ => None,
        }
    }
}

/// Outcome of an acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcquireOutcome {
    /// Everything is acquired, since this time.
    Won(Timestamp),
    /// Nothing is acquired; the refused claims know the reason.
    Refused,
}

/// Acquires all of these claims, together with the rest of this commit.
pub(super) async fn acquire(
    claims: &Claims,
    requests: &mut [&mut dyn Acquire],
    with: Commit,
) -> Result<AcquireOutcome, ClaimError> {
    claims.check()?;
    for _ in 0..ATTEMPTS {
        let commit =
            requests.iter().try_fold(with.clone(), |commit, request| request.stage(commit))?;
        let detectable = requests.iter().any(|request| request.detects_commit());
        let commit = if detectable { commit } else { submit::ensure_retry_id(commit) };
        let conflict = match claims.send(&commit).await? {
            CommitOutcome::Committed(committed) => {
                requests.iter_mut().try_for_each(|request| request.won(&committed))?;
                return Ok(AcquireOutcome::Won(committed.at));
            }
            CommitOutcome::Conflict(conflict) => conflict,
        };
        let mut verdicts = requests
            .iter_mut()
            .map(|request| request.evaluate(&conflict))
            .collect::<Result<Vec<_>>>()?;
        verdicts.retain(|verdict| *verdict != ConflictVerdict::Unrelated);
        if let Some(since) = verdicts.iter().find_map(|verdict| verdict.committed_at()) {
            return Ok(AcquireOutcome::Won(match since {
                Some(since) => since,
                None => claims.store().now().await?,
            }));
        }
        if verdicts.contains(&ConflictVerdict::Refused) {
            return Ok(AcquireOutcome::Refused);
        }
        if verdicts.is_empty() {
            return Err(ClaimError::Refused { key: first(requests), conflict: Box::new(conflict) });
        }
    }
    Err(ClaimError::Contended { key: first(requests), attempts: ATTEMPTS })
}

/// Runs an acquisition in its own task, so that a commit in flight is never abandoned: if the
/// caller has gone, the guard is dropped and releases what it holds.
pub(super) async fn run_to_completion<T: Send + 'static>(
    acquisition: impl Future<Output = Result<T, ClaimError>> + Send + 'static,
) -> Result<T, ClaimError> {
    match tokio::spawn(acquisition).await {
        Ok(outcome) => outcome,
        Err(died) if died.is_panic() => std::panic::resume_unwind(died.into_panic()),
        Err(_) => {
            Err(StoreError::invalid("a claim was made while the runtime was shut down").into())
        }
    }
}

fn first(requests: &[&mut dyn Acquire]) -> ClaimKey {
    requests.first().expect("something was asked for").key().clone()
}

/// Returns what a conflicting commit found under this key.
pub(super) fn found<'a>(conflict: &'a Conflict, record: &RecordKey) -> Option<&'a Slot> {
    conflict.violations.iter().find_map(|clash| match &clash.reason {
        ViolationReason::Record { key, found, .. } if key == record => Some(found),
        _ => None,
    })
}
