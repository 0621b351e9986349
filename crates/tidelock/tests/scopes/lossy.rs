//! A store whose commits can be held or lost, with or without effect; and that counts its calls.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidelock::store::{Result, RetryAdvice, Store, StoreError, StoreErrorKind, StoreOperation};
use tidelock_test_stage::{Interceptor, Wrapped};
use tokio::sync::Semaphore;

/// A fault of a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// It takes effect, and the reply is lost.
    LostReply,
    /// It is lost, and so is the reply.
    LostRequest,
}

/// More commits than any test makes.
const MANY: usize = 1_000_000;

#[derive(Debug)]
pub(crate) struct Lossy {
    reads: AtomicUsize,
    commits: AtomicUsize,
    faults: Mutex<VecDeque<Fault>>,
    permits: Semaphore,
}

impl Lossy {
    pub(crate) fn over(store: Arc<dyn Store>) -> Arc<Wrapped<Self>> {
        let (reads, commits) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Wrapped::new(
            store,
            Self { reads, commits, faults: Mutex::default(), permits: Semaphore::new(MANY) },
        )
    }

    /// Sets the faults of the next commits.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Holds all commits.
    pub(crate) fn hold(&self) {
        self.permits.forget_permits(2 * MANY);
    }

    pub(crate) fn let_through(&self) {
        self.permits.add_permits(MANY);
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// How many commits were attempted.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }
}

impl Interceptor for Lossy {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if operation != StoreOperation::Commit {
            self.reads.fetch_add(1, Ordering::SeqCst);
            return call.await;
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        let fault = self.faults.lock().unwrap().pop_front();
        match fault {
            None => call.await,
            Some(Fault::LostRequest) => Err(lost()),
            Some(Fault::LostReply) => call.await.and_then(|_| Err(lost())),
        }
    }
}

fn lost() -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Unknown,
        StoreOperation::Commit,
        "the line is dead",
    )
}
