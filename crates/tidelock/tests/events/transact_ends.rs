//! How a unit of work ends: errors that running it again cannot change, what its end leaves behind,
//! and what follows its commit.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use tidelock::ErrorKind;
use tidelock::closing::discard;
use tidelock::events::Snapshots;
use tidelock::prelude::*;
use tidelock::store::{ExpectedRevision, ExpectedVersion, NewEvent, RawJson, RecordKey, StoreExt};

use crate::harness::{Ground, on_every_store};
use crate::shop::{Counter, Stepped, step};

on_every_store!(
    a_grant_that_was_not_committed_is_not_refunded,
    a_kept_clone_is_refused_however_the_closure_ended,
    an_expectation_of_the_closure_itself_is_not_tried_again,
    a_closed_stream_ends_the_unit_of_work,
    an_erased_subject_ends_the_unit_of_work,
    two_decisions_at_once_about_one_aggregate_are_refused_at_the_call,
    a_mutation_inside_its_own_scope_is_refused,
    a_snapshot_follows_the_commit,
);

/// CLAIM-13.
async fn a_grant_that_was_not_committed_is_not_refunded(ground: Ground) {
    let tidelock = ground.open().await;
    let (quota, grants) = (tidelock.quota("q", 100), Mutex::new(Vec::new()));
    quota.take(10).await.unwrap().granted().unwrap();
    let failed = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        let grant = tx.take(&quota, 5).await?.granted()?;
        grants.lock().unwrap().push(grant);
        tx.put("", &1)
    });
    assert_eq!(failed.await.unwrap_err().kind(), ErrorKind::Invalid);
    let (other, runs) = (ground.open().await, AtomicU32::new(0));
    let rerun = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        let grant = tx.take(&quota, 5).await?.granted()?;
        grants.lock().unwrap().push(grant);
        let seen: i64 = tx.get("n").await?.unwrap_or_default();
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            other.transact(async |tx: Tx| tx.put("n", &1)).await?;
        }
        tx.put("n", &(seen + 1))
    });
    rerun.await.unwrap();
    let grants = grants.into_inner().unwrap();
    assert_eq!(grants.len(), 3, "of a failed unit, and of two runs of one");
    for grant in &grants[..2] {
        let refused = tidelock::Error::from(quota.refund(grant).await.unwrap_err());
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    assert_eq!(quota.usage().await.unwrap().used, 15);
    // What was committed is refunded, also from where it was stored.
    let stored: tidelock::claims::Grant = RawJson::new(&grants[2]).unwrap().to().unwrap();
    quota.refund(&grants[2]).await.unwrap();
    quota.refund(&stored).await.unwrap();
    assert_eq!(quota.usage().await.unwrap().used, 10);
}

/// TX-7.
async fn a_kept_clone_is_refused_however_the_closure_ended(ground: Ground) {
    let tidelock = ground.open().await;
    let kept = Mutex::new(Vec::new());
    let failed = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        kept.lock().unwrap().push(tx.clone());
        tx.put("", &1)
    });
    failed.await.unwrap_err();
    let dropped = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        kept.lock().unwrap().push(tx.clone());
        std::future::pending().await
    });
    let mut dropped = Box::pin(dropped.into_future());
    assert!(futures_util::poll!(&mut dropped).is_pending());
    drop(dropped);
    for tx in kept.into_inner().unwrap() {
        assert_eq!(tx.put("k", &1).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(tx.get::<i64>("k").await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// TX-10.
async fn an_expectation_of_the_closure_itself_is_not_tried_again(ground: Ground) {
    let (tidelock, runs) = (ground.open().await, AtomicU32::new(0));
    tidelock.transact(async |tx: Tx| tx.put("there", &1)).await.unwrap();
    tidelock.aggregate::<Counter>("c").execute(step).await.unwrap();
    let put = tidelock.transact(async |tx: Tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        tx.put_if("there", ExpectedRevision::Absent, &2)
    });
    let conflict = put.await.unwrap_err();
    assert_eq!((conflict.kind(), conflict.is_retryable()), (ErrorKind::Conflict, false));
    let add = tidelock.transact(async |tx: Tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        tx.add("count", 5, ..=3)
    });
    assert_eq!(add.await.unwrap_err().kind(), ErrorKind::Conflict);
    let append = tidelock.transact(async |tx: Tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        let event = NewEvent::of("stepped", &serde_json::json!({}))?;
        tx.append_to("counter-c", ExpectedVersion::NoStream, [event])
    });
    let conflict = append.await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    assert!(conflict.to_string().contains("counter-c"), "{conflict}");
    assert_eq!(runs.load(Ordering::SeqCst), 3, "each closure ran once");
}

/// TX-10.
async fn a_closed_stream_ends_the_unit_of_work(ground: Ground) {
    let (tidelock, runs) = (ground.open().await, AtomicU32::new(0));
    let walk = tidelock.aggregate::<Counter>("walk");
    walk.execute(step).await.unwrap();
    walk.archive_to(discard).close().await.unwrap();
    let unit = tidelock.transact(async |tx: Tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        tx.append(&walk, Stepped {})
    });
    assert_eq!(unit.await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[derive(Debug, Default, Clone)]
struct Guests;

#[derive(Debug, Event)]
struct Came {
    name: Personal<String>,
}

impl Aggregate for Guests {
    const KIND: &'static str = "guests";
    type Event = Came;

    fn apply(&mut self, _: &Came) {}
}

/// TX-10, EVT-13.
async fn an_erased_subject_ends_the_unit_of_work(ground: Ground) {
    let (tidelock, runs) = (ground.open().await, AtomicU32::new(0));
    let guests = tidelock.aggregate::<Guests>("today");
    let ada = || Came { name: Personal::new("user-ada", "Ada".to_owned()) };
    guests.append(ada()).await.unwrap();
    tidelock.erase_subject("user-ada").await.unwrap();
    let appended = tidelock.transact(async |tx: Tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        tx.append(&guests, ada())
    });
    assert_eq!(appended.await.unwrap_err().kind(), ErrorKind::SubjectErased);
    let decided = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        runs.fetch_add(1, Ordering::SeqCst);
        Ok(tx.execute(&guests, move |_| Ok::<_, Infallible>(ada())).await?)
    });
    assert_eq!(decided.await.unwrap_err().kind(), ErrorKind::SubjectErased);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// TX-4.
async fn two_decisions_at_once_about_one_aggregate_are_refused_at_the_call(ground: Ground) {
    let tidelock = ground.open().await;
    let walk = tidelock.aggregate::<Counter>("walk");
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        let both = futures_util::join!(tx.execute(&walk, step), tx.execute(&walk, step));
        let (Ok(()), Err(refused)) = both else { panic!("one of two: {both:?}") };
        assert_eq!(tidelock::Error::from(refused).kind(), ErrorKind::Invalid);
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!(walk.load().await.unwrap().steps, 1);
}

/// SCOPE-4.
async fn a_mutation_inside_its_own_scope_is_refused(ground: Ground) {
    let tidelock = ground.open().await;
    let scope = tidelock.scope::<i64>(ScopeKind::USER, "ada");
    let (inner, handle) = (scope.clone(), tidelock.clone());
    let mutated = scope.mutate_async(move |count: i64| {
        let (inner, handle) = (inner.clone(), handle.clone());
        async move {
            let unit = handle.transact(async |tx: Tx| tx.mutate(&inner, |n| *n += 1).await);
            assert_eq!(unit.await.unwrap_err().kind(), ErrorKind::Reentered);
            Ok::<_, Infallible>((count + 1, ()))
        }
    });
    mutated.await.unwrap();
    assert_eq!(scope.get().await.unwrap(), 1);
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Walk {
    steps: u64,
}

impl Aggregate for Walk {
    const KIND: &'static str = "walk";
    type Event = Stepped;

    fn apply(&mut self, _: &Stepped) {
        self.steps += 1;
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(10)
    }
}

/// EVT-10.
async fn a_snapshot_follows_the_commit(ground: Ground) {
    let tidelock = ground.open().await;
    let walk = tidelock.aggregate::<Walk>("one");
    let key = RecordKey::new("~snapshot/walk-one").unwrap();
    for steps in 1..=12 {
        let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
            Ok(tx.execute(&walk, |_| Ok::<_, Infallible>(Stepped {})).await?)
        });
        unit.await.unwrap();
        let snapshot = tidelock.store().get_one(&key).await.unwrap();
        assert_eq!(snapshot.live().is_some(), steps >= 10, "after {steps}");
    }
}
