//! A store layer that counts calls and can record commits.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidelock::Timestamp;
use tidelock::store::{
    Adjusted, Adjustment, Capabilities, ChangeHint, Commit, CommitOutcome, FeedPage, FeedQuery,
    HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased,
    RecordKey, RecordPage, RecordQuery, Renewal, Result, Slot, Store, StreamPage, StreamQuery,
    Topic, async_trait,
};

use super::calls::{Calls, Counters, count};

/// How often the count of settled leases is polled.
const GLANCE: Duration = Duration::from_micros(200);

/// The counting layer.
#[derive(Debug)]
pub(crate) struct CountingStore {
    store: Arc<dyn Store>,
    counters: Counters,
    /// Leases settled by commits.
    settled: AtomicU64,
    keeping: AtomicBool,
    kept: Mutex<Vec<Commit>>,
}

impl CountingStore {
    pub(crate) fn over(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            counters: Counters::default(),
            settled: AtomicU64::new(0),
            keeping: AtomicBool::new(false),
            kept: Mutex::default(),
        })
    }

    pub(crate) fn calls(&self) -> Calls {
        self.counters.calls()
    }

    /// Starts recording commits.
    pub(super) fn keep(&self) {
        self.keeping.store(true, Ordering::SeqCst);
    }

    /// Stops recording, and returns the commits.
    pub(super) fn take(&self) -> Vec<Commit> {
        self.keeping.store(false, Ordering::SeqCst);
        mem::take(&mut *self.kept.lock())
    }

    pub(super) fn settled(&self) -> u64 {
        self.settled.load(Ordering::SeqCst)
    }

    /// Waits until more leases than this were settled.
    pub(super) async fn until_settled(&self, than: u64) {
        while self.settled() <= than {
            tokio::time::sleep(GLANCE).await;
        }
    }
}

#[async_trait]
impl Store for CountingStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn now(&self) -> Result<Timestamp> {
        count(&self.counters.other);
        self.store.now().await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        count(&self.counters.commits);
        if self.keeping.load(Ordering::Relaxed) {
            self.kept.lock().push(commit.clone());
        }
        let settlements = commit.settlements.len() as u64;
        let outcome = self.store.commit(commit).await;
        self.settled.fetch_add(settlements, Ordering::SeqCst);
        outcome
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        count(&self.counters.reads);
        self.store.read_stream(query).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        count(&self.counters.reads);
        self.store.read_feed(query).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        count(&self.counters.reads);
        self.store.heads(query).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        count(&self.counters.reads);
        self.store.get(keys).await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        count(&self.counters.reads);
        self.store.scan(query).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        count(&self.counters.leases);
        self.store.lease(request).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        count(&self.counters.other);
        self.store.renew(leases, duration).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        count(&self.counters.reads);
        self.store.items(query).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        count(&self.counters.other);
        self.store.adjust(filter, adjustment).await
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        self.store.signal(topic)
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}
