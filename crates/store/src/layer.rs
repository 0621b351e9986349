//! Store middleware: a store that wraps another one.
//!
//! A wrapper that counts calls, injects failures or observes traffic changes one or two methods of
//! the contract. This trait forwards the others.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::capabilities::Capabilities;
use crate::clock::Timestamp;
use crate::commit::{Commit, CommitOutcome};
use crate::error::Result;
use crate::leases::{
    Adjusted, Adjustment, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased,
    Renewal,
};
use crate::log::{FeedPage, FeedQuery, HeadPage, HeadQuery, StreamPage, StreamQuery};
use crate::names::RecordKey;
use crate::records::{RecordPage, RecordQuery, Slot};
use crate::signal::{ChangeHint, Topic};
use crate::store::Store;

/// Middleware over a [`Store`]: every method that it does not override is forwarded. Every layer is
/// itself a [`Store`].
///
/// ```
/// # use std::sync::Arc;
/// # use std::sync::atomic::{AtomicU64, Ordering};
/// # use tidelock_store::{Commit, CommitOutcome, MemoryStore, Result, Store, StoreLayer, async_trait};
/// #[derive(Debug)]
/// struct Counting {
///     store: Arc<dyn Store>,
///     commits: AtomicU64,
/// }
///
/// #[async_trait]
/// impl StoreLayer for Counting {
///     fn inner(&self) -> &dyn Store {
///         &*self.store
///     }
///
///     async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
///         self.commits.fetch_add(1, Ordering::Relaxed);
///         self.store.commit(commit).await
///     }
/// }
///
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let counting: Arc<dyn Store> = Arc::new(Counting { store, commits: AtomicU64::new(0) });
/// ```
#[async_trait]
pub trait StoreLayer: Debug + Send + Sync {
    /// The wrapped store.
    fn inner(&self) -> &dyn Store;

    /// Forwards to [`Store::capabilities`].
    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    /// Forwards to [`Store::now`].
    async fn now(&self) -> Result<Timestamp> {
        self.inner().now().await
    }

    /// Forwards to [`Store::commit`].
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.inner().commit(commit).await
    }

    /// Forwards to [`Store::read_stream`].
    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.inner().read_stream(query).await
    }

    /// Forwards to [`Store::read_feed`].
    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.inner().read_feed(query).await
    }

    /// Forwards to [`Store::heads`].
    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.inner().heads(query).await
    }

    /// Forwards to [`Store::get`].
    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.inner().get(keys).await
    }

    /// Forwards to [`Store::scan`].
    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.inner().scan(query).await
    }

    /// Forwards to [`Store::lease`].
    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.inner().lease(request).await
    }

    /// Forwards to [`Store::renew`].
    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.inner().renew(leases, duration).await
    }

    /// Forwards to [`Store::items`].
    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.inner().items(query).await
    }

    /// Forwards to [`Store::adjust`].
    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.inner().adjust(filter, adjustment).await
    }

    /// Forwards to [`Store::signal`].
    fn signal(&self, topic: Topic) -> ChangeHint {
        self.inner().signal(topic)
    }

    /// Forwards to [`Store::close`].
    async fn close(&self) -> Result<()> {
        self.inner().close().await
    }
}

#[async_trait]
impl<L: StoreLayer> Store for L {
    fn capabilities(&self) -> Capabilities {
        StoreLayer::capabilities(self)
    }

    async fn now(&self) -> Result<Timestamp> {
        StoreLayer::now(self).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        StoreLayer::commit(self, commit).await
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        StoreLayer::read_stream(self, query).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        StoreLayer::read_feed(self, query).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        StoreLayer::heads(self, query).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        StoreLayer::get(self, keys).await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        StoreLayer::scan(self, query).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        StoreLayer::lease(self, request).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        StoreLayer::renew(self, leases, duration).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        StoreLayer::items(self, query).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        StoreLayer::adjust(self, filter, adjustment).await
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        StoreLayer::signal(self, topic)
    }

    async fn close(&self) -> Result<()> {
        StoreLayer::close(self).await
    }
}
