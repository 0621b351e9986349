//! Guard of an acquired lock.

use tidelock_store::{Commit, Committed, Fence, Guard, Timestamp};
use tokio_util::sync::CancellationToken;

use super::super::held_claim::{ClaimSet, HeldClaim};
use super::super::operation::Operation;
use super::super::{ClaimError, ClaimKey, Handoff};

/// Guard of an acquired lock.
///
/// The lease is renewed while it lives; dropping it releases the lock, on a return, an error or a
/// panic.
///
/// A process that is suspended for longer than the lease has lost the lock without knowing. Its
/// writes to the store through [`commit`](Self::commit), or with [`guard`](Self::guard), are then
/// rejected; for external systems, pass the [`fence`](Self::fence).
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard {
    set: Option<ClaimSet>,
    /// Set until the guard reaches its caller under an operation id: a repeat of the call may still
    /// ask for the lock.
    is_kept: bool,
}

impl LockGuard {
    pub(super) fn new(set: ClaimSet) -> Self {
        Self { set: Some(set), is_kept: false }
    }

    /// Keeps the lock on drop for a repeat under an operation id, until it is [handed
    /// over](Self::handed_over).
    pub(super) fn keep_for(mut self, operation: Option<&Operation>) -> Self {
        self.is_kept = operation.is_some();
        self
    }

    /// Marks that the caller has received the guard.
    pub(super) fn handed_over(mut self) -> Self {
        self.is_kept = false;
        self
    }

    /// Returns the lock's name.
    pub fn key(&self) -> &ClaimKey {
        &self.held().key
    }

    /// Returns when it was acquired, by the store's clock.
    pub fn since(&self) -> Timestamp {
        self.held().since
    }

    /// Returns the fence, which grows with every holder of this lock.
    ///
    /// Pass it to external systems that should reject outdated holders.
    pub fn fence(&self) -> Fence {
        self.held().fence()
    }

    /// Returns a guard for a commit that must not succeed once another claimant holds the lock.
    pub fn guard(&self) -> Guard {
        self.held().guard()
    }

    /// Returns a token that is cancelled when the lock is lost. Stop the work then.
    pub fn lost(&self) -> &CancellationToken {
        self.set().lost()
    }

    /// Commits on the condition that the lock is still held.
    ///
    /// # Errors
    /// `Lost` if another claimant holds it; `Refused` if another part is rejected.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, ClaimError> {
        self.set().commit(commit).await
    }

    /// Releases the lock and waits for the release.
    ///
    /// # Errors
    /// `Lost` if another claimant holds it.
    pub async fn release(mut self) -> Result<(), ClaimError> {
        let released = self.set().release().await;
        self.set = None;
        released
    }

    /// Detaches the lock without releasing it: the holder of the fence
    /// [continues](super::Lock::attach) it.
    ///
    /// The lease is not renewed any more.
    pub fn detach(mut self) -> Handoff {
        let handoff = Handoff::of(self.held());
        self.set = None;
        handoff
    }

    fn set(&self) -> &ClaimSet {
        self.set.as_ref().expect("a guard holds its lock")
    }

    fn held(&self) -> &HeldClaim {
        &self.set().held_claims()[0]
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(set) = self.set.as_ref().filter(|_| !self.is_kept) {
            set.release_in_background();
        }
    }
}
