//! Idempotency: what a request asks for is done once, however often it is asked.
//!
//! The key is claimed before the work begins. The lease of a claim whose work is under way has
//! nothing to do with the life of the result: a process that dies leaves the key to the next one,
//! and a result is there for as long as it was to be.

mod attached;
mod guard;
mod in_progress;
mod once;
mod peek;

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{Commit, Fence, StoreError, Timestamp, WorkerName};

use super::acquire::{Acquire, Bidding, bid};
use super::claim_attempt::{ClaimAttempt, ClaimStatus};
use super::entry::{Entry, State};
use super::held_claim::{HeldClaim, Holding};
use super::{AttachedClaim, ClaimError, ClaimKey, Claims, Fingerprint, keys};
use crate::telemetry;

pub use attached::AttachedKey;
pub use guard::ClaimGuard;
pub use in_progress::InProgress;
pub use peek::Peek;

/// How long a claimant that has died keeps others waiting, unless something else is asked for.
const LEASE: Duration = Duration::from_secs(30);
/// How long a result is kept, unless the claim says otherwise.
const TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a failure does to a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The key is free again: whoever asks next does the work.
    #[default]
    Release,
    /// The failure is kept like a result: whoever asks next gets it as [`ClaimError::Failed`].
    Remember,
}

/// The right to do what a request asks for, once.
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

/// What came of claiming a key.
#[derive(Debug)]
pub enum IdempotencyClaim<T> {
    /// It is yours: do the work, then complete it.
    Won(ClaimGuard<T>),
    /// Somebody is at it: wait for the result, or say that it is in progress.
    Held(InProgress<T>),
    /// It was done; this is what came of it.
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
    /// Which key.
    pub key: ClaimKey,
    /// Who used it.
    pub by: WorkerName,
    /// When, if it is known.
    pub at: Option<Timestamp>,
}

impl Idempotency {
    pub(super) fn new(claims: Claims, key: &impl fmt::Display) -> Self {
        Self {
            claims,
            key: ClaimKey::new(keys::IDEMPOTENCY, key),
            fingerprint: Ok(None),
            lease: LEASE,
            ttl: Some(TTL),
            on_failure: OnFailure::default(),
        }
    }

    /// For this request: the same key with another one is a [`FingerprintMismatch`]. Only a digest
    /// of it is stored.
    pub fn fingerprint(mut self, request: &(impl Serialize + ?Sized)) -> Self {
        self.fingerprint = Fingerprint::of(request).map(Some);
        self
    }

    /// For the request with this fingerprint.
    pub fn fingerprinted(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Ok(Some(fingerprint));
        self
    }

    /// How long a claimant that has died keeps others waiting; half a minute unless this says
    /// otherwise. The lease of one that lives is renewed, so it need not be as long as the work.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long the result is kept after the work was completed; 30 days by default. A key
    /// whose result has left is as one that was never used.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Keeps the result indefinitely. The store grows by one row for every such key.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }

    /// What a failure does to the key.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// The whole name of this claim.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Claims the key, in one commit: wins it, or learns what is there.
    ///
    /// # Errors
    /// - `Failed` if it was done, failed, and the failure was to be remembered.
    /// - `Unreadable` if the result is not a `T`.
    pub async fn claim<T: DeserializeOwned>(&self) -> Result<IdempotencyClaim<T>, ClaimError> {
        let mut stake = self.stake()?;
        let bidding =
            bid(&self.claims, &mut [&mut stake as &mut dyn Acquire], Commit::new()).await?;
        let claim = self.outcome(&mut stake, bidding);
        telemetry::claimed(&self.key, &self.claims.by, outcome_name(&claim));
        claim
    }

    /// Goes on with a claim that was [passed on](ClaimGuard::detach), by its fence.
    pub fn attach(&self, fence: Fence) -> AttachedKey {
        AttachedKey::new(AttachedClaim::new(&self.claims, &self.key, fence))
    }

    /// Looks at the key without claiming it.
    ///
    /// # Errors
    /// `Unreadable` if the result is not a `T`.
    pub async fn peek<T: DeserializeOwned>(&self) -> Result<Peek<T>, ClaimError> {
        Peek::at(&self.claims, self.stake()?).await
    }

    pub(super) fn stake(&self) -> Result<ClaimAttempt, StoreError> {
        let entry = Entry::pending(&self.claims, self.fingerprint.clone()?);
        ClaimAttempt::new(self.key.clone(), entry, self.lease)?.with_ttl(self.ttl)
    }

    fn outcome<T: DeserializeOwned>(
        &self,
        stake: &mut ClaimAttempt,
        bidding: Bidding,
    ) -> Result<IdempotencyClaim<T>, ClaimError> {
        match (stake.standing(), bidding) {
            (ClaimStatus::Won(revision), Bidding::Won(at)) => {
                let hold = HeldClaim::new(stake, revision, at);
                let holding = Holding::keep(&self.claims, hold);
                Ok(IdempotencyClaim::Won(ClaimGuard::new(holding, self.on_failure)))
            }
            (ClaimStatus::Held(rival), _) if rival.entry.differs(stake.entry.fingerprint) => {
                Ok(IdempotencyClaim::Mismatch(self.mismatch(&rival.entry, rival.since)))
            }
            (ClaimStatus::Held(rival), _) => {
                Ok(IdempotencyClaim::Held(InProgress::new(&self.claims, stake, *rival)))
            }
            (ClaimStatus::Over(entry), _) if entry.differs(stake.entry.fingerprint) => {
                Ok(IdempotencyClaim::Mismatch(self.mismatch(&entry, entry.at)))
            }
            (ClaimStatus::Over(entry), _) => result(&self.key, &entry).map(IdempotencyClaim::Done),
            (ClaimStatus::Won(_), Bidding::Refused) => unreachable!("what was refused was not won"),
        }
    }

    fn mismatch(&self, first: &Entry, at: Option<Timestamp>) -> FingerprintMismatch {
        FingerprintMismatch { key: self.key.clone(), by: first.by.clone(), at }
    }
}

/// What came of a claim that is over.
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
