//! Units of work under an operation id: one effect and one value, however often they are called.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidelock::ErrorKind;
use tidelock::prelude::*;
use tidelock::store::{ManualClock, MemoryStore};
use tokio::task::JoinSet;

use crate::harness::{Ground, on_every_store};
use crate::meddler::{Fault, Meddler};

on_every_store!(
    a_repetition_returns_the_value_and_runs_nothing,
    concurrent_repetitions_have_one_effect,
    a_lost_reply_is_found_by_the_repetition,
    a_failed_unit_of_work_is_not_remembered,
    one_that_stages_nothing_is_remembered_too,
    an_operation_without_an_id_is_refused,
);

/// Counts, and returns how far.
async fn count(tx: &Tx) -> tidelock::Result<u32> {
    let next = tx.get::<u32>("count").await?.unwrap_or_default() + 1;
    tx.put("count", &next)?;
    Ok(next)
}

async fn counted(tidelock: &Tidelock) -> u32 {
    let read = async |tx: Tx| tx.get::<u32>("count").await;
    tidelock.transact(read).await.unwrap().unwrap_or_default()
}

/// TX-14.
async fn a_repetition_returns_the_value_and_runs_nothing(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (runs, key) = (AtomicU32::new(0), "order 7/a");
    for tidelock in [&here, &there, &here] {
        let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<u32> {
            runs.fetch_add(1, Ordering::SeqCst);
            assert_eq!(tx.effect_key(), key);
            count(&tx).await
        });
        assert_eq!(unit.operation_id(key).await.unwrap(), 1);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1, "the first alone ran");
    let other = here.transact(async |tx: Tx| count(&tx).await).operation_id("order 7");
    assert_eq!(other.await.unwrap(), 2);
    assert_eq!(counted(&there).await, 2);
}

/// TX-14.
async fn concurrent_repetitions_have_one_effect(ground: Ground) {
    let mut callers = JoinSet::new();
    for tidelock in [ground.open().await, ground.open().await] {
        for _ in 0..4 {
            let tidelock = tidelock.clone();
            callers.spawn(async move {
                // A counter alone: nothing but the id keeps two of them apart.
                let add = async |tx: Tx| -> tidelock::Result<u32> {
                    tx.add("count", 1, ..)?;
                    Ok(7)
                };
                tidelock.transact(add).operation_id("delivery-1").await.unwrap()
            });
        }
    }
    assert_eq!(callers.join_all().await, [7; 8]);
    assert_eq!(counted(&ground.open().await).await, 1);
}

/// TX-14.
async fn a_lost_reply_is_found_by_the_repetition(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone()).with_retry(Retry::never());
    meddler.fail([Fault::LostReply]);
    let unit = || tidelock.transact(async |tx: Tx| count(&tx).await).operation_id("order-7");
    assert!(unit().await.unwrap_err().outcome_unknown());
    assert_eq!(unit().await.unwrap(), 1);
    assert_eq!(counted(&tidelock).await, 1);
}

/// TX-14.
async fn a_failed_unit_of_work_is_not_remembered(ground: Ground) {
    let tidelock = ground.open().await;
    let quota = tidelock.quota("orders", 1);
    quota.take(1).await.unwrap().granted().unwrap();
    let order = async |quota| {
        let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<u32> {
            tx.take(quota, 1).await?.granted()?;
            count(&tx).await
        });
        unit.operation_id("order-7").await
    };
    assert_eq!(order(&quota).await.unwrap_err().kind(), ErrorKind::Exceeded);
    assert_eq!(counted(&tidelock).await, 0);
    assert_eq!(order(&tidelock.quota("orders", 2)).await.unwrap(), 1);
}

/// TX-14.
async fn one_that_stages_nothing_is_remembered_too(ground: Ground) {
    let tidelock = ground.open().await;
    let read = async || {
        let unit = tidelock.transact(async |tx: Tx| tx.get::<u32>("count").await);
        unit.operation_id("look").await.unwrap()
    };
    assert_eq!(read().await, None);
    tidelock.transact(async |tx: Tx| count(&tx).await).await.unwrap();
    assert_eq!(read().await, None, "it found nothing the first time");
}

async fn an_operation_without_an_id_is_refused(ground: Ground) {
    let tidelock = ground.open().await;
    let unit = || tidelock.transact(async |tx: Tx| count(&tx).await);
    let refused = unit().operation_id("").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let refused = unit().operation_id("a").dedup_window(Duration::MAX).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
    assert_eq!(counted(&tidelock).await, 0);
}

/// TX-14.
#[tokio::test]
async fn an_operation_is_forgotten_after_its_window() {
    let (clock, minute) = (ManualClock::default(), Duration::from_secs(60));
    let tidelock = Tidelock::over(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let unit = async || {
        let unit = tidelock.transact(async |tx: Tx| count(&tx).await);
        unit.operation_id("order-7").dedup_window(minute).await.unwrap()
    };
    assert_eq!((unit().await, unit().await), (1, 1));
    clock.advance(2 * minute);
    assert_eq!(unit().await, 2);
}
