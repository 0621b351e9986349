//! The whole of it in one call: claim, work, complete; or wait for whoever does.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::super::{ClaimError, OnceError};
use super::{ClaimGuard, Idempotency, IdempotencyClaim};

impl Idempotency {
    /// Does the work once, whoever asks for it: whoever wins the key works, everybody else waits,
    /// but no longer than `patience`, and gets the same result. If whoever works gives up or dies,
    /// the next one does.
    ///
    /// # Errors
    /// - `Work` with what the work failed with, to the one who did it. What becomes of the key
    ///   then, the policy says.
    /// - `FingerprintMismatch` if the key was used for another request.
    /// - `Claim` as [`claim`](Self::claim), [`ClaimGuard::complete`] and
    ///   [`InProgress::wait`](super::InProgress::wait) have it.
    pub async fn once<T, X, F>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> F,
    ) -> Result<T, OnceError<X>>
    where
        T: Serialize + DeserializeOwned,
        X: fmt::Display,
        F: Future<Output = Result<T, X>>,
    {
        let began = Instant::now();
        loop {
            let left = patience.saturating_sub(began.elapsed());
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
            // The caller is to hear of the failure in any case; a key that was not given back is
            // free when its lease has run out.
            if let Err(kept) = won.fail(&error).await {
                tracing::warn!(error = %kept, "a failure was not noted");
            }
            Err(OnceError::Work(error))
        }
    }
}
