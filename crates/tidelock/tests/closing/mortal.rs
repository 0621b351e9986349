//! A store whose caller dies: after so many calls nothing that is asked of it happens, or the last thing happens and nobody hears.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::{
    Adjusted, Advice, Capabilities, ErrorKind, FeedPage, HeadPage, ItemPage, LeaseToken, Leased, Operation,
    RecordPage, Renewal, Result, Signal, StoreError, StreamPage, Timestamp, async_trait,
};

#[derive(Debug)]
pub(crate) struct Mortal {
    store: Arc<dyn Store>,
    calls_left: AtomicI64,
    /// Whether the last call still happens.
    last_words: bool,
}

impl Mortal {
    pub(crate) fn over(store: Arc<dyn Store>, calls: i64, last_words: bool) -> Arc<Self> {
        Arc::new(Self { store, calls_left: AtomicI64::new(calls), last_words })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.calls_left.load(Ordering::SeqCst) < 0
    }

    /// Makes the call, unless the caller is dead; tells what came of it, unless the caller dies of it.
    async fn call<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match self.calls_left.fetch_sub(1, Ordering::SeqCst) {
            1.. => call.await,
            0 if self.last_words => call.await.and_then(|_| Err(dead())),
            _ => Err(dead()),
        }
    }
}

/// Not to be tried again: whoever is dead does not.
fn dead() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, Advice::Never, Operation::Commit, "the caller has died")
}

#[async_trait]
impl Store for Mortal {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    async fn now(&self) -> Result<Timestamp> {
        self.call(self.store.now()).await
    }
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.call(self.store.commit(commit)).await
    }
    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.call(self.store.read_stream(query)).await
    }
    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.call(self.store.read_feed(query)).await
    }
    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.call(self.store.heads(query)).await
    }
    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.call(self.store.get(keys)).await
    }
    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.call(self.store.scan(query)).await
    }
    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.call(self.store.lease(request)).await
    }
    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.call(self.store.renew(leases, duration)).await
    }
    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.call(self.store.items(query)).await
    }
    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.call(self.store.adjust(filter, adjustment)).await
    }
    fn signal(&self, topic: Topic) -> Signal {
        self.store.signal(topic)
    }
    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}
