//! Lost replies.

use std::sync::atomic::{AtomicBool, Ordering};

use tidelock::prelude::*;
use tidelock::store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tidelock_test_stage::{Interceptor, Wrapped};

/// Loses the reply of every other commit, which takes effect.
#[derive(Debug, Default)]
pub(crate) struct LostReplies(AtomicBool);

impl LostReplies {
    pub(crate) fn over(tidelock: &Tidelock) -> Tidelock {
        Tidelock::over(Wrapped::new(tidelock.store().clone(), Self::default()))
    }
}

impl Interceptor for LostReplies {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = call.await;
        if operation != StoreOperation::Commit || self.0.fetch_xor(true, Ordering::SeqCst) {
            return answer;
        }
        Err(StoreError::new(
            StoreErrorKind::Unavailable,
            RetryAdvice::Unknown,
            operation,
            "the answer was lost",
        ))
    }
}
