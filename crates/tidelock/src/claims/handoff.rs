//! Handoff: a claim continued by key and fence, in this process or another.
//!
//! A guard renews its lease while it lives, and so belongs to one task. A server that gives a claim
//! to an outside client keeps nothing between the client's calls: it
//! [detaches](super::HeldClaim::detach) the claim and attaches to it again by key and fence. Such a
//! claim is renewed only by an explicit call, and never released on drop.

use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, Fence, Guard, RawJson, RecordKey, RecordWrite, Result,
    Revision, Slot, Timestamp,
};

use super::claim_set::Hold;
use super::entry::{Entry, LeaseRecord, State};
use super::held_claim::{LockKind, WorkKind};
use super::lease_term::{self, LeaseTerm};
use super::{ClaimError, ClaimKey, Claims, keys};
use crate::handle::Tidelock;

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
    pub(super) fn of(held: &Hold) -> Self {
        Self { key: held.key.to_string(), fence: held.fence(), until: held.since.plus(held.lease) }
    }
}

/// A claim continued by its fence. Dropping it changes nothing.
///
/// The store checks the fence inside every commit: one that is no longer the newest is rejected.
#[derive(Debug, Clone)]
#[must_use = "nothing is done before it is renewed, completed or released"]
pub struct AttachedClaim<K> {
    claims: Claims,
    key: ClaimKey,
    fence: Fence,
    kind: PhantomData<fn() -> K>,
}

/// A lock continued by its fence.
pub type AttachedLock = AttachedClaim<LockKind>;

/// An idempotency key continued by its fence.
pub type AttachedKey = AttachedClaim<WorkKind<RawJson>>;

/// Current state of a detached claim.
enum Found {
    /// Held under this fence.
    Held(Box<Hold>),
    /// Completed or failed under this fence.
    Over(Box<Entry>),
    /// Released under this fence.
    Released,
    /// Another claimant holds it, or held it.
    Lost,
}

impl<K> AttachedClaim<K> {
    pub(super) fn new(claims: &Claims, key: &ClaimKey, fence: Fence) -> Self {
        Self { claims: claims.clone(), key: key.clone(), fence, kind: PhantomData }
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
    async fn read(&self) -> Result<Found, ClaimError> {
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
    fn not_held(&self, found: &Found) -> ClaimError {
        let (key, fence) = (self.key.clone(), self.fence);
        match found {
            Found::Over(_) | Found::Released => ClaimError::Over { key, fence },
            Found::Lost => ClaimError::Lost { key, fence },
            // Rejected and still held: another holder of the fence renewed it concurrently.
            Found::Held(_) => ClaimError::Contended { key, attempts: 1 },
        }
    }

    async fn held(&self, entry: Entry, lease: &Slot) -> Result<Hold> {
        let since = match lease.live().and_then(LeaseRecord::since) {
            Some(since) => since,
            None => self.claims.store().now().await?,
        };
        Hold::resumed(&self.key, entry, self.revision(), since)
    }

    fn expected(&self) -> ExpectedRevision {
        ExpectedRevision::Revision(self.revision())
    }

    fn revision(&self) -> Revision {
        Revision::new(self.fence.get()).expect("a fence is in the range of a revision")
    }
}

impl AttachedKey {
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

    /// Returns the write that stores the result, and the fence that it rests on.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub(crate) async fn completion(&self, value: RawJson) -> Result<RecordWrite, ClaimError> {
        match self.read().await? {
            Found::Held(held) => Ok(held.complete_write(&held.entry.done(value, held.since))?),
            other => Err(self.not_held(&other)),
        }
    }

    pub(crate) fn tidelock(&self) -> &Tidelock {
        &self.claims.tidelock
    }

    async fn end(&self, ended: impl Fn(&Entry, Timestamp) -> Entry) -> Result<(), ClaimError> {
        let held = match self.read().await? {
            Found::Held(held) => held,
            found => return self.check_same_end(&found, &ended),
        };
        let write = held.complete_write(&ended(&held.entry, held.since))?;
        match self.claims.send(&Commit::new().write(write)).await? {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict(_) => self.check_same_end(&self.read().await?, &ended),
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
        Err(self.not_held(found))
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

/// The records of a claim and its lease.
pub(super) fn records(key: &ClaimKey) -> Result<[RecordKey; 2]> {
    Ok([keys::record(key)?, keys::lease(key)?])
}
