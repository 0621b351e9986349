//! Idempotency key continued by its fence: renewed, completed or released.

use std::time::Duration;

use serde::Serialize;
use tidelock_store::{Commit, CommitOutcome, Fence, Guard, RawJson, Timestamp};

use super::super::entry::{Entry, State};
use super::super::handoff::{AttachedClaim, Found};
use super::super::{ClaimError, ClaimKey};

/// An idempotency key continued by its fence. Dropping it changes nothing.
#[derive(Debug, Clone)]
#[must_use = "nothing is done before it is renewed, completed or released"]
pub struct AttachedKey {
    claim: AttachedClaim,
}

impl AttachedKey {
    pub(super) fn new(claim: AttachedClaim) -> Self {
        Self { claim }
    }

    /// Returns the claim's name.
    pub fn key(&self) -> &ClaimKey {
        self.claim.key()
    }

    /// Returns the fence it is held under.
    pub fn fence(&self) -> Fence {
        self.claim.fence()
    }

    /// Returns a guard for a commit that must not succeed once another claimant holds the key.
    ///
    /// # Errors
    /// `Store` if the name is invalid.
    pub fn guard(&self) -> Result<Guard, ClaimError> {
        self.claim.guard()
    }

    /// Renews the lease: see [`AttachedClaim::renew`].
    ///
    /// # Errors
    /// As [`AttachedClaim::renew`].
    pub async fn renew(&self, lease: Duration) -> Result<Timestamp, ClaimError> {
        self.claim.renew(lease).await
    }

    /// Releases the key, so that the next claimant does the work: see [`AttachedClaim::release`].
    ///
    /// # Errors
    /// As [`AttachedClaim::release`].
    pub async fn release(&self) -> Result<(), ClaimError> {
        self.claim.release().await
    }

    /// Stores the result, for the TTL set when the key was claimed. Idempotent for the same result.
    ///
    /// # Errors
    /// `Lost` if another claimant holds the key: this caller's work must not take effect. `Over` if
    /// it was released, or completed with another result.
    pub async fn complete(&self, value: &(impl Serialize + ?Sized)) -> Result<(), ClaimError> {
        let value = RawJson::new(value)?;
        self.end(|entry, since| entry.done(value.clone(), since)).await
    }

    /// Stores the failure like a result: the next claimant gets it as [`ClaimError::Failed`].
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn fail(&self, error: &str) -> Result<(), ClaimError> {
        self.end(|entry, since| entry.failed(error.to_owned(), since)).await
    }

    async fn end(&self, ended: impl Fn(&Entry, Timestamp) -> Entry) -> Result<(), ClaimError> {
        let held = match self.claim.read().await? {
            Found::Held(held) => held,
            found => return self.check_same_end(&found, &ended),
        };
        let write = held.complete_write(&ended(&held.entry, held.since))?;
        match self.claim.claims.send(&Commit::new().write(write)).await? {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict(_) => self.check_same_end(&self.claim.read().await?, &ended),
        }
    }

    /// Accepts an earlier end with the same outcome: the first reply was lost.
    fn check_same_end(
        &self,
        found: &Found,
        ended: &impl Fn(&Entry, Timestamp) -> Entry,
    ) -> Result<(), ClaimError> {
        if let Found::Over(there) = found
            && let Some(at) = there.at
            && is_same(there, &ended(there, at))
        {
            return Ok(());
        }
        Err(self.claim.not_held(found))
    }
}

/// Whether both entries have the same outcome.
fn is_same(there: &Entry, asked: &Entry) -> bool {
    match (there.state, asked.state) {
        (State::Done, State::Done) => {
            matches!((&there.value, &asked.value), (Some(one), Some(other)) if one.same_value(other))
        }
        (State::Failed, State::Failed) => there.error == asked.error,
        _ => false,
    }
}
