//! Quotas: a limit per period.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::Timestamp;
use tidelock::claims::ClaimError;
use tidelock::claims::{Grant, Period, Quota, QuotaExceeded, RefundOutcome, TimeZone};
use tidelock::prelude::*;
use tidelock::store::{
    Commit, ExpectedRevision, ManualClock, MemoryStore, NewEvent, RawJson, RecordKey, StoreExt,
    StreamName,
};
use tidelock_test_stage::{Pause, TestStore, note, on_every_store, until};

use crate::lost_replies::LostReplies;

fn points(tidelock: &Tidelock, limit: i64) -> Quota {
    tidelock.claims().quota("points", limit).of("child-7")
}

async fn taken(quota: &Quota, units: u32) -> Grant {
    quota.take(units).await.unwrap().granted().unwrap()
}

async fn exceeded(quota: &Quota, units: u32) -> QuotaExceeded {
    quota.take(units).await.unwrap().granted().unwrap_err()
}

async fn used(quota: &Quota) -> i64 {
    quota.usage().await.unwrap().used
}

/// CLAIM-12.
async fn no_more_than_the_limit_is_granted(stage: TestStore) {
    let quota = points(&stage.tidelock().await, 50);
    assert_eq!(used(&quota).await, 0);
    taken(&quota, 30).await;
    let error = exceeded(&quota, 21).await;
    assert_eq!((error.used, error.limit, error.requested, error.resets_at), (30, 50, 21, None));
    assert_eq!(
        error.to_string(),
        r#"claim "quota/points/child-7": 21 more than the 30 taken goes past the limit of 50"#
    );
    taken(&quota, 20).await;
    exceeded(&quota, 1).await;
    assert_eq!(used(&quota).await, 50);
    taken(&points(&stage.tidelock().await, 60), 10).await;
}

/// Schedules 62 and 95. CLAIM-12: the others are refused because the limit is reached, and for no
/// other reason.
async fn of_a_hundred_callers_on_a_quota_of_eighteen_eighteen_are_granted(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let quota = points(&tidelock, 18);
            tokio::spawn(async move { quota.take(1).await.unwrap() })
        })
        .collect();
    let (mut granted, mut refused) = (0, 0);
    for caller in callers {
        match caller.await.unwrap() {
            Outcome::Granted(_) => granted += 1,
            Outcome::Refused(error) => {
                assert_eq!((error.used, error.requested), (18, 1));
                refused += 1;
            }
        }
    }
    assert_eq!((granted, refused), (18, 82));
    assert_eq!(used(&points(&tidelock, 18)).await, 18);
}

/// Schedule 64. CLAIM-13.
async fn a_refund_takes_effect_once(stage: TestStore) {
    let quota = points(&stage.tidelock().await, 50);
    let (first, second) = (taken(&quota, 30).await, taken(&quota, 20).await);
    let kept: Grant = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
    assert_eq!(quota.refund(&kept).await.unwrap(), RefundOutcome::Refunded);
    assert_eq!(quota.refund(&first).await.unwrap(), RefundOutcome::Already);
    assert_eq!(used(&quota).await, 20);
    let other = stage.tidelock().await.claims().quota("other", 50);
    assert!(other.refund(&second).await.unwrap_err().to_string().contains("cannot be refunded to"));
    assert_eq!(quota.refund(&second).await.unwrap(), RefundOutcome::Refunded);
    assert_eq!(used(&quota).await, 0);
}

/// CLAIM-13: of a grant, and of a reservation, as a client keeps it and could change it.
async fn a_grant_that_was_never_made_like_this_is_not_refunded(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let quota = points(&tidelock, 50).per(Period::Day);
    let (mine, other) = (taken(&quota, 20).await, taken(&quota, 10).await);
    let reserved = quota.reserve(5, Duration::from_secs(60)).await.unwrap().granted().unwrap();
    let (mine, other) = (json!(mine), json!(other));
    let reserved = json!(reserved.token())["grant"].clone();
    let changed = |of: &Value, field: &str, to: Value| {
        let mut grant = of.clone();
        grant[field] = to;
        grant
    };
    let unsealed = |mut grant: Value| {
        grant.as_object_mut().unwrap().remove("seal").expect("it is sealed");
        grant
    };
    let ends = "2026-01-01T00:00:00Z";
    let made_up = [
        changed(&mine, "units", json!(30)),
        changed(&mine, "units", json!(1)),
        changed(&mine, "id", other["id"].clone()),
        changed(&mine, "seal", other["seal"].clone()),
        // Its mark would be forgotten at once, and it could be refunded again.
        changed(&mine, "ends", json!(ends)),
        changed(&mine, "ends", Value::Null),
        changed(&reserved, "reserved", json!(false)),
        unsealed(mine.clone()),
        unsealed(changed(&reserved, "reserved", json!(false))),
    ];
    // One handle has just taken from the window, and one does not know it yet.
    let stranger = points(&stage.tidelock().await, 50).per(Period::Day);
    for quota in [&quota, &stranger] {
        for grant in &made_up {
            let grant: Grant = serde_json::from_value(grant.clone()).unwrap();
            let error = quota.refund(&grant).await.unwrap_err().to_string();
            assert!(error.contains("was never made like this"), "{error}");
        }
    }
    let sealed = changed(&mine, "window", json!(mine["window"].as_u64().unwrap() + 1));
    let sealed: Grant = serde_json::from_value(sealed).unwrap();
    assert_eq!(stranger.refund(&sealed).await.unwrap(), RefundOutcome::Over);
    assert_eq!(used(&quota).await, 35);
    let mine: Grant = serde_json::from_value(mine).unwrap();
    assert_eq!(stranger.refund(&mine).await.unwrap(), RefundOutcome::Refunded);
    assert_eq!(used(&quota).await, 15);
}

/// CLAIM-13. An older program opened the window, without a secret.
async fn a_grant_of_an_older_programs_window_can_be_refunded(stage: TestStore) {
    let quota = points(&stage.tidelock().await, 50);
    let store = stage.store().await;
    let window = RecordKey::new("~claim-window/quota/points/child-7").unwrap();
    let plain = RawJson::new("").unwrap();
    store.put(&window, ExpectedRevision::Absent, plain).await.unwrap().committed().unwrap();
    let grant = taken(&quota, 30).await;
    assert_eq!(json!(grant).get("seal"), None);
    assert_eq!(quota.refund(&grant).await.unwrap(), RefundOutcome::Refunded);
    assert_eq!(used(&quota).await, 0);
}

/// Schedule 64. CLAIM-13: not to the next period.
async fn a_refund_after_its_period_changes_nothing(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let period = Period::Every(Duration::from_millis(30));
    let quota = tidelock.claims().quota("logins", 5).of("ada").per(period);
    let (grant, reserved) =
        (taken(&quota, 2).await, quota.reserve(1, Duration::from_secs(60)).await.unwrap());
    until("the period is over", async || used(&quota).await == 0).await;
    let reserved = reserved.granted().unwrap();
    // A long period, so that it is still open when it is read.
    let long = tidelock
        .claims()
        .quota("logins", 5)
        .of("ada")
        .per(Period::Every(Duration::from_millis(30)));
    assert_eq!(quota.refund(&grant).await.unwrap(), RefundOutcome::Over);
    assert_eq!(reserved.refund().await.unwrap(), RefundOutcome::Over);
    assert_eq!(reserved.refund().await.unwrap(), RefundOutcome::Already);
    assert_eq!(used(&long).await, 0);
}

/// CLAIM-13.
async fn a_reservation_is_confirmed_or_given_back(stage: TestStore) {
    let quota = points(&stage.tidelock().await, 10);
    let minute = Duration::from_secs(60);
    let kept = quota.reserve(6, minute).await.unwrap().granted().unwrap();
    let returned = quota.reserve(4, minute).await.unwrap().granted().unwrap();
    assert!(matches!(quota.reserve(1, minute).await.unwrap(), Outcome::Refused(_)));
    assert_eq!(returned.refund().await.unwrap(), RefundOutcome::Refunded);
    assert_eq!(returned.refund().await.unwrap(), RefundOutcome::Already);
    assert_eq!(used(&quota).await, 6);
    let grant = kept.confirm().await.unwrap();
    assert_eq!((grant.units, used(&quota).await), (6, 6));
    assert_eq!(quota.refund(&grant).await.unwrap(), RefundOutcome::Refunded);
    assert_eq!(used(&quota).await, 0);
}

/// CLAIM-13: it expires once, when its units are needed, and not before.
async fn a_reservation_that_is_not_confirmed_goes_back_by_itself(stage: TestStore) {
    let quota = points(&stage.tidelock().await, 10);
    let forgotten = quota.reserve(10, Duration::from_millis(50)).await.unwrap().granted().unwrap();
    until("it went back", async || matches!(quota.take(7).await.unwrap(), Outcome::Granted(_)))
        .await;
    assert_eq!(used(&quota).await, 7);
    let error = forgotten.confirm().await.unwrap_err();
    assert!(matches!(error, ClaimError::Settled { .. }), "{error}");
    assert_eq!(forgotten.refund().await.unwrap(), RefundOutcome::Already);
    assert_eq!(used(&quota).await, 7);
}

/// Schedule 112. CLAIM-13: after its expiry it neither counts nor can be confirmed, whether or not
/// its units are needed.
async fn a_reservation_past_its_end_neither_counts_nor_can_be_confirmed(stage: TestStore) {
    let quota = points(&stage.tidelock().await, 10);
    taken(&quota, 1).await;
    let late = quota.reserve(3, Duration::from_millis(50)).await.unwrap().granted().unwrap();
    let standing = quota.reserve(4, Duration::from_secs(600)).await.unwrap().granted().unwrap();
    until("it is past its end", async || used(&quota).await == 5).await;
    let listed = stage.tidelock().await.claims().quotas("quota/points/").all().await.unwrap();
    assert_eq!((listed.len(), listed[0].used), (1, 5), "also where quotas are listed");
    for _ in 0..2 {
        let error = late.confirm().await.unwrap_err();
        assert!(matches!(error, ClaimError::Settled { .. }), "{error}");
        assert_eq!(late.refund().await.unwrap(), RefundOutcome::Already);
    }
    assert_eq!(exceeded(&quota, 6).await.used, 5);
    assert_eq!(used(&quota).await, 5);
    standing.confirm().await.unwrap();
    taken(&quota, 5).await;
    exceeded(&quota, 1).await;
}

/// Schedule 112. CLAIM-13: one caller, without contention.
async fn a_lone_caller_has_five_thousand_reservations(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let quota = points(&tidelock, 5_000);
    let reserve = async |life: u64| {
        quota.reserve(1, Duration::from_secs(life)).await.unwrap().granted().unwrap()
    };
    let mut held = Vec::new();
    // Concurrently on stores with real latency; the last ones one by one, among all the others.
    let at_once = if stage.is_simulated() { 1 } else { 50 };
    while held.len() < 4_900 {
        let some = (0..at_once).map(|_| reserve(3_600));
        held.extend(futures_util::future::join_all(some).await);
    }
    for nth in 0..100 {
        held.push(reserve(600 + nth).await);
    }
    assert!(matches!(
        quota.reserve(1, Duration::from_secs(60)).await.unwrap(),
        Outcome::Refused(_)
    ));
    held[0].confirm().await.unwrap();
    assert_eq!(held[4_999].refund().await.unwrap(), RefundOutcome::Refunded);
    assert_eq!(used(&quota).await, 4_999);
    reserve(60).await.confirm().await.unwrap();
}

/// Schedule 112. CLAIM-12: while reservations expire, no more than the limit is granted, and
/// expired units are available again.
async fn a_quota_holds_while_reservations_come_and_go(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let callers: Vec<_> = (0..24u32)
        .map(|nth| {
            let quota = points(&tidelock, 12);
            tokio::spawn(async move {
                let mut kept = 0;
                for round in 0..8 {
                    let life = if (nth + round) % 3 == 0 {
                        Duration::from_secs(600)
                    } else {
                        Duration::from_millis(1)
                    };
                    match quota.reserve(1, life).await.unwrap() {
                        Outcome::Granted(reserved) if reserved.confirm().await.is_ok() => {
                            kept += 1;
                        }
                        _ => {}
                    }
                    assert!(quota.usage().await.unwrap().used <= 12);
                }
                kept
            })
        })
        .collect();
    let mut kept: i64 = 0;
    for caller in callers {
        kept += caller.await.unwrap();
    }
    let quota = points(&tidelock, 12);
    until("what was not kept went back", async || used(&quota).await == kept).await;
    assert!(kept <= 12);
    taken(&quota, u32::try_from(12 - kept).unwrap()).await;
    exceeded(&quota, 1).await;
}

/// CLAIM-13: thirty concurrent reservations do not conflict.
async fn reservations_do_not_get_in_each_others_way(stage: TestStore) {
    let quota = points(&stage.tidelock().await, 30);
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(quota.reserve(1, Duration::from_secs(60)).await.unwrap().granted().unwrap());
    }
    assert!(matches!(
        quota.reserve(1, Duration::from_secs(60)).await.unwrap(),
        Outcome::Refused(_)
    ));
    for reservation in held {
        assert_eq!(reservation.refund().await.unwrap(), RefundOutcome::Refunded);
    }
    assert_eq!(used(&quota).await, 0);
}

/// CLAIM-12.
async fn a_quota_starts_over_after_its_period(stage: TestStore) {
    let period = Period::Every(Duration::from_secs(3));
    let quota = stage.tidelock().await.claims().quota("logins", 2).of("ada").per(period);
    let mut grants = 0;
    let error = loop {
        match quota.take(1).await.unwrap().granted() {
            Ok(_) => grants += 1,
            Err(error) => break error,
        }
    };
    // In real time a slow machine can exceed the period before the second draw.
    assert!(grants == 2 || !stage.is_simulated() && grants > 2, "{grants} were granted");
    assert!(error.resets_at.is_some(), "{error}");
    until("there is more", async || matches!(quota.take(1).await.unwrap(), Outcome::Granted(_)))
        .await;
    let used = used(&quota).await;
    assert!(used == 1 || !stage.is_simulated() && used == 0, "{used} of the new time");
}

/// CLAIM-12, CLAIM-6.
async fn a_quota_is_charged_atomically_with_its_effect(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let quota = points(&tidelock, 5);
    let stream = StreamName::new("awards").unwrap();
    let award = |expected| {
        Commit::new().append(&stream, expected, [NewEvent::of("awarded", &json!({})).unwrap()])
    };
    note(&tidelock, "awards", "a note").await;
    let error = quota.take_with(5, award(ExpectedVersion::NoStream)).await.unwrap_err();
    assert!(matches!(error, ClaimError::Refused { .. }), "{error}");
    assert_eq!(used(&quota).await, 0);
    quota.take_with(5, award(ExpectedVersion::Any)).await.unwrap().granted().unwrap();
    quota.take_with(1, award(ExpectedVersion::Any)).await.unwrap().granted().unwrap_err();
    assert_eq!(tidelock.store().read_whole_stream(&stream).await.unwrap().len(), 2);
}

/// CLAIM-7: not charged twice.
async fn a_quota_survives_lost_replies(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    points(&tidelock, 10).take(1).await.unwrap().granted().unwrap();
    let deaf = points(&LostReplies::over(&tidelock), 10);
    let grant = taken(&deaf, 2).await;
    assert_eq!(used(&deaf).await, 3);
    deaf.refund(&grant).await.unwrap();
    let reserved = deaf.reserve(4, Duration::from_secs(60)).await.unwrap().granted().unwrap();
    reserved.confirm().await.unwrap();
    assert_eq!(used(&deaf).await, 5);
}

/// Schedule 63. CLAIM-12: on a store with a real clock, in a zone in which it is about to be
/// midnight.
async fn a_draw_across_midnight_is_charged_to_one_day(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    // On a slow machine midnight may pass before anything was taken.
    while !charged_across_midnight(&tidelock).await {}
}

/// Whether everything that belongs before midnight happened before it.
async fn charged_across_midnight(tidelock: &Tidelock) -> bool {
    let now = tidelock.store().now().await.unwrap();
    // Midnight is three seconds from now, to the second.
    let left = 86_400 - (now.micros() / 1_000_000 + 3).rem_euclid(86_400);
    let midnight = Timestamp::from_micros((now.micros() / 1_000_000 + 3) * 1_000_000).unwrap();
    let zone =
        TimeZone::posix(&format!("<here>-{}:{:02}:{:02}", left / 3_600, left / 60 % 60, left % 60));
    let day =
        |tidelock: &Tidelock| points(tidelock, 18).per(Period::Day).zone(zone.clone().unwrap());
    let gate = Pause::over(tidelock);
    let (quick, slow) = (day(tidelock), day(&Tidelock::over(gate.clone())));
    let before = taken(&slow, 18).await;
    if before.ends != Some(midnight) {
        return false;
    }
    gate.stop();
    let late = tokio::spawn(async move { (slow.take(10).await.unwrap().granted().unwrap(), slow) });
    until("it is midnight", async || tidelock.store().now().await.unwrap() >= midnight).await;
    assert_eq!(used(&quick).await, 0, "the day is over at midnight");
    taken(&quick, 8).await;
    gate.go_on();
    let (late, slow) = late.await.unwrap();
    assert_eq!(late.ends, Some(midnight.plus(Duration::from_secs(86_400))));
    assert_eq!(used(&quick).await, 18, "the new day is charged, and only that");
    assert_eq!(
        slow.refund(&before).await.unwrap(),
        RefundOutcome::Over,
        "yesterday's goes nowhere"
    );
    assert_eq!(used(&quick).await, 18);
    true
}

on_every_store!(
    no_more_than_the_limit_is_granted,
    of_a_hundred_callers_on_a_quota_of_eighteen_eighteen_are_granted,
    a_refund_takes_effect_once,
    a_grant_that_was_never_made_like_this_is_not_refunded,
    a_grant_of_an_older_programs_window_can_be_refunded,
    a_refund_after_its_period_changes_nothing,
    a_reservation_is_confirmed_or_given_back,
    a_reservation_that_is_not_confirmed_goes_back_by_itself,
    a_reservation_past_its_end_neither_counts_nor_can_be_confirmed,
    a_lone_caller_has_five_thousand_reservations,
    a_quota_holds_while_reservations_come_and_go,
    a_draw_across_midnight_is_charged_to_one_day,
    reservations_do_not_get_in_each_others_way,
    a_quota_starts_over_after_its_period,
    a_quota_is_charged_atomically_with_its_effect,
    a_quota_survives_lost_replies,
);

fn at(moment: &str) -> (ManualClock, Tidelock) {
    let clock = ManualClock::at(moment.parse().unwrap());
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    (clock, Tidelock::over(Arc::new(store)))
}

/// Schedule 63. CLAIM-12: one period is charged, by the store's clock at the time of the commit.
#[tokio::test]
async fn a_draw_across_midnight_is_charged_to_the_new_day() {
    let (clock, tidelock) = at("2026-11-15T23:59:59.999Z");
    let gate = Pause::over(&tidelock);
    let slow = points(&Tidelock::over(gate.clone()), 18).per(Period::Day);
    let quick = points(&tidelock, 18).per(Period::Day);
    assert_eq!(quick.key().as_str(), "quota/points/child-7/per day");
    let before = taken(&slow, 18).await;
    gate.stop();
    let late = tokio::spawn(async move { (slow.take(10).await.unwrap().granted().unwrap(), slow) });
    tokio::task::yield_now().await;
    clock.advance(Duration::from_millis(1));
    assert_eq!(used(&quick).await, 0, "the day is over at midnight");
    taken(&quick, 8).await;
    gate.go_on();
    let (late, slow) = late.await.unwrap();
    assert_eq!(late.ends, Some("2026-11-17T00:00:00Z".parse().unwrap()));
    assert_eq!(used(&quick).await, 18, "the new day is charged, and only that");
    exceeded(&slow, 1).await;
    assert_eq!(
        slow.refund(&before).await.unwrap(),
        RefundOutcome::Over,
        "yesterday's goes nowhere"
    );
    assert_eq!(used(&quick).await, 18);
}

/// CLAIM-12: midnight is the zone's, and a day with a clock change has 25 hours.
#[tokio::test]
async fn a_quota_of_a_day_lasts_as_long_as_the_day() {
    let (clock, tidelock) = at("2026-10-24T22:00:00Z");
    let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let quota = points(&tidelock, 18).per(Period::Day).zone(berlin);
    taken(&quota, 18).await;
    clock.advance(Duration::from_secs(25 * 3600 - 1));
    assert_eq!(exceeded(&quota, 1).await.resets_at, Some("2026-10-25T23:00:00Z".parse().unwrap()));
    clock.advance(Duration::from_secs(1));
    taken(&quota, 18).await;
    exceeded(&quota, 1).await;
}
