//! Claims: a first-come right to do something once. Claim first, then work; never check, then act.
//!
//! A claim is a record that whoever comes first writes, on the condition that nobody has it; its revision is the *fence* of
//! that claimant. Beside it lies a record that expires: the *lease* of a claim whose work is under way. Both are judged by
//! the store, inside the commit and on its own clock. So one commit wins a claim and one completes it; a claimant that died is
//! replaced once its lease has run out, and one that was only slow finds that its fence is no longer the newest.
//!
//! The pattern only builds commits and hands them to the store. Every name that it uses there is spelled in `keys.rs`.

mod claim_key;
mod error;
mod fingerprint;
mod idempotency;

mod bid;
mod entry;
mod holding;
mod keys;
mod patience;
mod stake;

use std::fmt;
use std::sync::{Arc, OnceLock};

use tidelock_store::{Store, StoreError, WorkerName};

use crate::handle::Tidelock;

pub use claim_key::ClaimKey;
pub use error::{ClaimError, OnceError};
pub use fingerprint::Fingerprint;
pub use idempotency::{Claim, Holder, Idempotency, Mismatch, OnFailure, Won};
pub use patience::Patience;

impl Tidelock {
    /// The claims of this store.
    pub fn claims(&self) -> Claims {
        Claims { tidelock: self.clone(), by: own_name().clone() }
    }
}

/// Everything that can be claimed. Clones are handles on the same.
#[derive(Debug, Clone)]
pub struct Claims {
    tidelock: Tidelock,
    by: WorkerName,
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

    /// The right to do what a request asks for, once: whoever asks again under the same key gets the first one's result.
    pub fn idempotency(&self, key: impl fmt::Display) -> Idempotency {
        Idempotency::new(self.clone(), &key)
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
