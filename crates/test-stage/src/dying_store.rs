//! A store whose caller dies: after a number of calls nothing happens any more, or the last call
//! happens without an answer.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tidelock::store::{Result, RetryAdvice, Store, StoreError, StoreErrorKind, StoreOperation};

use crate::{Interceptor, Wrapped};

/// Passes this many calls on.
#[derive(Debug)]
pub struct DyingStore {
    calls_left: AtomicI64,
    /// Whether the last call still happens.
    last_words: bool,
}

impl DyingStore {
    /// This store, for a caller that dies after so many calls.
    pub fn over(store: Arc<dyn Store>, calls: i64, last_words: bool) -> Arc<Wrapped<Self>> {
        Wrapped::new(store, Self { calls_left: AtomicI64::new(calls), last_words })
    }

    /// Whether the caller is dead.
    pub fn is_dead(&self) -> bool {
        self.calls_left.load(Ordering::SeqCst) < 0
    }
}

impl Interceptor for DyingStore {
    /// Makes the call, unless the caller is dead; returns the answer, unless the caller dies with
    /// this call.
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match self.calls_left.fetch_sub(1, Ordering::SeqCst) {
            1.. => call.await,
            0 if self.last_words => call.await.and_then(|_| Err(dead(operation))),
            _ => Err(dead(operation)),
        }
    }
}

/// Never retried: a dead caller makes no calls.
fn dead(operation: StoreOperation) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Never,
        operation,
        "the caller has died",
    )
}
