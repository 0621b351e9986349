//! A store that counts its calls.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidelock::store::{Result, Store, StoreOperation};

use crate::{Interceptor, Wrapped};

/// Counts the calls on a store. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    calls: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
}

impl Tally {
    /// This store, with its calls counted here.
    pub fn over(&self, store: Arc<dyn Store>) -> Arc<Wrapped<Self>> {
        Wrapped::new(store, self.clone())
    }

    /// The commits among them.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// The calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Interceptor for Tally {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.commits.fetch_add(u64::from(operation == StoreOperation::Commit), Ordering::SeqCst);
        call.await
    }
}
