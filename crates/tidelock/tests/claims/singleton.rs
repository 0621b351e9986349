//! Singletons: one winner per scope and period.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::ClaimError;
use tidelock::claims::{ClaimGuard, Period, SingletonTaken, TimeZone};
use tidelock::prelude::*;
use tidelock::store::{
    Clock, Commit, ManualClock, MemoryStore, NewEvent, StoreExt, StreamName, ViolationKind,
};
use tidelock_test_stage::{TestStore, note, on_every_store, until};

fn won<W: std::fmt::Debug>(single: Outcome<W, SingletonTaken>) -> W {
    match single {
        Outcome::Granted(won) => won,
        Outcome::Refused(winner) => panic!("{winner}"),
    }
}

fn taken<W: std::fmt::Debug>(single: Outcome<W, SingletonTaken>) -> SingletonTaken {
    match single {
        Outcome::Refused(winner) => winner,
        Outcome::Granted(won) => panic!("{won:?}"),
    }
}

/// CLAIM-9.
async fn a_late_caller_learns_who_won_and_when(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let mother = tidelock.claims().by("mother");
    let father = stage.tidelock().await.claims().by("father");
    let before = tidelock.store().now().await.unwrap();
    won(mother.singleton("prayer").of("child-7").take(&json!({ "event": 1 })).await.unwrap());
    let winner =
        taken(father.singleton("prayer").of("child-7").take(&json!({ "event": 2 })).await.unwrap());
    let after = tidelock.store().now().await.unwrap();
    assert_eq!(winner.by.as_str(), "mother");
    assert!((before..=after).contains(&winner.at.unwrap()));
    assert_eq!(winner.details::<Value>().unwrap(), Some(json!({ "event": 1 })));
    assert!(
        winner
            .to_string()
            .starts_with(r#"claim "singleton/prayer/child-7": "mother" was first, at 20"#),
        "{winner}"
    );
    won(father.singleton("prayer").of("child-8").take(&json!(null)).await.unwrap());
}

/// CLAIM-9: while the work is in progress, and after.
async fn one_that_is_being_done_keeps_others_out_and_one_that_died_does_not(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let prayer =
        tidelock.claims().singleton("prayer").of("child-7").lease(Duration::from_millis(5));
    let first: ClaimGuard<Value> = won(prayer.claim().await.unwrap());
    drop(first);
    // With a lease that does not expire on a busy machine.
    let patient = prayer.clone().lease(Duration::from_secs(60));
    let again = std::sync::Mutex::new(None);
    until("the one that died is replaced", async || {
        if let Outcome::Granted(won) = patient.claim::<Value>().await.unwrap() {
            *again.lock().unwrap() = Some(won);
        }
        again.lock().unwrap().is_some()
    })
    .await;
    let again = again.into_inner().unwrap().unwrap();
    let winner =
        taken(tidelock.claims().singleton("prayer").of("child-7").claim::<Value>().await.unwrap());
    assert!(winner.until.is_some() && winner.details::<Value>().unwrap().is_none(), "{winner:?}");
    assert_eq!(winner.at, Some(again.since()));
    again.complete(&json!("logged")).await.unwrap();
    let winner = taken(prayer.claim::<Value>().await.unwrap());
    assert_eq!((winner.until, winner.details().unwrap()), (None, Some(json!("logged"))));
    assert_eq!(winner.at, Some(again.since()));
}

/// CLAIM-9, CLAIM-6: it lands atomically with its event.
async fn a_singleton_lands_with_its_event_or_not_at_all(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let prayer = tidelock.claims().singleton("prayer").of("child-7");
    let stream = StreamName::new("diary").unwrap();
    let logged = |expected| {
        Commit::new().append(&stream, expected, [NewEvent::of("logged", &json!({})).unwrap()])
    };
    note(&tidelock, "diary", "a note").await;
    let refused = prayer.take_with(&json!(1), logged(ExpectedVersion::NoStream)).await.unwrap_err();
    assert!(matches!(refused, ClaimError::Refused { .. }), "{refused}");
    won(prayer.take_with(&json!(2), logged(ExpectedVersion::Any)).await.unwrap());
    taken(prayer.take_with(&json!(3), logged(ExpectedVersion::Any)).await.unwrap());
    let part = prayer.part(&json!(4)).await.unwrap();
    let conflict = tidelock.store().commit(logged(ExpectedVersion::Any).write(part)).await.unwrap();
    assert!(
        conflict.conflict().unwrap().has(ViolationKind::Taken),
        "as a part of another commit, too"
    );
    assert_eq!(tidelock.store().read_whole_stream(&stream).await.unwrap().len(), 2);
}

on_every_store!(
    a_late_caller_learns_who_won_and_when,
    one_that_is_being_done_keeps_others_out_and_one_that_died_does_not,
    a_singleton_lands_with_its_event_or_not_at_all,
);

/// CLAIM-9: the day is that of the store's clock in the caller's zone, also with a clock change.
#[tokio::test]
async fn once_a_day_is_once_a_day_in_the_callers_zone() {
    let clock = ManualClock::at("2026-03-28T22:59:59Z".parse().unwrap());
    let tidelock = Tidelock::over(std::sync::Arc::new(MemoryStore::with_clock(
        std::sync::Arc::new(clock.clone()),
    )));
    let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let daily = tidelock.claims().singleton("prayer").of("child-7").per(Period::Day).zone(berlin);
    let take = async || daily.take(&json!(null)).await.unwrap();
    won(take().await);
    assert_eq!(
        taken(take().await).key.as_str(),
        "singleton/prayer/child-7/per day in CET-1CEST,M3.5.0,M10.5.0%2F3/2026-03-28"
    );
    clock.advance(Duration::from_secs(1));
    won(take().await);
    // The day on which clocks are set forward has 23 hours.
    clock.advance(Duration::from_secs(23 * 3600 - 1));
    assert_eq!(
        taken(take().await).key.as_str(),
        "singleton/prayer/child-7/per day in CET-1CEST,M3.5.0,M10.5.0%2F3/2026-03-29"
    );
    clock.advance(Duration::from_secs(1));
    won(take().await);
    assert_eq!(clock.wall().to_string(), "2026-03-29T22:00:00.000000Z");
}

/// CLAIM-9. Every way of taking one leaves a record that ends with its period.
#[tokio::test]
async fn a_singleton_is_forgotten_when_its_period_is_over() {
    let clock = ManualClock::at("2026-03-28T12:00:00Z".parse().unwrap());
    let store = MemoryStore::with_clock(std::sync::Arc::new(clock.clone()));
    let tidelock = Tidelock::over(std::sync::Arc::new(store));
    for period in [Period::Hour, Period::Day, Period::Week, Period::Month, Period::Year] {
        let of =
            |how: &str| tidelock.claims().singleton("s").of(format!("{period}-{how}")).per(period);
        won(of("taken").take(&1).await.unwrap());
        won(of("claimed").claim::<i64>().await.unwrap()).complete(&1).await.unwrap();
        let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
            assert!(tx.claim(&of("staged"), &1).await?.is_granted());
            Ok(())
        });
        unit.await.unwrap();
        let compound = tidelock.claims().claim_all().singleton(&of("all"));
        compound.claim().await.unwrap().granted().unwrap().complete(&1).await.unwrap();
    }
    let left = async || tidelock.claims().list("").all().await.unwrap().len();
    assert_eq!(left().await, 20);
    clock.advance(Duration::from_secs(2 * 366 * 24 * 3_600));
    assert_eq!(left().await, 0);
}
