//! What can come of a claim, besides its outcomes.

use std::time::Duration;

use tidelock_store::{Conflict, Fence, StoreError, Timestamp, WorkerName};

use super::{ClaimKey, FingerprintMismatch};

/// A claim that did not come to its end. Nothing was written, unless a `Store` error says that it
/// may have been.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The lease ran out and somebody else has claimed it since: what this claimant did must not
    /// count.
    #[error(
        "claim {key:?}: fence {fence} is no longer the newest, somebody else has claimed it since; drop this work"
    )]
    Lost {
        /// Which claim.
        key: ClaimKey,
        /// The fence that it was held under.
        fence: Fence,
    },
    /// It was brought to its end, or given back, under this fence: there is nothing left to be done
    /// with it.
    #[error(
        "claim {key:?}: it was completed or given back under fence {fence}; claim it again to see what came of it"
    )]
    Over {
        /// Which claim.
        key: ClaimKey,
        /// The fence that it was held under.
        fence: Fence,
    },
    /// Something that was to land together with the claim does not hold. The claim still stands.
    #[error("claim {key:?}: what was to land with it does not hold: {conflict}")]
    Refused {
        /// Which claim.
        key: ClaimKey,
        /// What does not hold.
        conflict: Box<Conflict>,
    },
    /// It was done before, and failed, and the failure was to be remembered.
    #[error("claim {key:?}: it was done before and failed: {error}")]
    Failed {
        /// Which claim.
        key: ClaimKey,
        /// How it failed.
        error: String,
    },
    /// Waited, and somebody else is still at it.
    #[error(
        "claim {key:?}: {by:?} is still at it after {waited:?}; wait longer, or ask again later"
    )]
    StillHeld {
        /// Which claim.
        key: ClaimKey,
        /// Who has it.
        by: WorkerName,
        /// Until when, unless they ask for longer.
        until: Option<Timestamp>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Waited for a result, and whoever was at it gave up or died: it is free.
    #[error("claim {key:?}: {by:?} gave up or died, and there is no result; claim it again")]
    Free {
        /// Which claim.
        key: ClaimKey,
        /// Who had it.
        by: WorkerName,
    },
    /// The reservation has come to its end: nothing of it is left to be confirmed.
    #[error(
        "claim {key:?}: the reservation was confirmed or given back, or has gone back by itself; reserve anew"
    )]
    Settled {
        /// Of which quota.
        key: ClaimKey,
    },
    /// Others were quicker every time.
    #[error("claim {key:?}: others were quicker {attempts} times; try again later")]
    Contended {
        /// Which claim.
        key: ClaimKey,
        /// How often it was tried.
        attempts: u32,
    },
    /// What is stored is not of the type that was asked for.
    #[error("claim {key:?}: its result is not what was asked for: {source}")]
    Unreadable {
        /// Which claim.
        key: ClaimKey,
        /// Why not.
        source: StoreError,
    },
    /// The store failed, or a name or value cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Work under an idempotency key that gave no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<X> {
    /// The work failed.
    #[error("{0}")]
    Work(X),
    /// The key was used for another request.
    #[error(transparent)]
    Mismatch(#[from] FingerprintMismatch),
    /// The claim did not come to its end.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}
