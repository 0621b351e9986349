//! [`HeldClaim`]: the guard of a claim, or of several claims, whose leases are renewed while it
//! lives.

use std::marker::PhantomData;

use tidelock_store::{Commit, Committed, Fence, Guard, Timestamp};
use tokio_util::sync::CancellationToken;

use super::claim_set::{ClaimSet, Hold};
use super::{ClaimError, ClaimKey, Grant, Handoff, OnFailure};

/// A held claim: a [lock](LockGuard), the [work of a key](ClaimGuard), or [several
/// claims](CompoundGuard).
///
/// The lease is renewed while it lives.
#[derive(Debug)]
#[must_use = "what becomes of a claim whose guard is dropped depends on its kind"]
pub struct HeldClaim<K: ClaimKind> {
    pub(super) set: Box<ClaimSet>,
    pub(super) kind: K,
    /// Completed, released or detached: dropping it changes nothing.
    pub(super) ended: bool,
}

/// Guard of an acquired lock.
///
/// The lease is renewed while it lives; dropping it releases the lock, on a return, an error or a
/// panic.
///
/// A process that is suspended for longer than the lease has lost the lock without knowing. Its
/// writes to the store through [`commit`](HeldClaim::commit), or with [`guard`](HeldClaim::guard),
/// are then rejected; for external systems, pass the [`fence`](HeldClaim::fence).
pub type LockGuard = HeldClaim<LockKind>;

/// Guard of an acquired key or singleton: its holder does the work and completes it.
///
/// The lease is renewed while the guard lives.
///
/// If it is dropped before completion, the progress of the work is unknown, so the key is not
/// released at once but becomes available when the lease expires.
pub type ClaimGuard<T> = HeldClaim<WorkKind<T>>;

/// Guard of several claims held together.
///
/// Their leases are renewed while it lives, and end at the same time. If the holder dies, or is
/// suspended for longer than the lease, all claims become available then, and reserved units return
/// to their quotas.
///
/// If it is dropped before it is completed and holds only locks and quotas, everything is released.
/// Otherwise the progress of the work is unknown, and everything becomes available when the lease
/// expires.
pub type CompoundGuard = HeldClaim<CompoundKind>;

/// What is held.
pub trait ClaimKind {
    /// Whether the claim is released when its guard is dropped; otherwise its lease expires.
    fn is_released_on_drop(&self) -> bool;
}

/// A kind that is one claim.
pub trait SingleClaim: ClaimKind {}

/// A lock.
#[derive(Debug, Clone)]
pub struct LockKind {
    /// Set until the guard reaches its caller under an operation id: a repeat of the call may still
    /// ask for the lock.
    pub(super) is_kept: bool,
}

/// The work of a key or singleton, which ends with a result.
#[derive(Debug, Clone)]
pub struct WorkKind<T> {
    pub(super) on_failure: OnFailure,
    result: PhantomData<fn(T) -> T>,
}

/// Several claims.
#[derive(Debug)]
pub struct CompoundKind {
    pub(super) grants: Vec<Grant>,
    has_only_locks: bool,
    /// Whether a repeat of the call may still ask for it.
    has_operation: bool,
    /// Whether it has reached its caller. Before that, no work was begun.
    pub(super) is_handed_over: bool,
}

impl ClaimKind for LockKind {
    fn is_released_on_drop(&self) -> bool {
        !self.is_kept
    }
}

impl<T> ClaimKind for WorkKind<T> {
    fn is_released_on_drop(&self) -> bool {
        false
    }
}

impl ClaimKind for CompoundKind {
    fn is_released_on_drop(&self) -> bool {
        if self.is_handed_over { self.has_only_locks } else { !self.has_operation }
    }
}

impl SingleClaim for LockKind {}
impl<T> SingleClaim for WorkKind<T> {}

impl<T> WorkKind<T> {
    pub(super) fn new(on_failure: OnFailure) -> Self {
        Self { on_failure, result: PhantomData }
    }
}

impl CompoundKind {
    pub(super) fn of(set: &ClaimSet, has_operation: bool) -> Self {
        Self {
            grants: set.pledges().iter().map(|pledge| pledge.grant.clone()).collect(),
            has_only_locks: set.holds().iter().all(Hold::is_lock),
            has_operation,
            is_handed_over: false,
        }
    }
}

impl<K: ClaimKind> HeldClaim<K> {
    pub(super) fn new(set: ClaimSet, kind: K) -> Self {
        Self { set: Box::new(set), kind, ended: false }
    }

    /// Returns a token that is cancelled when the claim, or one of several, is lost.
    ///
    /// Completing is refused from then on, so stop the work.
    pub fn lost(&self) -> &CancellationToken {
        self.set.lost()
    }

    /// Returns guards for a commit that must not succeed once a claim is lost.
    pub fn guards(&self) -> Vec<Guard> {
        self.set.guards()
    }

    /// Commits on the condition that everything is still held.
    ///
    /// # Errors
    /// `Lost` if another claimant holds it; `Settled` if a reservation has expired; `Refused` if
    /// another part is rejected.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, ClaimError> {
        self.set.commit(commit).await
    }

    /// Releases everything and waits for the release: claims become available, and reserved units
    /// go back.
    ///
    /// Release a key or singleton only if nothing was done yet, or all of it was undone.
    ///
    /// # Errors
    /// `Lost` if another claimant holds it; `Over` if it was completed: then nothing is released.
    pub async fn release(mut self) -> Result<(), ClaimError> {
        if self.ended {
            return Err(self.set.ended_error());
        }
        let released = self.set.release().await;
        self.ended = released.is_ok();
        released
    }
}

impl<K: SingleClaim> HeldClaim<K> {
    /// Returns the claim's name.
    pub fn key(&self) -> &ClaimKey {
        &self.hold().key
    }

    /// Returns when it was acquired, by the store's clock.
    pub fn since(&self) -> Timestamp {
        self.hold().since
    }

    /// Returns the fence, which grows with every holder of this claim.
    ///
    /// Pass it to external systems that should reject outdated holders.
    pub fn fence(&self) -> Fence {
        self.hold().fence()
    }

    /// Returns a guard for a commit that must not succeed once another claimant holds the claim.
    pub fn guard(&self) -> Guard {
        self.hold().guard()
    }

    /// Detaches the claim without releasing it: the holder of the fence continues it, with
    /// [`Lock::attach`](super::Lock::attach) or [`Idempotency::attach`](super::Idempotency::attach).
    ///
    /// The lease is not renewed any more.
    pub fn detach(mut self) -> Handoff {
        self.ended = true;
        Handoff::of(self.hold())
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.set.holds()[0]
    }
}

impl<K: ClaimKind> Drop for HeldClaim<K> {
    fn drop(&mut self) {
        if !self.ended && self.kind.is_released_on_drop() {
            self.set.release_in_background();
        }
    }
}
