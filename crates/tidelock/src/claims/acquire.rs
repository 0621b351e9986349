//! Acquiring one or several claims in a single commit, all or none.
//!
//! The first commit expects every claim to be free. A conflict shows what is there instead, and
//! each claim evaluates it: it is held by another claimant, or it can be acquired under another
//! condition (such as an expired lease), which the next commit then compares with.

use std::fmt::Debug;

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, RecordKey, Result, Slot, Timestamp, ViolationReason,
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
    fn is_witness(&self) -> bool;

    /// Called after the commit.
    fn won(&mut self, committed: &Committed) -> Result<()>;

    /// Called after a conflict.
    fn learn(&mut self, conflict: &Conflict) -> Result<ConflictVerdict>;
}

/// A claim's verdict on a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConflictVerdict {
    /// The conflict was not about this claim.
    Nothing,
    /// The claim can still be acquired; try again.
    Again,
    /// The claim is acquired: an earlier attempt was committed, at this time if known.
    Landed(Option<Timestamp>),
    /// The claim cannot be acquired.
    Refused,
}

impl ConflictVerdict {
    fn landed(self) -> Option<Option<Timestamp>> {
        match self {
            Self::Landed(since) => Some(since),
            _ => None,
        }
    }
}

/// Outcome of an acquisition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bidding {
    /// Everything is acquired, since this time.
    Won(Timestamp),
    /// Nothing is acquired; the refused claims know the reason.
    Refused,
}

/// Acquires all of these claims, together with the rest of this commit.
pub(super) async fn bid(
    claims: &Claims,
    bids: &mut [&mut dyn Acquire],
    with: Commit,
) -> Result<Bidding, ClaimError> {
    claims.check_operation()?;
    for _ in 0..ATTEMPTS {
        let commit = bids.iter().try_fold(with.clone(), |commit, bid| bid.stage(commit))?;
        let witnessed = bids.iter().any(|bid| bid.is_witness());
        let commit = if witnessed { commit } else { submit::ensure_retry_id(commit) };
        let conflict = match claims.send(&commit).await? {
            CommitOutcome::Committed(committed) => {
                bids.iter_mut().try_for_each(|bid| bid.won(&committed))?;
                return Ok(Bidding::Won(committed.at));
            }
            CommitOutcome::Conflict(conflict) => conflict,
        };
        let mut learned =
            bids.iter_mut().map(|bid| bid.learn(&conflict)).collect::<Result<Vec<_>>>()?;
        learned.retain(|learned| *learned != ConflictVerdict::Nothing);
        if let Some(since) = learned.iter().find_map(|learned| learned.landed()) {
            return Ok(Bidding::Won(match since {
                Some(since) => since,
                None => claims.store().now().await?,
            }));
        }
        if learned.contains(&ConflictVerdict::Refused) {
            return Ok(Bidding::Refused);
        }
        if learned.is_empty() {
            return Err(ClaimError::Refused { key: first(bids), conflict: Box::new(conflict) });
        }
    }
    Err(ClaimError::Contended { key: first(bids), attempts: ATTEMPTS })
}

fn first(bids: &[&mut dyn Acquire]) -> ClaimKey {
    bids.first().expect("something was asked for").key().clone()
}

/// Returns what a conflicting commit found under this key.
pub(super) fn found<'a>(conflict: &'a Conflict, record: &RecordKey) -> Option<&'a Slot> {
    conflict.clashes.iter().find_map(|clash| match &clash.reason {
        ViolationReason::Record { key, found, .. } if key == record => Some(found),
        _ => None,
    })
}
