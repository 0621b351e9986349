//! Errors of claims.

use std::time::Duration;

use tidelock_store::{Conflict, Fence, StoreError, Timestamp, WorkerName};

use super::{ClaimKey, FingerprintMismatch};

/// Why a claim could not be acquired, renewed or completed.
///
/// Nothing was written, unless a `Store` error says that the outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The lease expired and another claimant has acquired it since: this claimant's work must not
    /// take effect.
    #[error(
        "claim {key:?}: fence {fence} is no longer the newest: another claimant has acquired it since; discard this work"
    )]
    Lost {
        /// The claim.
        key: ClaimKey,
        /// The fence it was held under.
        fence: Fence,
    },
    /// It was completed or released under this fence: there is nothing left to do with it.
    #[error(
        "claim {key:?}: it was completed or released under fence {fence}; claim it again to read the result"
    )]
    Over {
        /// The claim.
        key: ClaimKey,
        /// The fence it was held under.
        fence: Fence,
    },
    /// A part of the same commit was rejected. The claim is still held.
    #[error("claim {key:?}: a part of the same commit was rejected: {conflict}")]
    Refused {
        /// The claim.
        key: ClaimKey,
        /// The conflict.
        conflict: Box<Conflict>,
    },
    /// It was executed before and failed, and the failure was remembered.
    #[error("claim {key:?}: it was done before and failed: {error}")]
    Failed {
        /// The claim.
        key: ClaimKey,
        /// The recorded error.
        error: String,
    },
    /// The wait ended and another claimant still holds it.
    #[error(
        "claim {key:?}: {by:?} still holds it after {waited:?}; wait longer, or try again later"
    )]
    StillHeld {
        /// The claim.
        key: ClaimKey,
        /// Its holder.
        by: WorkerName,
        /// When the lease expires, unless it is renewed.
        until: Option<Timestamp>,
        /// How long it waited.
        waited: Duration,
    },
    /// The holder gave up or died while this caller waited for the result: the claim is available.
    #[error("claim {key:?}: {by:?} gave up or died, and there is no result; claim it again")]
    Free {
        /// The claim.
        key: ClaimKey,
        /// Its last holder.
        by: WorkerName,
    },
    /// The reservation has ended: nothing is left to confirm.
    #[error("claim {key:?}: the reservation was confirmed, refunded or has expired; reserve again")]
    Settled {
        /// The quota.
        key: ClaimKey,
    },
    /// Every attempt conflicted with another claimant.
    #[error("claim {key:?}: {attempts} attempts conflicted with other claimants; try again later")]
    Contended {
        /// The claim.
        key: ClaimKey,
        /// Number of attempts.
        attempts: u32,
    },
    /// The stored result is not of the requested type.
    #[error("claim {key:?}: its result is not what was asked for: {source}")]
    Unreadable {
        /// The claim.
        key: ClaimKey,
        /// The reason.
        source: StoreError,
    },
    /// The store failed, or a name or value is invalid.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why work under an idempotency key returned no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<X> {
    /// The work failed.
    #[error("{0}")]
    Work(X),
    /// The key was used for another request.
    #[error(transparent)]
    Mismatch(#[from] FingerprintMismatch),
    /// The claim could not be acquired or completed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}
