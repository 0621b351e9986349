//! Handoff: a claim continued by key and fence, in this process or another.
//!
//! A guard renews its lease while it lives, and so belongs to one task. A server that gives a claim
//! to an outside client keeps nothing between the client's calls: it
//! [detaches](super::LockGuard::detach) the claim and attaches to it again by key and fence. Such a
//! claim is renewed only by an explicit call, and never released on drop.

use std::time::Duration;

use serde::Serialize;
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, Fence, Guard, RecordKey, Result, Revision, Slot,
    Timestamp,
};

use super::entry::Entry;
use super::held_claim::HeldClaim;
use super::lease_term::{self, LeaseTerm};
use super::{ClaimError, ClaimKey, Claims, keys};

/// A detached claim: what is needed to attach to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Handoff {
    /// The claim's name, as displayed.
    pub key: String,
    /// The fence. It is the credential of the claim.
    pub fence: Fence,
    /// When the lease expires, unless it is renewed.
    pub until: Timestamp,
}

impl Handoff {
    pub(super) fn of(held: &HeldClaim) -> Self {
        Self { key: held.key.to_string(), fence: held.fence(), until: held.since.plus(held.lease) }
    }
}

/// A claim continued by its fence. Dropping it changes nothing.
///
/// The store checks the fence inside every commit: one that is no longer the newest is rejected.
#[derive(Debug, Clone)]
#[must_use = "nothing is done before it is renewed, completed or released"]
pub struct AttachedClaim {
    pub(super) claims: Claims,
    key: ClaimKey,
    fence: Fence,
}

/// Current state of a detached claim.
pub(super) enum Found {
    /// Held under this fence.
    Held(Box<HeldClaim>),
    /// Completed or failed under this fence.
    Over(Box<Entry>),
    /// Released under this fence.
    Released,
    /// Another claimant holds it, or held it.
    Lost,
}

impl AttachedClaim {
    pub(super) fn new(claims: &Claims, key: &ClaimKey, fence: Fence) -> Self {
        Self { claims: claims.clone(), key: key.clone(), fence }
    }

    /// Returns the claim's name.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Returns the fence it is held under.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Returns a guard for a commit that must not succeed once another claimant holds the claim.
    ///
    /// # Errors
    /// `Store` if the name is invalid.
    pub fn guard(&self) -> Result<Guard, ClaimError> {
        Ok(Guard::Record { key: keys::record(&self.key)?, expected: self.expected() })
    }

    /// Renews the lease for this long from now, by the store's clock, and returns when it expires.
    ///
    /// # Errors
    /// `Lost` if another claimant holds it; `Over` if it was completed or released; `Store` if the
    /// lease is zero or too long.
    pub async fn renew(&self, lease: Duration) -> Result<Timestamp, ClaimError> {
        lease_term::check(&self.key, "lease", lease)?;
        let held = match self.read().await? {
            Found::Held(held) => held,
            other => return Err(self.not_held(&other)),
        };
        match self.claims.send(&held.renew(Commit::new(), LeaseTerm::lasting(lease))?).await? {
            CommitOutcome::Committed(committed) => Ok(committed.at.plus(lease)),
            CommitOutcome::Conflict(_) => Err(self.not_held(&self.read().await?)),
        }
    }

    /// Releases the claim. Idempotent.
    ///
    /// # Errors
    /// `Lost` if another claimant holds it; `Over` if it was completed.
    pub async fn release(&self) -> Result<(), ClaimError> {
        let held = match self.read().await? {
            Found::Held(held) => held,
            Found::Released => return Ok(()),
            other => return Err(self.not_held(&other)),
        };
        match self.claims.send(&held.release(Commit::new())).await? {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict(_) => match self.read().await? {
                Found::Released => Ok(()),
                other => Err(self.not_held(&other)),
            },
        }
    }

    /// Reads the current state. The first write after an acquisition is the holder's, or that of a
    /// claimant that takes it over and is then pending.
    pub(super) async fn read(&self) -> Result<Found, ClaimError> {
        let slots = self.claims.store().get(&records(&self.key)?).await?;
        let mine = self.revision();
        Ok(match &slots[..] {
            [Slot::Live(claim), lease] if claim.revision == mine => {
                let entry = Entry::read(claim)?;
                Found::Held(Box::new(self.held(entry, lease).await?))
            }
            [Slot::Live(claim), _] if claim.revision.get() == mine.get() + 1 => {
                match Entry::read(claim)? {
                    entry if entry.is_pending() => Found::Lost,
                    entry => Found::Over(Box::new(entry)),
                }
            }
            [Slot::Deleted(revision), _] if revision.get() == mine.get() + 1 => Found::Released,
            _ => Found::Lost,
        })
    }

    /// Returns why the claim cannot be used.
    pub(super) fn not_held(&self, found: &Found) -> ClaimError {
        let (key, fence) = (self.key.clone(), self.fence);
        match found {
            Found::Over(_) | Found::Released => ClaimError::Over { key, fence },
            Found::Lost => ClaimError::Lost { key, fence },
            // Rejected and still held: another holder of the fence renewed it concurrently.
            Found::Held(_) => ClaimError::Contended { key, attempts: 1 },
        }
    }

    async fn held(&self, entry: Entry, lease: &Slot) -> Result<HeldClaim> {
        let since = match lease.live().and_then(super::entry::LeaseRecord::since) {
            Some(since) => since,
            None => self.claims.store().now().await?,
        };
        HeldClaim::resumed(&self.key, entry, self.revision(), since)
    }

    fn expected(&self) -> ExpectedRevision {
        ExpectedRevision::Revision(self.revision())
    }

    fn revision(&self) -> Revision {
        Revision::new(self.fence.get()).expect("a fence is in the range of a revision")
    }
}

/// The records of a claim and its lease.
pub(super) fn records(key: &ClaimKey) -> Result<[RecordKey; 2]> {
    Ok([keys::record(key)?, keys::lease(key)?])
}
