//! Idempotency keys: the work of a request is done once, however often it is requested.
//!
//! The key is claimed before the work begins. The lease of a claim in progress is independent of
//! the result's TTL: a process that dies leaves the key to the next claimant, and a result is kept
//! for its TTL.

mod guard;
mod in_progress;
mod once;
mod peek;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, Fence, StoreError, Timestamp, WorkerName};

use super::acquire::{Acquire, AcquireOutcome, acquire};
use super::claim_attempt::{ClaimAttempt, ClaimStatus};
use super::claim_set::{ClaimSet, Hold};
use super::entry::{Entry, State};
use super::held_claim::WorkKind;
use super::{AttachedKey, ClaimError, ClaimGuard, ClaimKey, Claims, Fingerprint, keys};
use crate::telemetry;

pub use in_progress::InProgress;
pub use peek::Peek;

/// The default lease.
const LEASE: Duration = Duration::from_secs(30);
/// The default TTL of a result.
const TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a failure does to a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Releases the key: the next claimant does the work.
    #[default]
    Release,
    /// Keeps the failure like a result: the next claimant gets it as [`ClaimError::Failed`].
    Remember,
}

/// An idempotency key with its options.
#[derive(Debug, Clone)]
#[must_use = "nothing is claimed until `claim` or `once` is called"]
pub struct Idempotency {
    claims: Claims,
    key: ClaimKey,
    fingerprint: Result<Option<Fingerprint>, StoreError>,
    lease: Duration,
    ttl: Option<Duration>,
    on_failure: OnFailure,
}

/// Outcome of claiming a key.
#[derive(Debug)]
pub enum IdempotencyClaim<T> {
    /// The key is acquired: do the work, then complete it.
    Won(ClaimGuard<T>),
    /// Another claimant is working: wait for the result, or report that it is in progress.
    Held(InProgress<T>),
    /// The work was done; this is its result.
    Done(T),
    /// The key was used for another request.
    Mismatch(FingerprintMismatch),
}

/// A key that was used for another request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "claim {key:?}: it was used by {by:?} for another request; use a key of its own for each request"
)]
pub struct FingerprintMismatch {
    /// The key.
    pub key: ClaimKey,
    /// The claimant that used it.
    pub by: WorkerName,
    /// When, if known.
    pub at: Option<Timestamp>,
}

impl Idempotency {
    pub(super) fn new(claims: Claims, key: &str) -> Self {
        Self {
            claims,
            key: ClaimKey::new(keys::IDEMPOTENCY, &key),
            fingerprint: Ok(None),
            lease: LEASE,
            ttl: Some(TTL),
            on_failure: OnFailure::default(),
        }
    }

    /// Sets the request that the key belongs to.
    ///
    /// The same key with another request is a [`FingerprintMismatch`]. Only a digest is stored.
    pub fn fingerprint(mut self, request: &(impl Serialize + ?Sized)) -> Self {
        self.fingerprint = Fingerprint::of(request).map(Some);
        self
    }

    /// Sets the fingerprint of the request.
    pub fn fingerprinted(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Ok(Some(fingerprint));
        self
    }

    /// Sets the lease: how long the key stays held after its claimant died.
    ///
    /// The default is 30 seconds. The lease is renewed while the guard lives, so it need not be as
    /// long as the work.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long the result is kept after completion.
    ///
    /// The default is 30 days. A key whose result has expired is like one that was never used.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Keeps the result indefinitely. The store grows by one row for every such key.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }

    /// Sets what a failure does to the key.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Returns the claim's name.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Claims the key in one commit: acquires it, or returns its current state.
    ///
    /// # Errors
    /// - `Failed` if the work failed before, and the failure was remembered.
    /// - `Unreadable` if the result is not a `T`.
    /// - `Store` if the store failed, or the key is invalid.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let payment = tidelock.claims().idempotency("pay:order-7");
    /// let IdempotencyClaim::Won(guard) = payment.claim::<String>().await? else {
    ///     panic!("a new key is free");
    /// };
    /// guard.complete(&"receipt 1".to_owned()).await?;
    ///
    /// match payment.claim::<String>().await? {
    ///     IdempotencyClaim::Done(receipt) => assert_eq!(receipt, "receipt 1"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn claim<T: DeserializeOwned>(&self) -> Result<IdempotencyClaim<T>, ClaimError> {
        let mut attempt = self.attempt()?;
        let outcome =
            acquire(&self.claims, &mut [&mut attempt as &mut dyn Acquire], Commit::new()).await?;
        let claim = self.outcome(&mut attempt, outcome);
        telemetry::claimed(&self.key, &self.claims.by, outcome_name(&claim));
        claim
    }

    /// Continues a claim that was [detached](super::HeldClaim::detach), by its fence.
    pub fn attach(&self, fence: Fence) -> AttachedKey {
        AttachedKey::new(&self.claims, &self.key, fence)
    }

    /// Reads the state of the key without claiming it.
    ///
    /// # Errors
    /// `Unreadable` if the result is not a `T`; `Store` if the store failed.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::claims::Peek;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let payment = tidelock.idempotency("pay:42");
    /// assert!(matches!(payment.peek::<String>().await?, Peek::Free)); // and it stays free
    /// # Ok(())
    /// # }
    /// ```
    pub async fn peek<T: DeserializeOwned>(&self) -> Result<Peek<T>, ClaimError> {
        Peek::at(&self.claims, self.attempt()?).await
    }

    pub(super) fn attempt(&self) -> Result<ClaimAttempt, StoreError> {
        let entry = Entry::pending(&self.claims, self.fingerprint.clone()?);
        ClaimAttempt::new(self.key.clone(), entry, self.lease)?.with_ttl(self.ttl)
    }

    fn outcome<T: DeserializeOwned>(
        &self,
        attempt: &mut ClaimAttempt,
        outcome: AcquireOutcome,
    ) -> Result<IdempotencyClaim<T>, ClaimError> {
        match (attempt.status(), outcome) {
            (ClaimStatus::Won(revision), AcquireOutcome::Won(at)) => {
                let hold = Hold::new(attempt, revision, at);
                let (set, kind) =
                    (ClaimSet::renewing(&self.claims, hold), WorkKind::new(self.on_failure));
                Ok(IdempotencyClaim::Won(ClaimGuard::new(set, kind)))
            }
            (ClaimStatus::Held(contender), _)
                if contender.entry.differs(attempt.entry.fingerprint) =>
            {
                Ok(IdempotencyClaim::Mismatch(self.mismatch(&contender.entry, contender.since)))
            }
            (ClaimStatus::Held(contender), _) => {
                Ok(IdempotencyClaim::Held(InProgress::new(&self.claims, attempt, contender)))
            }
            (ClaimStatus::Over(entry), _) if entry.differs(attempt.entry.fingerprint) => {
                Ok(IdempotencyClaim::Mismatch(self.mismatch(&entry, entry.at)))
            }
            (ClaimStatus::Over(entry), _) => result(&self.key, &entry).map(IdempotencyClaim::Done),
            (ClaimStatus::Won(_), AcquireOutcome::Refused) => {
                unreachable!("what was refused was not won")
            }
        }
    }

    fn mismatch(&self, first: &Entry, at: Option<Timestamp>) -> FingerprintMismatch {
        FingerprintMismatch { key: self.key.clone(), by: first.by.clone(), at }
    }
}

/// Returns the result of a claim that ended.
fn result<T: DeserializeOwned>(key: &ClaimKey, entry: &Entry) -> Result<T, ClaimError> {
    if entry.state == State::Failed {
        let error = entry.error.clone().unwrap_or_default();
        return Err(ClaimError::Failed { key: key.clone(), error });
    }
    let read = entry.value().and_then(|value| value.to());
    read.map_err(|source| ClaimError::Unreadable { key: key.clone(), source })
}

fn outcome_name<T>(claim: &Result<IdempotencyClaim<T>, ClaimError>) -> &'static str {
    match claim {
        Ok(IdempotencyClaim::Won(_)) => "won",
        Ok(IdempotencyClaim::Held(_)) => "held",
        Ok(IdempotencyClaim::Done(_)) => "done",
        Ok(IdempotencyClaim::Mismatch(_)) => "mismatch",
        Err(_) => "failed",
    }
}
