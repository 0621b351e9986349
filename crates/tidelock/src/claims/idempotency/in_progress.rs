//! Waiting for the result of another claimant.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tidelock_store::{RecordKey, Timestamp, Topic, WorkerName};

use super::super::claim_attempt::{ClaimAttempt, Contender};
use super::super::claim_wait::ClaimWait;
use super::super::{ClaimError, ClaimKey, Claims, Fingerprint};
use super::peek::{PeekEntry, read_state};
use crate::retry::Retry;
use crate::telemetry;

/// A key that another claimant is working on.
#[derive(Debug)]
pub struct InProgress<T> {
    claims: Box<Claims>,
    key: ClaimKey,
    record: RecordKey,
    contender: Box<Contender>,
    /// Fingerprint of the request: the key may be reused for another one meanwhile.
    asked: Option<Fingerprint>,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> InProgress<T> {
    pub(super) fn new(claims: &Claims, attempt: &ClaimAttempt, contender: Box<Contender>) -> Self {
        telemetry::claim_contended(&attempt.key, &claims.by, contender.by(), 1);
        Self::peeked(claims, attempt, contender)
    }

    /// Without reporting contention: the caller only peeks.
    pub(super) fn peeked(
        claims: &Claims,
        attempt: &ClaimAttempt,
        contender: Box<Contender>,
    ) -> Self {
        Self {
            claims: Box::new(claims.clone()),
            key: attempt.key.clone(),
            record: attempt.record.clone(),
            contender,
            asked: attempt.entry.fingerprint,
            result: PhantomData,
        }
    }

    /// Returns the claim's name.
    pub fn key(&self) -> &ClaimKey {
        &self.key
    }

    /// Returns the claimant.
    pub fn by(&self) -> &WorkerName {
        self.contender.by()
    }

    /// Returns when it was acquired.
    pub fn since(&self) -> Option<Timestamp> {
        self.contender.since
    }

    /// Returns when the lease expires, unless it is renewed; then the key can be claimed again.
    pub fn until(&self) -> Option<Timestamp> {
        self.contender.until
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
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// # use std::time::Duration;
    /// let payment = tidelock.idempotency("pay:42");
    /// let receipt = match payment.claim::<String>().await? {
    ///     IdempotencyClaim::Won(claim) => claim.complete(&"receipt 1".to_owned()).await?,
    ///     IdempotencyClaim::Done(receipt) => receipt,
    ///     IdempotencyClaim::Held(other) => other.wait(Duration::from_secs(5)).await?,
    ///     IdempotencyClaim::Mismatch(reused) => return Err(reused.into()),
    /// };
    /// assert_eq!(receipt, "receipt 1");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self, limit: Duration) -> Result<T, ClaimError> {
        let mut signal = self.claims.store().signal(Topic::Record(self.record.clone()));
        let mut waiting = ClaimWait::begin(Retry::default().within(limit));
        loop {
            let contender = match read_state(&self.claims, &self.key, self.asked).await? {
                PeekEntry::Over(entry) => return super::result(&self.key, &entry),
                PeekEntry::Free => {
                    return Err(ClaimError::Free { key: self.key.clone(), by: self.by().clone() });
                }
                PeekEntry::Held(contender, _) => contender,
            };
            if !waiting.next(&mut signal, self.claims.tidelock.random()).await {
                return Err(self.timed_out(contender, &waiting));
            }
        }
    }

    fn timed_out(&self, contender: Contender, waiting: &ClaimWait) -> ClaimError {
        telemetry::claim_wait_timed_out(
            &self.key,
            &self.claims.by,
            contender.by(),
            waiting.polls + 1,
        );
        ClaimError::StillHeld {
            key: self.key.clone(),
            until: contender.until,
            by: contender.entry.by,
            waited: waiting.waited(),
        }
    }
}
