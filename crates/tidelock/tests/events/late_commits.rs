//! Commits that reach the store late: after their sender has sent them again.

use std::sync::{Arc, Mutex};

use tidelock::ErrorKind;
use tidelock::prelude::*;
use tidelock::store::{
    Bounds, Commit, CommitOutcome, RecordKey, RecordWrite, Result, RetryAdvice, Store, StoreError,
    StoreErrorKind, StoreExt, StoreLayer, StoreOperation, async_trait,
};

use crate::harness::{Ground, on_every_store};

on_every_store!(
    a_refused_commit_is_never_made_late,
    a_commit_that_was_made_late_is_not_reported_as_refused,
);

/// Keeps the first commit under way, while another one is made.
#[derive(Debug)]
struct Delay {
    store: Arc<dyn Store>,
    meanwhile: Mutex<Option<Commit>>,
    delayed: Mutex<Option<Commit>>,
    /// Before which of the next commits it arrives, by itself.
    arrives_before: Mutex<Option<usize>>,
}

impl Delay {
    fn over(store: Arc<dyn Store>, meanwhile: Commit, arrives_before: Option<usize>) -> Arc<Self> {
        let (delayed, arrives_before) = (Mutex::default(), Mutex::new(arrives_before));
        let meanwhile = Mutex::new(Some(meanwhile));
        Arc::new(Self { store, meanwhile, delayed, arrives_before })
    }

    async fn arrive(&self) -> Result<CommitOutcome> {
        let delayed = self.delayed.lock().unwrap().take().expect("a commit is under way");
        self.store.commit(delayed).await
    }

    fn is_due(&self) -> bool {
        let mut before = self.arrives_before.lock().unwrap();
        *before = before.map(|commits| commits.wrapping_sub(1));
        *before == Some(0)
    }
}

#[async_trait]
impl StoreLayer for Delay {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        let Some(meanwhile) = meanwhile else {
            if self.is_due() {
                let _ = self.store.commit(free()).await?;
                assert!(matches!(self.arrive().await?, CommitOutcome::Committed(_)));
            }
            return self.store.commit(commit).await;
        };
        *self.delayed.lock().unwrap() = Some(commit);
        let _ = self.store.commit(meanwhile).await?;
        let unknown = (StoreErrorKind::Unavailable, RetryAdvice::Unknown);
        Err(StoreError::new(unknown.0, unknown.1, StoreOperation::Commit, "no answer"))
    }
}

fn places() -> RecordKey {
    RecordKey::new("places").unwrap()
}

fn take() -> Commit {
    Commit::new().write(RecordWrite::add(&places(), 1, Bounds::default()))
}

fn free() -> Commit {
    Commit::new().write(RecordWrite::add(&places(), -1, Bounds::default()))
}

async fn taken(store: &dyn Store) -> i64 {
    let places = store.get_one(&places()).await.unwrap().into_live().expect("they are counted");
    places.value.to().unwrap()
}

/// Takes the only place, while another caller is quicker.
async fn take_the_place(store: Arc<Delay>) -> tidelock::Result<()> {
    let tidelock = Tidelock::over(store);
    tidelock.transact(async |tx: Tx| tx.add("places", 1, ..=1)).await
}

/// COMMIT-11.
async fn a_refused_commit_is_never_made_late(ground: Ground) {
    let store = ground.store().await;
    let slow = Delay::over(store.clone(), take(), None);
    let refused = take_the_place(slow.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");

    let _ = store.commit(free()).await.unwrap();
    let late = slow.arrive().await.unwrap_err();
    assert_eq!(late.kind(), StoreErrorKind::IdempotencyMismatch, "{late}");
    assert_eq!(taken(&*store).await, 0);
}

/// COMMIT-11. The refused commit arrives just before its id is used up.
async fn a_commit_that_was_made_late_is_not_reported_as_refused(ground: Ground) {
    let store = ground.store().await;
    take_the_place(Delay::over(store.clone(), take(), Some(2))).await.unwrap();
    assert_eq!(taken(&*store).await, 1);
}
