//! Claim, work and complete in one call; or wait for another claimant's result.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::super::{ClaimError, ClaimGuard, OnceError};
use super::{Idempotency, IdempotencyClaim};

impl Idempotency {
    /// Does the work once, however many callers ask for it.
    ///
    /// The caller that acquires the key works; every other caller waits, at most `timeout`, and
    /// gets the same result. If the working caller gives up or dies, the next one takes over.
    ///
    /// # Errors
    /// - `Work` with the error of the work, for the caller that did it.
    ///   [`OnFailure`](super::OnFailure) decides what becomes of the key.
    /// - `FingerprintMismatch` if the key was used for another request.
    /// - `Claim` as [`claim`](Self::claim), [`ClaimGuard::complete`] and
    ///   [`InProgress::wait`](super::InProgress::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use tidelock::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let payment = tidelock.claims().idempotency("pay:order-7").fingerprint(&("order-7", 450));
    /// async fn charge(receipt: &str) -> Result<String, String> {
    ///     Ok(receipt.to_owned())
    /// }
    ///
    /// let first = payment.once(Duration::from_secs(2), || charge("receipt 1")).await?;
    /// let repeated = payment.once(Duration::from_secs(2), || charge("receipt 2")).await?;
    /// assert_eq!((first.as_str(), repeated.as_str()), ("receipt 1", "receipt 1"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn once<T, X, F>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> F,
    ) -> Result<T, OnceError<X>>
    where
        T: Serialize + DeserializeOwned,
        X: fmt::Display,
        F: Future<Output = Result<T, X>>,
    {
        let began = Instant::now();
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            match self.claim::<T>().await? {
                IdempotencyClaim::Won(won) => return finish(won, work().await).await,
                IdempotencyClaim::Done(done) => return Ok(done),
                IdempotencyClaim::Mismatch(first) => return Err(first.into()),
                IdempotencyClaim::Held(holder) => match holder.wait(left).await {
                    Err(ClaimError::Free { .. }) => {}
                    done => return Ok(done?),
                },
            }
        }
    }
}

async fn finish<T, X>(won: ClaimGuard<T>, worked: Result<T, X>) -> Result<T, OnceError<X>>
where
    T: Serialize + DeserializeOwned,
    X: fmt::Display,
{
    match worked {
        Ok(value) => Ok(won.complete(&value).await?),
        Err(error) => {
            // The caller gets the error of the work in any case; a key that was not released
            // becomes available when its lease expires.
            if let Err(kept) = won.fail(&error).await {
                tracing::warn!(error = %kept, "a failure was not recorded");
            }
            Err(OnceError::Work(error))
        }
    }
}
