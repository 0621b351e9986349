//! Faults: the nth call of the store fails, or the process dies at it.
//!
//! A layer stands between an application and its store. It counts the calls of each operation, and
//! carries out the faults that a test has planned. A process that has died makes no more calls:
//! those of its tasks that still run wait until they are dropped.

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{
    Adjusted, Adjustment, Commit, CommitOutcome, FeedPage, FeedQuery, HeadPage, HeadQuery,
    ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased, RecordKey, RecordPage,
    RecordQuery, Renewal, Result, RetryAdvice, Slot, Store, StoreError, StoreErrorKind, StoreLayer,
    StoreOperation, StreamPage, StreamQuery, Timestamp, async_trait,
};
use tokio_util::sync::CancellationToken;

use crate::handle::Tidelock;

/// What happens to a call of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The store cannot be reached: the call does not happen, and may be tried again.
    Unavailable,
    /// The call happens, and its answer is lost: whether it happened is unknown to the caller.
    UnknownOutcome,
    /// The process dies before the call, and is started again.
    Crash,
    /// The process dies after the call, before its answer, and is started again.
    CrashAfter,
}

/// The failures of a test's store.
///
/// The calls of the application are counted, and of the handle that [`tidelock`](Self::tidelock)
/// returns. Those of [`TestApp::tidelock`](super::TestApp::tidelock) are not, and never fail.
#[derive(Debug, Clone)]
pub struct Faults {
    store: Arc<dyn Store>,
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: HashMap<StoreOperation, u64>,
    all_calls: u64,
    /// By operation, and by the number of the call since the start.
    faults: HashMap<(StoreOperation, u64), Fault>,
}

impl Faults {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, plan: Arc::default() }
    }

    /// Plans a fault for the nth call of this operation from now on: 1 is the next one.
    ///
    /// # Panics
    /// If `nth` is 0.
    #[track_caller]
    pub fn fail_nth(&self, operation: StoreOperation, nth: u64, fault: Fault) {
        assert!(nth > 0, "the next call is the first: fail_nth counts from 1");
        let mut plan = self.plan();
        let at = plan.calls(operation) + nth;
        plan.faults.insert((operation, at), fault);
    }

    /// Returns the number of calls of this operation since the start.
    pub fn calls(&self, operation: StoreOperation) -> u64 {
        self.plan().calls(operation)
    }

    /// Returns the number of planned faults that have not happened.
    pub fn pending(&self) -> usize {
        self.plan().faults.len()
    }

    /// Forgets the planned faults.
    pub fn clear(&self) {
        self.plan().faults.clear();
    }

    /// Returns a handle whose calls fail like those of the application: for code under test that is
    /// not part of it, such as a request's handler. A crash ends this handle: every later call of
    /// it is `Unavailable`.
    pub fn tidelock(&self) -> Tidelock {
        Tidelock::over(Arc::new(FaultLayer {
            faults: self.clone(),
            died: CancellationToken::new(),
            is_app: false,
        }))
    }

    /// The store as the application sees it, in a life that ends when `died` is cancelled.
    pub(super) fn layer(&self, died: CancellationToken) -> Arc<dyn Store> {
        Arc::new(FaultLayer { faults: self.clone(), died, is_app: true })
    }

    /// The store without failures.
    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The number of calls of any operation.
    pub(super) fn all_calls(&self) -> u64 {
        self.plan().all_calls
    }

    /// Counts a call; its fault, if one is planned.
    fn count(&self, operation: StoreOperation) -> Option<Fault> {
        let mut plan = self.plan();
        plan.all_calls += 1;
        let nth = plan.calls(operation) + 1;
        plan.calls.insert(operation, nth);
        plan.faults.remove(&(operation, nth))
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn calls(&self, operation: StoreOperation) -> u64 {
        self.calls.get(&operation).copied().unwrap_or_default()
    }
}

/// One process' view of the store.
struct FaultLayer {
    faults: Faults,
    died: CancellationToken,
    is_app: bool,
}

impl fmt::Debug for FaultLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultLayer").field("is_app", &self.is_app).finish_non_exhaustive()
    }
}

impl FaultLayer {
    async fn call<T>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.died.is_cancelled() {
            return self.dead(operation).await;
        }
        match self.faults.count(operation) {
            None => call.await,
            Some(Fault::Unavailable) => {
                Err(failed(operation, RetryAdvice::Later, "injected: the store is unavailable"))
            }
            Some(Fault::UnknownOutcome) => {
                call.await?;
                Err(failed(operation, RetryAdvice::Unknown, "injected: the answer is lost"))
            }
            Some(Fault::Crash) => self.die(operation).await,
            Some(Fault::CrashAfter) => {
                call.await?;
                self.die(operation).await
            }
        }
    }

    async fn die<T>(&self, operation: StoreOperation) -> Result<T> {
        self.died.cancel();
        self.dead(operation).await
    }

    /// The application's tasks are dropped where they wait.
    async fn dead<T>(&self, operation: StoreOperation) -> Result<T> {
        match self.is_app {
            true => pending().await,
            false => Err(failed(operation, RetryAdvice::Never, "injected: the process has died")),
        }
    }
}

fn failed(operation: StoreOperation, advice: RetryAdvice, context: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, advice, operation, context)
}

#[async_trait]
impl StoreLayer for FaultLayer {
    fn inner(&self) -> &dyn Store {
        &*self.faults.store
    }

    async fn now(&self) -> Result<Timestamp> {
        self.call(StoreOperation::Now, self.inner().now()).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.call(StoreOperation::Commit, self.inner().commit(commit)).await
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.call(StoreOperation::ReadStream, self.inner().read_stream(query)).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.call(StoreOperation::ReadFeed, self.inner().read_feed(query)).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.call(StoreOperation::Heads, self.inner().heads(query)).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.call(StoreOperation::Get, self.inner().get(keys)).await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.call(StoreOperation::Scan, self.inner().scan(query)).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.call(StoreOperation::Lease, self.inner().lease(request)).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.call(StoreOperation::Renew, self.inner().renew(leases, duration)).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.call(StoreOperation::Items, self.inner().items(query)).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.call(StoreOperation::Adjust, self.inner().adjust(filter, adjustment)).await
    }

    async fn close(&self) -> Result<()> {
        // The store is the test's.
        Ok(())
    }
}
