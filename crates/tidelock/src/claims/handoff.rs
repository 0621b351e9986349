//! Rights that go from hand to hand: held by whoever has the fence, in this process or another.
//!
//! A guard renews its lease for as long as it lives, and so belongs to one task. A server that
//! hands a right to somebody outside keeps nothing between two of their calls: it [passes
//! on](super::LockGuard::detach) what it won, and goes on with it by key and fence when they come
//! back. Nobody renews such a right but by asking for it; it is never given back by going out of
//! scope.

use std::time::Duration;

use serde::Serialize;
use tidelock_store::{
    Commit, CommitOutcome, ExpectedRevision, Fence, Guard, RecordKey, Result, Revision, Slot,
    Timestamp,
};

use super::entry::Entry;
use super::held_claim::HeldClaim;
use super::term::{self, Term};
use super::{ClaimError, ClaimKey, Claims, keys};

/// A right that was passed on: what whoever goes on with it has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Handoff {
    /// To what, as people read it.
    pub key: String,
    /// Who has this has the right.
    pub fence: Fence,
    /// Until when, unless somebody asks for longer.
    pub until: Timestamp,
}

impl Handoff {
    pub(super) fn of(hold: &HeldClaim) -> Self {
        Self { key: hold.key.to_string(), fence: hold.fence(), until: hold.since.plus(hold.lease) }
    }
}

/// A right that is gone on with, by its fence. Dropping it changes nothing.
///
/// Whatever is asked is judged by the store, in the commit: a fence that is no longer the newest is
/// refused.
#[derive(Debug, Clone)]
#[must_use = "nothing is done before it is renewed, completed or given back"]
pub struct AttachedClaim {
    pub(super) claims: Claims,
    key: ClaimKey,
    fence: Fence,
}

/// What has become of a right since it was passed on.
pub(super) enum Found {
    /// It is held under this fence.
    Held(Box<HeldClaim>),
    /// This came of it, under this fence.
    Over(Box<Entry>),
    /// It was given back under this fence.
    Released,
    /// Somebody else has it, or had it.
    Lost,
}

impl AttachedClaim {
    pub(super) fn new(claims: &Claims, key: &ClaimKey, fence: Fence) -> Self {
        Self { claims: claims.clone(), key: key.clone(), fence }
    }

    /// The name of the right.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// The fence that it is held under.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// For a commit that must not land once somebody else has it.
    ///
    /// # Errors
    /// `Store` if the name cannot be one.
    pub fn guard(&self) -> Result<Guard, ClaimError> {
        Ok(Guard::Record { key: keys::record(&self.key)?, expected: self.mine() })
    }

    /// Holds it for so long from now on, by the store's clock, and says until when that is.
    ///
    /// # Errors
    /// `Lost` if somebody else has it; `Over` if it was completed or given back; `Store` if the
    /// lease is no time, or too long.
    pub async fn renew(&self, lease: Duration) -> Result<Timestamp, ClaimError> {
        term::check(&self.key, "lease", lease)?;
        let hold = match self.look().await? {
            Found::Held(hold) => hold,
            other => return Err(self.not_held(&other)),
        };
        match self.claims.send(&hold.renew(Commit::new(), Term::lasting(lease))?).await? {
            CommitOutcome::Committed(committed) => Ok(committed.at.plus(lease)),
            CommitOutcome::Conflict(_) => Err(self.not_held(&self.look().await?)),
        }
    }

    /// Gives it back. Asked for again, it says the same.
    ///
    /// # Errors
    /// `Lost` if somebody else has it; `Over` if it was completed.
    pub async fn release(&self) -> Result<(), ClaimError> {
        let hold = match self.look().await? {
            Found::Held(hold) => hold,
            Found::Released => return Ok(()),
            other => return Err(self.not_held(&other)),
        };
        match self.claims.send(&hold.release(Commit::new())).await? {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict(_) => match self.look().await? {
                Found::Released => Ok(()),
                other => Err(self.not_held(&other)),
            },
        }
    }

    /// What has become of it. The first write after a claim is its holder's, or that of whoever
    /// takes it over, who is then at it.
    pub(super) async fn look(&self) -> Result<Found, ClaimError> {
        let slots = self.claims.store().get(&places(&self.key)?).await?;
        let mine = self.revision();
        Ok(match &slots[..] {
            [Slot::Live(claim), lease] if claim.revision == mine => {
                let entry = Entry::read(claim)?;
                Found::Held(Box::new(self.hold(entry, lease).await?))
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

    /// Why nothing can be done with it.
    pub(super) fn not_held(&self, found: &Found) -> ClaimError {
        let (key, fence) = (self.key.clone(), self.fence);
        match found {
            Found::Over(_) | Found::Released => ClaimError::Over { key, fence },
            Found::Lost => ClaimError::Lost { key, fence },
            // Refused, and held all the same: it was renewed by somebody else who has the fence.
            Found::Held(_) => ClaimError::Contended { key, attempts: 1 },
        }
    }

    async fn hold(&self, entry: Entry, lease: &Slot) -> Result<HeldClaim> {
        let since = match lease.live().and_then(super::entry::LeaseNote::since) {
            Some(since) => since,
            None => self.claims.store().now().await?,
        };
        HeldClaim::resumed(&self.key, entry, self.revision(), since)
    }

    fn mine(&self) -> ExpectedRevision {
        ExpectedRevision::Revision(self.revision())
    }

    fn revision(&self) -> Revision {
        Revision::new(self.fence.get()).expect("a fence is in the range of a revision")
    }
}

/// Where it says that a right is held, and for how long: what a look at it reads.
pub(super) fn places(key: &ClaimKey) -> Result<[RecordKey; 2]> {
    Ok([keys::record(key)?, keys::lease(key)?])
}
