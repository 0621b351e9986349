//! A store that counts what it is asked, and now and then does not say what became of a commit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::{
    Adjusted, Advice, Capabilities, ErrorKind, FeedPage, HeadPage, ItemPage, LeaseToken, Leased, Operation,
    RecordPage, Renewal, Result, Signal, StoreError, StreamPage, Timestamp, async_trait,
};
use tokio::sync::Semaphore;

/// What happens to a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// It is done, and the reply is lost.
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
    inner: Arc<dyn Store>,
    pub(crate) reads: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    /// What happens to the next commits; to some of them nothing does.
    faults: Mutex<VecDeque<Option<Fault>>>,
    /// How many commits may go through.
    permits: Semaphore,
}

impl Meddler {
    pub(crate) fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            reads: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
            faults: Mutex::default(),
            permits: Semaphore::new(MANY),
        })
    }

    /// These happen to the next commits.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.fail_after(0, faults);
    }

    /// So many commits go through, and then these happen to the next ones.
    pub(crate) fn fail_after(&self, good: usize, faults: impl IntoIterator<Item = Fault>) {
        let mut all = self.faults.lock().unwrap();
        all.extend((0..good).map(|_| None).chain(faults.into_iter().map(Some)));
    }

    /// No commit goes through until they are let.
    pub(crate) fn hold(&self) {
        self.permits.forget_permits(2 * MANY);
    }

    /// Only so many commits go through until the rest is let.
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

    fn read(&self) -> &dyn Store {
        self.reads.fetch_add(1, Ordering::SeqCst);
        &*self.inner
    }
}

fn failed(advice: Advice) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, advice, Operation::Commit, "the line is dead")
}

#[async_trait]
impl Store for Meddler {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.inner.now().await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        let fault = self.faults.lock().unwrap().pop_front().flatten();
        match fault {
            None => self.inner.commit(commit).await,
            Some(Fault::LostRequest) => Err(failed(Advice::Unknown)),
            Some(Fault::Busy) => Err(failed(Advice::Later)),
            Some(Fault::LostReply) => {
                let _lost = self.inner.commit(commit).await?;
                Err(failed(Advice::Unknown))
            }
        }
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.read().read_stream(query).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.read().read_feed(query).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.read().heads(query).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.read().get(keys).await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.read().scan(query).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.inner.lease(request).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.inner.renew(leases, duration).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.inner.items(query).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.inner.adjust(filter, adjustment).await
    }

    fn signal(&self, topic: Topic) -> Signal {
        self.inner.signal(topic)
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
