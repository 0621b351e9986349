//! How much is committed: counted where a process has its handle on the store, and nowhere else.
//!
//! A store does not count its commits, and to find them in the feed would be to read all of it. So whoever opens the store has this process's commits counted, and
//! hands the count to the [`Api`](crate::Api). What other processes commit is not in it, nor what goes through a database driver's own door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock::{
    Adjusted, Adjustment, Capabilities, Commit, CommitOutcome, FeedPage, FeedQuery, HeadPage, HeadQuery,
    ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken, Leased, RecordKey, RecordPage, RecordQuery,
    Renewal, Result, Signal, Slot, Store, StreamPage, StreamQuery, Timestamp, Topic,
};

/// How many commits were made through a handle on a store. Clones count the same.
#[derive(Debug, Clone, Default)]
pub struct Commits(Arc<AtomicU64>);

impl Commits {
    /// A handle on the same store, and the count of what is committed through it from now on. What is refused does not count.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use tidelock::Tidelock;
    /// # use tidelock_http::{Api, Commits};
    /// let (store, commits) = Commits::counted(tidelock::open("memory:").await?);
    /// let api = Api::over(&Tidelock::over(store)).commits(commits);
    /// # Ok(())
    /// # }
    /// ```
    pub fn counted(store: Arc<dyn Store>) -> (Arc<dyn Store>, Self) {
        let commits = Self::default();
        (Arc::new(Counting { store, commits: commits.clone() }), commits)
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A store that counts commits, and is otherwise the one behind it.
#[derive(Debug)]
struct Counting {
    store: Arc<dyn Store>,
    commits: Commits,
}

#[async_trait]
impl Store for Counting {
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let outcome = self.store.commit(commit).await;
        if matches!(outcome, Ok(CommitOutcome::Committed(_))) {
            self.commits.0.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.store.now().await
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.store.read_stream(query).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.store.read_feed(query).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.store.heads(query).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.store.get(keys).await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.store.scan(query).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.store.lease(request).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.store.renew(leases, duration).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.store.items(query).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.store.adjust(filter, adjustment).await
    }

    fn signal(&self, topic: Topic) -> Signal {
        self.store.signal(topic)
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

#[cfg(test)]
mod tests {
    use tidelock::{ExpectedVersion, NewEvent, StoreExt, StreamName};

    use super::*;

    #[tokio::test]
    async fn what_lands_is_counted_and_what_is_refused_is_not() {
        let (store, commits) = Commits::counted(tidelock::open("memory:").await.unwrap());
        let stream = StreamName::new("a").unwrap();
        for expected in [ExpectedVersion::NoStream, ExpectedVersion::NoStream, ExpectedVersion::Any] {
            let event = NewEvent::of("noted", &1).unwrap();
            let _landed_or_not = store.append(&stream, expected, vec![event]).await.unwrap();
        }
        assert_eq!(commits.get(), 2);
    }
}
