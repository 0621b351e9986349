//! A store that counts its calls, and loses replies on request.

use std::collections::VecDeque;
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
    /// The store is busy.
    Busy,
}

/// More commits than any test makes.
const MANY: usize = 1_000_000;

#[derive(Debug)]
pub(crate) struct Meddler {
    pub(crate) reads: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    /// The faults of the next commits, if any.
    faults: Mutex<VecDeque<Option<Fault>>>,
    /// How many commits can pass.
    permits: Semaphore,
}

impl Meddler {
    pub(crate) fn over(store: Arc<dyn Store>) -> Arc<Wrapped<Self>> {
        let meddler = Self {
            reads: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
            faults: Mutex::default(),
            permits: Semaphore::new(MANY),
        };
        Wrapped::new(store, meddler)
    }

    /// Sets the faults of the next commits.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.fail_after(0, faults);
    }

    /// Sets the faults of the commits after so many good ones.
    pub(crate) fn fail_after(&self, good: usize, faults: impl IntoIterator<Item = Fault>) {
        let mut all = self.faults.lock().unwrap();
        all.extend((0..good).map(|_| None).chain(faults.into_iter().map(Some)));
    }

    /// Holds all commits.
    pub(crate) fn hold(&self) {
        self.permits.forget_permits(2 * MANY);
    }

    /// Lets so many commits pass.
    pub(crate) fn allow(&self, commits: usize) {
        self.hold();
        self.permits.add_permits(commits);
    }

    pub(crate) fn let_through(&self) {
        self.permits.add_permits(MANY);
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.reads.load(Ordering::SeqCst), self.commits.load(Ordering::SeqCst))
    }

    async fn commit<T>(&self, commit: impl Future<Output = Result<T>>) -> Result<T> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        let fault = self.faults.lock().unwrap().pop_front().flatten();
        match fault {
            None => commit.await,
            Some(Fault::LostRequest) => Err(failed(RetryAdvice::Unknown)),
            Some(Fault::Busy) => Err(failed(RetryAdvice::Later)),
            Some(Fault::LostReply) => commit.await.and_then(|_| Err(failed(RetryAdvice::Unknown))),
        }
    }
}

fn failed(advice: RetryAdvice) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, advice, StoreOperation::Commit, "the line is dead")
}

impl Interceptor for Meddler {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match operation {
            StoreOperation::Commit => self.commit(call).await,
            StoreOperation::Now
            | StoreOperation::Lease
            | StoreOperation::Renew
            | StoreOperation::Items
            | StoreOperation::Adjust => call.await,
            _ => {
                self.reads.fetch_add(1, Ordering::SeqCst);
                call.await
            }
        }
    }
}
