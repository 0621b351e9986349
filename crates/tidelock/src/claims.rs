//! Claims: a first-come right to do something once. Claim first, then work; never check, then act.
//!
//! A claim is a record that whoever comes first writes, on the condition that nobody has it; its
//! revision is the *fence* of that claimant. Beside it lies a record that expires: the *lease* of a
//! claim whose work is under way. Both are judged by the store, inside the commit and on its own
//! clock. So one commit wins a claim and one completes it; a claimant that died is replaced once
//! its lease has run out, and one that was only slow finds that its fence is no longer the newest.
//!
//! The pattern only builds commits and hands them to the store. Every name that it uses there is
//! spelled in `keys.rs`.

mod claim_key;
mod error;
mod fingerprint;
mod period;
mod wait_policy;

mod compound;
mod handoff;
mod idempotency;
mod listing;
mod lock;
mod quota;
mod register;
mod release;
mod singleton;

mod acquire;
mod claim_attempt;
mod entry;
mod held_claim;
mod keys;
mod operation;
mod term;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidelock_store::{Commit, CommitOutcome, Store, StoreError, WorkerName, limits};

use crate::events::submit;
use crate::handle::Tidelock;
use operation::Operation;

pub use claim_key::ClaimKey;
pub use compound::{Compound, CompoundGuard, CompoundOutcome, Refusal, RefusalReason};
pub use error::{ClaimError, OnceError};
pub use fingerprint::Fingerprint;
pub use handoff::{AttachedClaim, Handoff};
pub use idempotency::{
    AttachedKey, ClaimGuard, FingerprintMismatch, Idempotency, IdempotencyClaim, InProgress,
    OnFailure, Peek,
};
/// The zone that days and hours are those of.
pub use jiff::tz::TimeZone;
pub use listing::{
    ClaimInfo, ClaimPage, ClaimState, PendingPage, PendingReservation, QuotaInfo, QuotaPage,
};
pub(crate) use lock::ContendedLocks;
pub use lock::{Lock, LockBusy, LockGuard, LockHolder, LockOutcome};
pub use period::Period;
pub use quota::{
    Grant, Quota, QuotaExceeded, QuotaOutcome, QuotaUsage, RefundOutcome, Reservation,
    ReservationToken,
};
pub use register::LwwRegister;
pub use release::Released;
pub use singleton::{Singleton, SingletonOutcome, SingletonTaken};
pub use wait_policy::WaitPolicy;

impl Tidelock {
    /// The claims of this store.
    pub fn claims(&self) -> Claims {
        let (by, remembered) = (own_name().clone(), limits::COMMIT_MEMORY);
        Claims { tidelock: self.clone(), by, operation: None, remembered }
    }
}

/// Everything that can be claimed. Clones are handles on the same.
#[derive(Debug, Clone)]
pub struct Claims {
    tidelock: Tidelock,
    by: WorkerName,
    operation: Option<Operation>,
    /// How long an operation is remembered, if there is one.
    remembered: Duration,
}

impl Claims {
    /// The same, under a name that those who come too late are told.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if the name cannot be one.
    pub fn by(mut self, name: &str) -> Result<Self, StoreError> {
        self.by = WorkerName::new(name)?;
        Ok(self)
    }

    /// The same, for one thing that is asked for once: whoever asks for it again under this id,
    /// having heard no answer, gets what the first one got, and nothing is taken a second time. A
    /// key or a lock is had under the same fence for as long as its lease lasts; of a quota, the
    /// same is granted, also when its period is over; a reservation that has come to its end is
    /// told as such. It is remembered for seven days. Another request needs another id.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation = Some(Operation { id: id.into(), remembered: self.remembered });
        self
    }

    /// The same, remembering the [operation](Self::operation_id) for this long.
    pub fn dedup_window(mut self, long: Duration) -> Self {
        self.remembered = long;
        if let Some(operation) = &mut self.operation {
            operation.remembered = long;
        }
        self
    }

    /// The right to do what a request asks for, once: whoever asks again under the same key gets
    /// the first one's result.
    pub fn idempotency(&self, key: impl fmt::Display) -> Idempotency {
        Idempotency::new(self.clone(), &key)
    }

    /// The right to be the only one, for a scope and a period.
    pub fn singleton(&self, name: impl fmt::Display) -> Singleton {
        Singleton::new(self.clone(), &name)
    }

    /// The right to be the only one at something, for a while.
    pub fn lock(&self, name: impl fmt::Display) -> Lock {
        Lock::new(self.clone(), &name)
    }

    /// So much, for a scope and a period, and no more.
    pub fn quota(&self, name: impl fmt::Display, limit: i64) -> Quota {
        Quota::new(self.clone(), &name, limit)
    }

    /// So often in each stretch of this length, which begins when it is first used. Where one
    /// stretch ends and the next begins, twice as many can come in less than its length.
    pub fn rate(&self, name: impl fmt::Display, limit: i64, every: Duration) -> Quota {
        self.quota(name, limit).per(Period::Every(every))
    }

    /// Several of these, in one commit: all of them, or none.
    pub fn compound(&self) -> Compound {
        Compound::new(self.clone())
    }

    /// A value that whoever writes last determines: for what does not matter if somebody else's
    /// change is lost.
    pub fn register(&self, name: impl fmt::Display) -> LwwRegister {
        LwwRegister::new(self.clone(), &name)
    }

    /// Refuses an operation that cannot be remembered.
    fn check_operation(&self) -> Result<(), StoreError> {
        self.operation.as_ref().map_or(Ok(()), Operation::check)
    }

    /// Sends a commit until it is known what became of it.
    async fn send(&self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        submit::send(&**self.store(), commit, self.tidelock.retry(), self.tidelock.random()).await
    }

    /// Under an id by which it can be sent again.
    fn repeatable(&self, commit: Commit) -> Commit {
        operation::repeatable(self.operation.as_ref(), commit)
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.tidelock.store()
    }
}

/// A name that tells processes apart, for people.
fn own_name() -> &'static WorkerName {
    static NAME: OnceLock<WorkerName> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = format!("process-{}-{:04x}", std::process::id(), fastrand::u16(..));
        WorkerName::new(name).expect("it is short and plain")
    })
}
