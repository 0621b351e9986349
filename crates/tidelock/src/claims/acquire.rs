//! Asking the store for one right, or for several at once: all of them in one commit, or none.
//!
//! What is expected of the store is first that everything is free. A refusal says what is there
//! instead, and each bid learns from it: that somebody else has it, or that it can be had after all
//! on another condition (a lease that has run out, say), which the next commit then compares with.

use std::fmt::Debug;

use tidelock_store::{
    Commit, CommitOutcome, Committed, Conflict, RecordKey, Result, Slot, Timestamp, ViolationReason,
};

use super::{ClaimError, ClaimKey, Claims};
use crate::events::submit;

/// How often the world may change between a refusal and the next try.
const ATTEMPTS: u32 = 32;

/// One right that is asked for.
pub(super) trait Acquire: Debug + Send {
    /// To what.
    fn key(&self) -> &ClaimKey;

    /// Adds what it takes to a commit.
    fn stage(&self, commit: Commit) -> Result<Commit>;

    /// Whether it can tell from what is there that its commit has landed, when nobody heard the
    /// answer.
    fn is_witness(&self) -> bool;

    /// The commit has landed.
    fn won(&mut self, committed: &Committed) -> Result<()>;

    /// The commit was refused.
    fn learn(&mut self, conflict: &Conflict) -> Result<ConflictVerdict>;
}

/// What a bid makes of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConflictVerdict {
    /// It was not about this one.
    Nothing,
    /// It can still be had.
    Again,
    /// It is had already: an earlier try has landed. Since then, if that is known.
    Landed(Option<Timestamp>),
    /// It cannot be had.
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

/// What came of bidding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bidding {
    /// All is had, since then.
    Won(Timestamp),
    /// Nothing is had; those bids that could not have it know why.
    Refused,
}

/// Asks for all of these, together with the rest of this commit.
pub(super) async fn bid(
    claims: &Claims,
    bids: &mut [&mut dyn Acquire],
    with: Commit,
) -> Result<Bidding, ClaimError> {
    claims.check_operation()?;
    for _ in 0..ATTEMPTS {
        let commit = bids.iter().try_fold(with.clone(), |commit, bid| bid.stage(commit))?;
        let witnessed = bids.iter().any(|bid| bid.is_witness());
        let commit = if witnessed { commit } else { submit::repeatable(commit) };
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

/// What is there instead of what was expected under this key.
pub(super) fn found<'a>(conflict: &'a Conflict, record: &RecordKey) -> Option<&'a Slot> {
    conflict.violations.iter().find_map(|clash| match &clash.reason {
        ViolationReason::Record { key, found, .. } if key == record => Some(found),
        _ => None,
    })
}
