//! A store whose caller dies: after so many calls nothing that is asked of it happens, or the last
//! thing happens and nobody hears.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tidelock::prelude::*;
use tidelock::store::Result;
use tidelock::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation};

use crate::{Interceptor, Wrapped};

/// Lets so many calls through.
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
    /// Makes the call, unless the caller is dead; tells what came of it, unless the caller dies of
    /// it.
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

/// Not to be tried again: whoever is dead does not.
fn dead(operation: StoreOperation) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Never,
        operation,
        "the caller has died",
    )
}
