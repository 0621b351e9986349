//! Waiting for the result of another claimant.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tidelock_store::{RecordKey, Timestamp, Topic, WorkerName};

use super::super::claim_attempt::{ClaimAttempt, Contender};
use super::super::wait_policy::{WaitPolicy, Waiting};
use super::super::{ClaimError, ClaimKey, Claims, Fingerprint};
use super::peek::{PeekEntry, glance};
use crate::telemetry;

/// A key that another claimant is working on.
#[derive(Debug)]
pub struct InProgress<T> {
    claims: Claims,
    key: ClaimKey,
    record: RecordKey,
    rival: Contender,
    /// Fingerprint of the request: the key may be reused for another one meanwhile.
    asked: Option<Fingerprint>,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> InProgress<T> {
    pub(super) fn new(claims: &Claims, stake: &ClaimAttempt, rival: Contender) -> Self {
        telemetry::claim_contended(&stake.key, &claims.by, rival.by(), 1);
        Self::seen(claims, stake, rival)
    }

    /// Without reporting contention: the caller only peeks.
    pub(super) fn seen(claims: &Claims, stake: &ClaimAttempt, rival: Contender) -> Self {
        Self {
            claims: claims.clone(),
            key: stake.key.clone(),
            record: stake.record.clone(),
            rival,
            asked: stake.entry.fingerprint,
            result: PhantomData,
        }
    }

    /// Returns the claim's name.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Returns the claimant.
    pub fn by(&self) -> &WorkerName {
        self.rival.by()
    }

    /// Returns when it was acquired.
    pub fn since(&self) -> Option<Timestamp> {
        self.rival.since
    }

    /// Returns when the lease expires, unless it is renewed; then the key can be claimed again.
    pub fn until(&self) -> Option<Timestamp> {
        self.rival.until
    }

    /// Waits for the result, at most this long.
    ///
    /// # Errors
    /// - `StillHeld` if there is no result by then.
    /// - `Free` if the claimant gives up or dies: claim the key again.
    /// - `Failed` if the work failed, and the failure was remembered.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait(&self, deadline: Duration) -> Result<T, ClaimError> {
        self.wait_with(WaitPolicy::of(deadline)).await
    }

    /// Waits for the result according to a wait policy.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_with(&self, patience: WaitPolicy) -> Result<T, ClaimError> {
        let mut signal = self.claims.store().signal(Topic::Record(self.record.clone()));
        let mut waiting = patience.begin();
        loop {
            let rival = match glance(&self.claims, &self.key, self.asked).await? {
                PeekEntry::Over(entry) => return super::result(&self.key, &entry),
                PeekEntry::Free => {
                    return Err(ClaimError::Free { key: self.key.clone(), by: self.by().clone() });
                }
                PeekEntry::Held(rival, _) => rival,
            };
            if !waiting.next(&mut signal, self.claims.tidelock.random()).await {
                return Err(self.in_vain(rival, &waiting));
            }
        }
    }

    fn in_vain(&self, rival: Contender, waiting: &Waiting) -> ClaimError {
        telemetry::claim_in_vain(&self.key, &self.claims.by, rival.by(), waiting.looks + 1);
        ClaimError::StillHeld {
            key: self.key.clone(),
            until: rival.until,
            by: rival.entry.by,
            waited: waiting.waited(),
        }
    }
}
