//! Callers that do not hear an answer.

use std::sync::atomic::{AtomicBool, Ordering};

use tidelock::prelude::*;
use tidelock::{Advice, ErrorKind, Operation, Result, StoreError};
use tidelock_test_stage::{Between, Wrapped};

/// Every other commit happens, and nobody hears of it.
#[derive(Debug, Default)]
pub(crate) struct Mumbling(AtomicBool);

impl Mumbling {
    pub(crate) fn over(tidelock: &Tidelock) -> Tidelock {
        Tidelock::over(Wrapped::new(tidelock.store().clone(), Self::default()))
    }
}

impl Between for Mumbling {
    async fn call<T: Send>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = call.await;
        if operation != Operation::Commit || self.0.fetch_xor(true, Ordering::SeqCst) {
            return answer;
        }
        Err(StoreError::new(
            ErrorKind::Unavailable,
            Advice::Unknown,
            operation,
            "the answer was lost",
        ))
    }
}
