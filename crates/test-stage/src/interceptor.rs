//! A layer between a caller and a store.
//!
//! The fourteen methods are forwarded here, once; what a test does to them is an [`Interceptor`].

use std::fmt::Debug;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidelock::Timestamp;
use tidelock::store::{
    Adjusted, Adjustment, Capabilities, ChangeHint, Commit, CommitOutcome, FeedPage, FeedQuery,
    HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased,
    RecordKey, RecordPage, RecordQuery, Renewal, Result, Slot, Store, StoreOperation, StreamPage,
    StreamQuery, Topic, async_trait,
};

/// Intercepts every call of a store.
pub trait Interceptor: Debug + Send + Sync + 'static {
    /// Handles a call of this kind: makes it by awaiting it, or does not, and answers.
    fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send;
}

/// A store with an interceptor.
#[derive(Debug)]
pub struct Wrapped<B> {
    store: Arc<dyn Store>,
    between: B,
}

impl<B: Interceptor> Wrapped<B> {
    /// Wraps this store with this interceptor.
    pub fn new(store: Arc<dyn Store>, between: B) -> Arc<Self> {
        Arc::new(Self { store, between })
    }
}

/// A test that holds the store can use the interceptor.
impl<B> Deref for Wrapped<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.between
    }
}

#[async_trait]
impl<B: Interceptor> Store for Wrapped<B> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.between.call(StoreOperation::Now, self.store.now()).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.between.call(StoreOperation::Commit, self.store.commit(commit)).await
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.between.call(StoreOperation::ReadStream, self.store.read_stream(query)).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.between.call(StoreOperation::ReadFeed, self.store.read_feed(query)).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.between.call(StoreOperation::Heads, self.store.heads(query)).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.between.call(StoreOperation::Get, self.store.get(keys)).await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.between.call(StoreOperation::Scan, self.store.scan(query)).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.between.call(StoreOperation::Lease, self.store.lease(request)).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.between.call(StoreOperation::Renew, self.store.renew(leases, duration)).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.between.call(StoreOperation::Items, self.store.items(query)).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.between.call(StoreOperation::Adjust, self.store.adjust(filter, adjustment)).await
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        self.store.signal(topic)
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}
