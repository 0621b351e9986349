//! The rights that the workers claim: keys, a few locks, and quotas.
//!
//! What a lock protects is read and written in two calls, without an expectation: only the lock and
//! its fence keep two holders from overwriting each other.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::claims::{self, ClaimError, Claims, Lock, LockHolder};
use tidelock::store::Result as StoreResult;
use tidelock::store::{
    Commit, ExpectedRevision, Fence, NewEvent, RawJson, RecordWrite, RetryAdvice, StoreError,
    StoreErrorKind, StoreOperation,
};
use tidelock::{ExpectedVersion, Tidelock};

use crate::caller::{Bug, Caller};
use crate::space::Space;

/// Number of locks. Few, so that some worker always waits for one.
pub(crate) const LOCKS: u64 = 3;
/// The window of a rate.
const STRETCH: claims::Period = claims::Period::Every(Duration::from_secs(1));

/// A quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quota {
    /// Taken permanently, in windows of a second.
    Taken,
    /// Reserved for a while, and never confirmed.
    Reserved,
    /// Taken together with a key and a lock, in windows of a second.
    Awarded,
}

impl Quota {
    pub(crate) const ALL: [Self; 3] = [Self::Taken, Self::Reserved, Self::Awarded];

    pub(crate) fn limit(self) -> i64 {
        match self {
            Self::Taken => 8,
            Self::Reserved => 6,
            Self::Awarded => 20,
        }
    }

    pub(crate) fn of(self, claims: &Claims, space: &Space) -> claims::Quota {
        match self {
            Self::Taken => claims.quota(space.right("taken"), self.limit()).per(STRETCH),
            Self::Reserved => claims.quota(space.right("reserved"), self.limit()),
            Self::Awarded => claims.quota(space.right("awarded"), self.limit()).per(STRETCH),
        }
    }
}

/// The value that a lock protects, also recorded at every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bump {
    /// The fence of the holder that wrote it.
    pub(crate) fence: Fence,
    /// Number of writes.
    pub(crate) total: u64,
}

/// The record that is written in the commit that completes a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub(crate) key: String,
    pub(crate) result: String,
}

impl Bump {
    /// Adds the writes of this bump to a commit.
    pub(crate) fn added_to(&self, commit: Commit, space: &Space, lock: u64) -> StoreResult<Commit> {
        let event = NewEvent::of("bumped", self)?;
        let write =
            RecordWrite::put(&space.guarded(lock), ExpectedRevision::Any, RawJson::new(self)?);
        Ok(commit.append(&space.bumps(lock), ExpectedVersion::Any, [event]).write(write))
    }
}

impl Completed {
    /// Adds the record of this completion to a commit.
    pub(crate) fn added_to(&self, commit: Commit, space: &Space) -> StoreResult<Commit> {
        let event = NewEvent::of("completed", self)?;
        Ok(commit.append(&space.completions(), ExpectedVersion::Any, [event]))
    }
}

/// The claims of a store, under this claimant's name.
pub(crate) fn claims(caller: &Caller, name: &str) -> Claims {
    Tidelock::over(caller.store.clone()).claims().by(name)
}

pub(crate) fn lock(claims: &Claims, space: &Space, lock: u64) -> Lock {
    claims.lock(space.right("lock")).of(lock)
}

/// The holder of a lock.
pub(crate) async fn holder(
    caller: &Caller,
    space: &Space,
    nth: u64,
) -> Result<Option<LockHolder>, Bug> {
    let lock = lock(&claims(caller, "supervisor"), space, nth);
    caller.insist("lock holder", || async { plain(lock.holder().await) }).await
}

/// The current value that a lock protects; none before its first write.
pub(crate) async fn guarded(
    caller: &Caller,
    space: &Space,
    lock: u64,
) -> Result<Option<Bump>, Bug> {
    let keys = [space.guarded(lock)];
    let slot = caller.insist("get", || caller.store.get(&keys)).await?.pop();
    let record = slot.and_then(tidelock::store::Slot::into_live);
    let bump = record.map(|record| record.value.to()).transpose();
    bump.map_err(|e| Bug(format!("what lock {lock} guards cannot be read: {e}")))
}

/// Converts an error of a claim to a store error: contention can be retried, everything else
/// cannot.
pub(crate) fn plain<T>(answer: Result<T, ClaimError>) -> StoreResult<T> {
    answer.map_err(|error| match error {
        ClaimError::Store(error) => error,
        ClaimError::Contended { .. } | ClaimError::StillHeld { .. } | ClaimError::Free { .. } => {
            let (kind, advice) = (StoreErrorKind::Unavailable, RetryAdvice::Later);
            StoreError::new(kind, advice, StoreOperation::Commit, error.to_string())
        }
        other => StoreError::invalid(other.to_string()),
    })
}
