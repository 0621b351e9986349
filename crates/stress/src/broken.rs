//! A store that breaks one promise, now and then, as a positive control of the audit.
//!
//! A worker uses one only if a hidden option says so. An audit that has never found anything proves
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidelock::ExpectedVersion;
use tidelock::store::{
    Appended, Commit, CommitOutcome, Committed, EventId, ExpectedRevision, FeedPage, FeedQuery,
    LeaseRequest, Leased, Result, Store, StoreExt, StoreLayer, Version, async_trait,
};

/// The promise that it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Flaw {
    /// Acknowledges a commit that it did not write.
    Forgets,
    /// Writes a commit a second time, under other ids.
    Doubles,
    /// Grants a lease to two callers.
    Shares,
    /// Leaves an event out of a page of the feed.
    Skips,
    /// Accepts every settled lease as valid.
    Overlooks,
    /// Checks no revision and no guard.
    Blind,
    /// The store is correct, but handlers of reactions write outside the commit of their ack, and
    /// steps of runs outside that of their record.
    Strays,
}

/// One in so many calls fails: seldom enough that everything else continues.
const ONCE_IN: u64 = 10;

#[derive(Debug)]
pub(crate) struct Broken {
    store: Arc<dyn Store>,
    flaw: Flaw,
    calls: AtomicU64,
    /// The last grant.
    granted: Mutex<Option<Leased>>,
}

impl Broken {
    pub(crate) fn new(store: Arc<dyn Store>, flaw: Flaw) -> Self {
        Self { store, flaw, calls: AtomicU64::new(0), granted: Mutex::default() }
    }

    /// Whether this call, one of those that the flaw affects, fails.
    fn fails_at(&self, flaw: Flaw) -> bool {
        self.flaw == flaw && self.calls.fetch_add(1, Ordering::Relaxed) % ONCE_IN == ONCE_IN - 1
    }

    /// The answer that a correct store would give.
    async fn pretend(&self, commit: &Commit) -> Result<CommitOutcome> {
        let append =
            |stream| Appended { stream, version: Version::FIRST, positions: None, replayed: false };
        Ok(CommitOutcome::Committed(Committed {
            at: self.store.now().await?,
            appends: commit.appends.iter().map(|a| append(a.stream.clone())).collect(),
            writes: Vec::new(),
        }))
    }

    /// The commit with the fences of the current holders.
    async fn usurp(&self, mut commit: Commit) -> Result<Commit> {
        for settlement in &mut commit.settlements {
            let item = self.store.item(&settlement.lease.item).await?;
            settlement.lease.fence =
                item.and_then(|item| item.fence).unwrap_or(settlement.lease.fence);
        }
        Ok(commit)
    }

    async fn write_again(&self, mut commit: Commit) -> Result<()> {
        commit.id = None;
        commit.settlements.clear();
        for append in &mut commit.appends {
            append.expected = ExpectedVersion::Any;
            append.events.iter_mut().for_each(|event| event.id = EventId::fresh());
        }
        self.store.commit(commit).await.map(drop)
    }
}

/// The commit without its expectations.
fn unchecked(mut commit: Commit) -> Commit {
    commit.guards.clear();
    commit.writes.iter_mut().for_each(|write| write.expected = ExpectedRevision::Any);
    commit
}

#[async_trait]
impl StoreLayer for Broken {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        if self.flaw == Flaw::Blind {
            return self.store.commit(unchecked(commit)).await;
        }
        if commit.appends.is_empty() {
            return self.store.commit(commit).await;
        }
        if self.fails_at(Flaw::Forgets) {
            return self.pretend(&commit).await;
        }
        if self.fails_at(Flaw::Doubles) {
            self.write_again(commit.clone()).await?;
        }
        if self.flaw == Flaw::Overlooks {
            return self.store.commit(self.usurp(commit).await?).await;
        }
        self.store.commit(commit).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        let mut page = self.store.read_feed(query).await?;
        if !page.events.is_empty() && self.fails_at(Flaw::Skips) {
            page.events.pop();
        }
        Ok(page)
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        let granted = || self.granted.lock();
        if self.fails_at(Flaw::Shares)
            && let Some(leased) = granted().take()
        {
            return Ok(leased);
        }
        let leased = self.store.lease(request).await?;
        if !leased.leases.is_empty() {
            *granted() = Some(leased.clone());
        }
        Ok(leased)
    }
}
