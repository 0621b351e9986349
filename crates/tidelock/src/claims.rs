//! Claims: idempotency keys, locks, singletons, quotas and rate limits. Claim first, then work;
//! never check, then act.
//!
//! A claim is a record that the first claimant creates on the condition that it is absent; its
//! revision is the claimant's *fence*. A second record that expires is the *lease* of a claim in
//! progress. The store checks both inside the commit and by its own clock. So one commit wins a
//! claim and one completes it. A claimant that died is replaced once its lease has expired, and one
//! that was only slow finds that its fence is no longer the newest.
//!
//! This module only builds commits and hands them to the store. Every name it uses there is spelled
//! in `keys.rs`.

mod claim_key;
mod error;
mod fingerprint;
mod period;

mod compound;
mod handoff;
mod idempotency;
mod listing;
mod lock;
mod quota;
mod rate;
mod register;
mod release;
mod singleton;
mod tx_claims;

mod acquire;
mod claim_attempt;
mod claim_set;
mod claim_wait;
mod entry;
mod held_claim;
pub(crate) mod keys;
mod lease_term;
mod operation;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidelock_store::{Commit, CommitOutcome, Store, StoreError, WorkerName, limits};

use crate::events::submit;
use crate::handle::Tidelock;
use operation::Operation;

pub use claim_key::ClaimKey;
pub use compound::{Compound, Refusal, RefusalReason, Refusals};
pub use error::{ClaimError, OnceError};
pub use fingerprint::Fingerprint;
pub use handoff::{AttachedClaim, AttachedKey, AttachedLock, Handoff};
pub(crate) use held_claim::ClaimKind;
pub use held_claim::{ClaimGuard, CompoundGuard, HeldClaim, LockGuard};
pub use idempotency::{
    FingerprintMismatch, Idempotency, IdempotencyClaim, InProgress, OnFailure, Peek,
};
/// The time zone of calendar periods.
pub use jiff::tz::TimeZone;
pub use listing::{ClaimInfo, ClaimState, QuotaInfo};
pub(crate) use lock::ContendedLocks;
pub use lock::{Lock, LockBusy, LockHolder};
pub use period::Period;
pub use quota::{
    Grant, Quota, QuotaExceeded, QuotaUsage, RefundOutcome, Reservation, ReservationToken,
};
pub use rate::{RateExceeded, RateLimit, RateUsage};
pub use register::LwwRegister;
pub use release::Released;
pub use singleton::{Singleton, SingletonTaken};

impl Tidelock {
    /// Returns the claims of this store, for a claimant's name, an operation id, or listings.
    pub fn claims(&self) -> Claims {
        let (by, remembered) = (own_name().clone(), limits::COMMIT_MEMORY);
        Claims { tidelock: self.clone(), by, invalid: None, operation: None, remembered }
    }

    /// Starts an idempotency claim: see [`Claims::idempotency`].
    pub fn idempotency(&self, key: impl AsRef<str>) -> Idempotency {
        self.claims().idempotency(key)
    }

    /// Starts a singleton claim: see [`Claims::singleton`].
    pub fn singleton(&self, name: impl AsRef<str>) -> Singleton {
        self.claims().singleton(name)
    }

    /// Starts a lock: see [`Claims::lock`].
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.claims().lock(name)
    }

    /// Starts a quota: see [`Claims::quota`].
    pub fn quota(&self, name: impl AsRef<str>, limit: i64) -> Quota {
        self.claims().quota(name, limit)
    }

    /// Starts a rate limit: see [`Claims::rate`].
    pub fn rate(&self, name: impl AsRef<str>, limit: u32, every: Duration) -> RateLimit {
        self.claims().rate(name, limit, every)
    }

    /// Starts a compound claim: see [`Claims::claim_all`].
    pub fn claim_all(&self) -> Compound {
        self.claims().claim_all()
    }

    /// Starts a last-write-wins register: see [`Claims::register`].
    pub fn register(&self, name: impl AsRef<str>) -> LwwRegister {
        self.claims().register(name)
    }
}

/// Claims under a claimant's name and an operation id. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Claims {
    tidelock: Tidelock,
    by: WorkerName,
    /// Why the claimant's name is invalid, for the next call.
    invalid: Option<StoreError>,
    operation: Option<Operation>,
    /// How long an operation id is remembered.
    remembered: Duration,
}

impl Claims {
    /// Sets the claimant's name, which later claimants are told. An invalid name is an error of the
    /// claim.
    pub fn by(mut self, name: impl AsRef<str>) -> Self {
        match WorkerName::new(name.as_ref()) {
            Ok(name) => (self.by, self.invalid) = (name, None),
            Err(error) => self.invalid = Some(error),
        }
        self
    }

    /// Makes the next claim idempotent.
    ///
    /// A repeat with the same id returns the first result, and nothing is claimed twice. A key or a
    /// lock is returned under the same fence while its lease lasts. A quota returns the same grant,
    /// even after its period is over. A reservation that has ended is reported as such. The id is
    /// remembered for seven days, or for the [deduplication window](Self::dedup_window). Each
    /// request needs its own id.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(Operation { id: id.into(), remembered: self.remembered });
        self
    }

    /// Sets how long the [operation id](Self::operation_id) is remembered.
    pub fn dedup_window(mut self, long: Duration) -> Self {
        self.remembered = long;
        if let Some(operation) = &mut self.operation {
            operation.remembered = long;
        }
        self
    }

    /// Starts an idempotency claim: the work of a request is done once, and every repeat with the
    /// same key gets the first result.
    pub fn idempotency(&self, key: impl AsRef<str>) -> Idempotency {
        Idempotency::new(self.clone(), key.as_ref())
    }

    /// Starts a singleton claim: one winner per scope and period.
    pub fn singleton(&self, name: impl AsRef<str>) -> Singleton {
        Singleton::new(self.clone(), name.as_ref())
    }

    /// Starts a lock: mutual exclusion across processes, with a lease.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), name.as_ref())
    }

    /// Starts a quota: at most `limit` units per scope and period.
    pub fn quota(&self, name: impl AsRef<str>, limit: i64) -> Quota {
        Quota::new(self.clone(), name.as_ref(), limit)
    }

    /// Starts a rate limit: `limit` units in each `every`, replenished continuously.
    ///
    /// Unlike a quota per [`Period::Every`], it has no windows: across the boundary of two windows
    /// of a quota, up to twice the limit can pass in less than one length.
    pub fn rate(&self, name: impl AsRef<str>, limit: u32, every: Duration) -> RateLimit {
        RateLimit::new(self.clone(), name.as_ref(), limit, every)
    }

    /// Starts a compound claim: several claims in one commit, all or none.
    pub fn claim_all(&self) -> Compound {
        Compound::new(self.clone())
    }

    /// Starts a last-write-wins register: for values where losing a concurrent change does not
    /// matter.
    pub fn register(&self, name: impl AsRef<str>) -> LwwRegister {
        LwwRegister::new(self.clone(), name.as_ref())
    }

    /// Rejects an invalid name of the claimant, and an operation id that cannot be remembered.
    fn check(&self) -> Result<(), StoreError> {
        self.invalid.clone().map_or(Ok(()), Err)?;
        self.operation.as_ref().map_or(Ok(()), Operation::check)
    }

    /// Rejects an operation id in a unit of work, which happens once by itself.
    fn refuse_operation(&self) -> Result<(), StoreError> {
        self.check()?;
        self.operation.as_ref().map_or(Ok(()), |_| {
            Err(StoreError::invalid(
                "a claim with an operation id has its own commit; leave the id out in a transaction",
            ))
        })
    }

    /// Sends a commit until its outcome is known.
    async fn send(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        submit::send(&**self.store(), commit, self.tidelock.retry(), self.tidelock.random()).await
    }

    /// Adds an id with which the commit can be sent again.
    fn ensure_retry_id(&self, commit: Commit) -> Commit {
        operation::ensure_retry_id(self.operation.as_ref(), commit)
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.tidelock.store()
    }
}

/// A readable name that distinguishes processes.
fn own_name() -> &'static WorkerName {
    static NAME: OnceLock<WorkerName> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = format!("process-{}-{:04x}", std::process::id(), fastrand::u16(..));
        WorkerName::new(name).expect("it is short and plain")
    })
}
