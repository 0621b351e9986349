//! Rate limits: so many units in each span of time, replenished continuously.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidelock::ErrorKind;
use tidelock::claims::{ClaimError, RateExceeded, RateLimit, RateUsage};
use tidelock::prelude::*;
use tidelock::store::{
    Commit, ExpectedRevision, RawJson, RecordKey, RecordQuery, RecordWrite, StoreErrorKind,
};
use tidelock_test_stage::{TestStore, on_every_store, until};

const HOUR: Duration = Duration::from_secs(3600);

/// Four in an hour.
fn logins(tidelock: &Tidelock) -> RateLimit {
    tidelock.rate("logins", 4, HOUR).of("ada")
}

async fn taken(rate: &RateLimit, units: u32) -> RateUsage {
    rate.take(units).await.unwrap().granted().unwrap()
}

async fn exceeded(rate: &RateLimit, units: u32) -> RateExceeded {
    rate.take(units).await.unwrap().granted().unwrap_err()
}

async fn available(rate: &RateLimit) -> u32 {
    rate.usage().await.unwrap().available
}

/// CLAIM-23: the burst at once, and a refusal says when more becomes available.
async fn no_more_than_the_burst_is_granted_at_once(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let rate = logins(&tidelock);
    assert_eq!(available(&rate).await, 4);
    assert_eq!(taken(&rate, 3).await.available, 1);
    let refused = exceeded(&rate, 2).await;
    assert_eq!((refused.key.as_str(), refused.requested), ("rate/logins/ada", 2));
    assert!(refused.retry_after <= HOUR / 4 && refused.retry_after > HOUR / 5, "{refused}");
    assert_eq!(taken(&rate, 1).await.available, 0);
    let usage = rate.usage().await.unwrap();
    assert_eq!((usage.available, usage.burst), (0, 4));
    assert!(usage.full_at > refused.possible_at, "{usage:?}");
    // Another scope has its own units; a smaller burst spaces them.
    let other = tidelock.rate("logins", 4, HOUR).of("bo").burst(1);
    taken(&other, 1).await;
    assert!(exceeded(&other, 1).await.retry_after > HOUR / 5);
    assert_eq!(tidelock::Error::from(refused).kind(), ErrorKind::Exceeded);
}

/// CLAIM-23: from many callers in several processes, too.
async fn of_forty_callers_four_are_granted(stage: TestStore) {
    let mut callers = Vec::new();
    for tidelock in [stage.tidelock().await, stage.tidelock().await] {
        for _ in 0..20 {
            let rate = logins(&tidelock);
            callers.push(tokio::spawn(async move { rate.take(1).await.unwrap().is_granted() }));
        }
    }
    let mut granted = 0;
    for caller in callers {
        granted += u32::from(caller.await.unwrap());
    }
    assert_eq!(granted, 4);
}

/// CLAIM-23: there is no edge of a window at which two bursts follow each other.
async fn units_are_replenished_one_by_one(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let rate = tidelock.rate("calls", 10, Duration::from_secs(2));
    let store = tidelock.store().clone();
    let begun = store.now().await.unwrap();
    let granted = AtomicU64::new(0);
    until("a burst and ten more are granted", async || {
        let more = u64::from(rate.take(1).await.unwrap().is_granted());
        let granted = granted.fetch_add(more, Relaxed) + more;
        let passed = store.now().await.unwrap().since(begun).as_micros();
        let share = u64::try_from(passed / 200_000).unwrap();
        assert!(granted <= 10 + share, "{granted} were granted in {passed} µs");
        granted == 20
    })
    .await;
}

/// CLAIM-23, CLAIM-6.
async fn a_rate_is_charged_atomically_with_its_effect(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let rate = logins(&tidelock);
    let first = || RawJson::new(&1).unwrap();
    let sent = |key: &str| {
        let key = RecordKey::new(key).unwrap();
        let absent = ExpectedRevision::Absent;
        Commit::new().write(RecordWrite::put(&key, absent, first()))
    };
    rate.take_with(2, sent("mail/1")).await.unwrap().granted().unwrap();
    let refused = rate.take_with(1, sent("mail/1")).await.unwrap_err();
    assert!(matches!(refused, ClaimError::Refused { .. }), "{refused}");
    assert_eq!(available(&rate).await, 2);
    assert!(!rate.take_with(3, sent("mail/2")).await.unwrap().is_granted());
    let there =
        async |key: &str| tidelock.transact(async |tx: Tx| tx.get::<i64>(key).await).await.unwrap();
    assert_eq!((there("mail/1").await, there("mail/2").await), (Some(1), None));
}

/// CLAIM-23, TX-1: the draws of one transaction add up, and land with it or not at all.
async fn a_transaction_takes_from_a_rate(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let rate = logins(&tidelock);
    let send = async |units: u32| {
        let rate = &rate;
        let sending = async |tx: Tx| -> tidelock::Result<u32> {
            tx.put("mail", &units)?;
            tx.take_rate(rate, 1).await?.granted()?;
            Ok(tx.take_rate(rate, units).await?.granted()?.available)
        };
        tidelock.transact(sending).await
    };
    assert_eq!(send(2).await.unwrap(), 1);
    let refused = send(1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exceeded, "{refused}");
    assert!(refused.details::<RateExceeded>().is_some() && refused.is_retryable());
    assert_eq!(available(&rate).await, 1);
    let both = [send(0), send(0)];
    let both = futures_util::future::join_all(both).await;
    assert_eq!(both.iter().filter(|sent| sent.is_ok()).count(), 1, "{both:?}");
    assert_eq!(available(&rate).await, 0);
}

/// CLAIM-23, CLAIM-21.
async fn an_operation_takes_from_a_rate_once(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let once = claims.clone().operation_id("order-17");
    let rate = |claims: &tidelock::claims::Claims| claims.rate("logins", 4, HOUR);
    for _ in 0..3 {
        assert_eq!(taken(&rate(&once), 3).await.available, 1);
    }
    let other = rate(&once).take(1).await.unwrap_err();
    assert!(
        matches!(&other, ClaimError::Store(e) if e.kind() == StoreErrorKind::IdempotencyMismatch),
        "{other:?}"
    );
    // A repeat is granted even when nothing is left.
    taken(&rate(&claims), 1).await;
    assert_eq!(taken(&rate(&once), 3).await.available, 0);
    assert!(!rate(&claims).take(1).await.unwrap().is_granted());
}

/// CLAIM-23: the record of a rate limit leaves by itself.
async fn a_replenished_rate_leaves_nothing(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let rate = tidelock.rate("calls", 1, Duration::from_millis(50));
    taken(&rate, 1).await;
    until("it is replenished", async || available(&rate).await == 1).await;
    let store = tidelock.store().clone();
    let query = RecordQuery::prefix("~claim-rate/");
    assert!(store.scan(query).await.unwrap().records.is_empty());
}

/// CLAIM-8, CLAIM-23.
async fn a_rate_that_makes_no_sense_is_refused(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let bad = [
        (tidelock.rate("none", 0, HOUR), 1, "use 1 or more"),
        (tidelock.rate("fast", 3, Duration::from_micros(2)), 1, "at most one in a microsecond"),
        (tidelock.rate("now", 1, Duration::ZERO), 1, "at most one in a microsecond"),
        (tidelock.rate("slow", 1, Duration::MAX), 1, "the limit is"),
        (logins(&tidelock), 5, "5 units are never available at once; the burst is 4"),
        (logins(&tidelock).burst(0), 1, "the burst is 0"),
        (tidelock.rate("", 1, HOUR), 1, "empty"),
    ];
    for (rate, units, why) in bad {
        let error = rate.take(units).await.unwrap_err();
        assert!(
            matches!(error, ClaimError::Store(_)) && error.to_string().contains(why),
            "{error}"
        );
    }
}

on_every_store! {
    no_more_than_the_burst_is_granted_at_once,
    of_forty_callers_four_are_granted,
    units_are_replenished_one_by_one,
    a_rate_is_charged_atomically_with_its_effect,
    a_transaction_takes_from_a_rate,
    an_operation_takes_from_a_rate_once,
    a_replenished_rate_leaves_nothing,
    a_rate_that_makes_no_sense_is_refused,
}
