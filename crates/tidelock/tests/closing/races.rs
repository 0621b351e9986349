//! Concurrent appends while a stream is closed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use tidelock::ExecuteError;
use tidelock::closing::discard;
use tidelock::prelude::*;
use tidelock::store::{Result, StoreOperation};

use crate::account::{Account, Paid, Shelf, paid_into, pay};
use tidelock_test_stage::{Interceptor, TestStore, Wrapped, on_every_store, until};

on_every_store!(
    acknowledged_events_are_archived_and_none_lands_after_the_tombstone,
    a_decision_on_the_state_before_the_close_is_refused_after_it,
    a_load_survives_a_trim_between_its_snapshot_and_stream_reads,
);

/// Schedule 30. CLOSE-1, CLOSE-3: the first commit wins, and the loser gets an error.
async fn acknowledged_events_are_archived_and_none_lands_after_the_tombstone(stage: TestStore) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    let account = paid_into(&tidelock, 1).await;
    let mut payers = Vec::new();
    for _ in 0..3 {
        payers.push(paying_until_closed(stage.tidelock().await));
    }
    let closing = async {
        let reached = async || account.load().await.unwrap().balance >= 10;
        until("there are some payments", reached).await;
        account.archive_to(shelf.archive()).close().await.unwrap()
    };
    let (closed, paid) = tokio::join!(closing, join_all(payers));
    let acknowledged = 1 + paid.into_iter().sum::<u64>();
    assert_eq!(closed.through.get(), acknowledged);
    assert_eq!(shelf.versions(), (1..=acknowledged).collect::<Vec<_>>());
}

/// Pays until that is refused; returns how many payments were acknowledged.
async fn paying_until_closed(payer: Tidelock) -> u64 {
    let (account, acknowledged) = (payer.aggregate::<Account>("7"), AtomicU64::new(0));
    until("the account is closed", async || match account.execute(pay(1)).await {
        Ok(_) => {
            acknowledged.fetch_add(1, Ordering::SeqCst);
            false
        }
        Err(ExecuteError::GaveUp { .. }) => false,
        Err(ExecuteError::Closed { .. }) => true,
        Err(other) => panic!("{other}"),
    })
    .await;
    acknowledged.into_inner()
}

/// Schedule 84.
async fn a_decision_on_the_state_before_the_close_is_refused_after_it(stage: TestStore) {
    let (tidelock, late) = (stage.tidelock().await, stage.tidelock().await);
    let account = paid_into(&tidelock, 2).await;
    let late = late.aggregate::<Account>("7");
    let loaded = late.load().await.unwrap();
    account.archive_to(discard).close().await.unwrap();
    let refused = late.execute(pay(1)).await.unwrap_err();
    assert!(matches!(refused, ExecuteError::Closed { .. }), "{refused}");
    let pinned = late.at_version(loaded.version.unwrap()).execute(pay(1)).await.unwrap_err();
    assert!(matches!(pinned, ExecuteError::Closed { .. }), "{pinned}");
    let unseen = late.append(Paid { amount: 1 }).await.unwrap_err();
    assert!(matches!(unseen, ExecuteError::Closed { .. }), "{unseen}");
}

/// Restarts an account's stream before the next read of a stream.
#[derive(Debug)]
struct Restarting {
    tidelock: Tidelock,
    armed: AtomicBool,
}

impl Interceptor for Restarting {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if operation == StoreOperation::ReadStream && self.armed.swap(false, Ordering::SeqCst) {
            self.tidelock.aggregate::<Account>("7").archive_to(discard).restart().await.unwrap();
        }
        call.await
    }
}

/// CLOSE-5. For the first restart there was no snapshot, for the second an older one.
async fn a_load_survives_a_trim_between_its_snapshot_and_stream_reads(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let account = paid_into(&tidelock, 3).await;
    for balance in [3, 4] {
        let between = Restarting { tidelock: stage.tidelock().await, armed: AtomicBool::new(true) };
        let loading = Wrapped::new(tidelock.store().clone(), between);
        let loaded =
            Tidelock::over(loading.clone()).aggregate::<Account>("7").load().await.unwrap();
        assert!(!loading.armed.load(Ordering::SeqCst), "the books were restarted meanwhile");
        assert_eq!(loaded.balance, balance);
        account.execute(pay(1)).await.unwrap();
    }
}
