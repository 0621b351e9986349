//! A lock that is held.

use tidelock_store::{Commit, Committed, Fence, Guard, Timestamp};
use tokio_util::sync::CancellationToken;

use super::super::held_claim::{HeldClaim, Holding};
use super::super::operation::Operation;
use super::super::{ClaimError, ClaimKey, Handoff};

/// A lock that is held. Its lease is renewed until this goes away, and then it is given back: on a
/// return, on an error and on a panic alike.
///
/// A process that is stopped for longer than the lease lasts has lost the lock without knowing.
/// What it then does to the store through [`commit`](Self::commit), or with [`guard`](Self::guard)
/// in it, is refused; for what it does elsewhere, pass on the [`fence`](Self::fence).
#[derive(Debug)]
#[must_use = "the lock is given back when its guard goes away"]
pub struct LockGuard {
    holding: Option<Holding>,
    /// Whether nobody has it yet who could give it back, and somebody may still ask for it under
    /// the same operation.
    is_left: bool,
}

impl LockGuard {
    pub(super) fn new(holding: Holding) -> Self {
        Self { holding: Some(holding), is_left: false }
    }

    /// The same, for whoever asks for it under an operation: until it is [handed
    /// over](Self::handed_over), it is not given back.
    pub(super) fn left_for(mut self, operation: Option<&Operation>) -> Self {
        self.is_left = operation.is_some();
        self
    }

    /// Somebody has it.
    pub(super) fn handed_over(mut self) -> Self {
        self.is_left = false;
        self
    }

    /// The name of the lock.
    pub fn key(&self) -> &ClaimKey {
        &self.hold().key
    }

    /// Since when it is held, by the store's clock.
    pub fn since(&self) -> Timestamp {
        self.hold().since
    }

    /// Grows with every holder of this lock: pass it on to whatever should refuse those who come
    /// late.
    pub fn fence(&self) -> Fence {
        self.hold().fence()
    }

    /// For a commit that must not land once somebody else has the lock.
    pub fn guard(&self) -> Guard {
        self.hold().guard()
    }

    /// Cancelled when the lock is lost: stop.
    pub fn lost(&self) -> &CancellationToken {
        self.holding().lost()
    }

    /// Commits, provided that the lock is still held.
    ///
    /// # Errors
    /// `Lost` if somebody else has it; `Refused` if some other part does not hold.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, ClaimError> {
        self.holding().commit(commit).await
    }

    /// Gives the lock back, and waits until that is so.
    ///
    /// # Errors
    /// `Lost` if somebody else has it.
    pub async fn release(mut self) -> Result<(), ClaimError> {
        let released = self.holding().release().await;
        self.holding = None;
        released
    }

    /// Lets go of the lock without giving it back: whoever has the fence [goes
    /// on](super::Lock::attach) with it. Nobody renews it from here on.
    pub fn detach(mut self) -> Handoff {
        let passed = Handoff::of(self.hold());
        self.holding = None;
        passed
    }

    fn holding(&self) -> &Holding {
        self.holding.as_ref().expect("a guard holds its lock")
    }

    fn hold(&self) -> &HeldClaim {
        &self.holding().holds()[0]
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(holding) = self.holding.as_ref().filter(|_| !self.is_left) {
            holding.release_later();
        }
    }
}
