//! Somebody else who is at it, and the wait for what comes of it.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tidelock_store::{RecordKey, Timestamp, Topic, WorkerName};

use super::super::claim_attempt::{ClaimAttempt, Contender};
use super::super::wait_policy::{WaitPolicy, Waiting};
use super::super::{ClaimError, ClaimKey, Claims, Fingerprint};
use super::peek::{PeekEntry, glance};
use crate::telemetry;

/// Somebody else is at it.
#[derive(Debug)]
pub struct InProgress<T> {
    claims: Claims,
    key: ClaimKey,
    record: RecordKey,
    rival: Contender,
    /// What was asked for: the key may come to be used for something else meanwhile.
    asked: Option<Fingerprint>,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> InProgress<T> {
    pub(super) fn new(claims: &Claims, stake: &ClaimAttempt, rival: Contender) -> Self {
        telemetry::claim_contended(&stake.key, &claims.by, rival.by(), 1);
        Self::seen(claims, stake, rival)
    }

    /// In nobody's way, who only looks.
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

    /// The name of the claim.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Who is at it.
    pub fn by(&self) -> &WorkerName {
        self.rival.by()
    }

    /// Since when.
    pub fn since(&self) -> Option<Timestamp> {
        self.rival.since
    }

    /// Until when, unless they ask for longer; after this the key can be claimed again.
    pub fn until(&self) -> Option<Timestamp> {
        self.rival.until
    }

    /// Waits for the result, but no longer than this.
    ///
    /// # Errors
    /// - `StillHeld` if there is no result by then.
    /// - `Free` if whoever is at it gives up or dies: claim it again.
    /// - `Failed` if the work failed, and the failure is to be remembered.
    ///
    /// # Cancel safety
    /// Whoever stops waiting has changed nothing.
    pub async fn wait(&self, deadline: Duration) -> Result<T, ClaimError> {
        self.wait_with(WaitPolicy::of(deadline)).await
    }

    /// The same, looking as often as this says.
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
