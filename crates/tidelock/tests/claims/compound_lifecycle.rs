//! Compound claims: parts that are acquired together are released together, and every caller sees
//! the same state.

use std::time::Duration;

use serde_json::Value;
use tidelock::claims::ClaimError;
use tidelock::claims::Claims;
use tidelock::claims::{
    Compound, CompoundGuard, Lock, Period, Quota, Refusal, RefusalReason, TimeZone,
};
use tidelock::prelude::*;
use tidelock::store::{Commit, Fence, RecordQuery, StoreErrorKind, StoreExt, limits};
use tidelock_test_stage::{Observed, PATIENCE, Pause, TestStore, on_every_store, until};

use crate::lost_replies::LostReplies;

const MINUTE: Duration = Duration::from_secs(60);

fn points(claims: &Claims) -> Quota {
    claims.quota("points", 10).of("child-7")
}

/// A key, a lock and all of a quota, under one lease.
fn award(claims: &Claims, lease: Duration) -> Compound {
    claims
        .claim_all()
        .idempotency(&claims.idempotency("award:1").lease(lease))
        .lock(&claims.lock("child-7").lease(lease))
        .quota(&points(claims), 10)
}

async fn won(compound: &Compound) -> CompoundGuard {
    compound.claim().await.unwrap().granted().unwrap()
}

async fn used(claims: &Claims) -> i64 {
    points(claims).usage().await.unwrap().used
}

/// Waits until the compound can be acquired again; until then all of its parts conflict, not only
/// some.
pub(crate) async fn won_again(compound: &Compound) -> CompoundGuard {
    let again = std::sync::Mutex::new(None);
    until("all of it came back", async || {
        let won = match compound.claim().await.unwrap() {
            Outcome::Granted(all) => Some(all),
            Outcome::Refused(all) if kinds(&all) == ["idempotency", "lock", "quota"] => None,
            // The lease expired between the reads of two parts, so it has expired for all of them.
            Outcome::Refused(_) => Some(won(compound).await),
        };
        *again.lock().unwrap() = won;
        again.lock().unwrap().is_some()
    })
    .await;
    again.into_inner().unwrap().unwrap()
}

fn kinds(refusals: &[Refusal]) -> Vec<&'static str> {
    refusals.iter().map(|refusal| refusal.key.kind()).collect()
}

/// Schedule 110. CLAIM-14: a dropped holder.
async fn a_dropped_compound_is_free_after_its_lease(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let all = award(&claims, stage.lease());
    drop(won(&all).await);
    assert_eq!(
        used(&claims).await,
        10,
        "how far the work has come is not known before the lease ends"
    );
    let mut again = won_again(&all).await;
    again.complete("awarded").await.unwrap();
    assert_eq!(used(&claims).await, 10, "charged once");
}

/// Schedule 110. CLAIM-14: a holder that stalls past its lease completes nothing, and releases
/// nothing.
async fn a_compound_of_a_stalled_holder_is_free_after_its_lease(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let gate = Pause::over(&tidelock);
    let slow = Tidelock::over(gate.clone()).claims();
    let mut late = won(&award(&slow, stage.lease())).await;
    gate.stop();
    let mut again = won_again(&award(&tidelock.claims(), stage.lease())).await;
    gate.go_on();
    let refused = late.complete("late").await.unwrap_err();
    assert!(matches!(refused, ClaimError::Lost { .. } | ClaimError::Settled { .. }), "{refused}");
    assert!(late.release().await.is_err());
    assert_eq!(used(&tidelock.claims()).await, 10, "the second one's units are still drawn");
    again.complete("awarded").await.unwrap();
    assert_eq!(used(&tidelock.claims()).await, 10);
}

/// CLAIM-14: work that outlasts a lease keeps all parts, units included.
async fn a_compound_keeps_its_units_for_as_long_as_it_works(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (claims, lease) = (tidelock.claims(), stage.lease());
    let mut all = won(&award(&claims, lease)).await;
    let end = tidelock.store().now().await.unwrap().plus(lease * 3);
    until("three leases have passed", async || {
        assert!(matches!(points(&claims).take(1).await.unwrap(), Outcome::Refused(_)));
        tidelock.store().now().await.unwrap() > end
    })
    .await;
    assert!(!all.lost().is_cancelled());
    all.complete("awarded").await.unwrap();
    let grant = all.grants().next().unwrap().clone();
    assert_eq!(used(&claims).await, 10);
    points(&claims).refund(&grant).await.unwrap();
    assert_eq!(used(&claims).await, 0);
}

/// CLAIM-14. CLAIM-13: reserved units cannot be refunded like granted ones.
async fn units_of_a_compound_go_back_once(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let all = won(&award(&claims, MINUTE)).await;
    let grant = all.grants().next().unwrap().clone();
    let refused = points(&claims).refund(&grant).await.unwrap_err();
    assert!(refused.to_string().contains("not confirmed"), "{refused}");
    assert_eq!(used(&claims).await, 10);
    all.release().await.unwrap();
    assert_eq!(used(&claims).await, 0);
    let locks = claims.claim_all().lock(&claims.lock("child-7")).quota(&points(&claims), 10);
    drop(won(&locks).await);
    until("locks and units went back at once", async || used(&claims).await == 0).await;
    drop(won(&locks.within(PATIENCE)).await);
    let quotas = claims.claim_all().quota(&points(&claims), 3).quota(&claims.quota("other", 5), 5);
    until("there is enough", async || used(&claims).await == 0).await;
    let mut all = won(&quotas).await;
    all.complete(&()).await.unwrap();
    assert_eq!(used(&claims).await, 3, "a compound of quotas alone is confirmed by completing it");
}

/// CLAIM-7. CLAIM-14.
async fn a_compound_survives_lost_replies(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let claims = LostReplies::over(&tidelock).claims();
    let mut all = won(&award(&claims, MINUTE)).await;
    all.complete("awarded").await.unwrap();
    assert_eq!(used(&claims).await, 10);
    points(&claims).refund(all.grants().next().unwrap()).await.unwrap();
    let other = claims.claim_all().lock(&claims.lock("child-7")).quota(&points(&claims), 10);
    won(&other).await.release().await.unwrap();
    assert_eq!(used(&claims).await, 0);
}

fn door(tidelock: &Tidelock) -> Lock {
    tidelock.claims().lock("door").within(PATIENCE).lease(Duration::from_secs(20))
}

async fn waiting(tidelock: &Tidelock, lock: &str) -> usize {
    let places = RecordQuery::prefix(format!("~claim-place/lock/{lock}/"));
    tidelock.store().rows(places).all().await.unwrap().len()
}

/// Schedule 111. CLAIM-11: a compound queues behind earlier waiters, and before later ones.
async fn a_compound_queues_for_its_locks(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (served, first) =
        (Observed::default(), door(&tidelock).acquire().await.unwrap().granted().unwrap());
    let mut callers = Vec::new();
    for nth in 0..6 {
        let (other, served) = (stage.tidelock().await, served.clone());
        callers.push(tokio::spawn(async move {
            if nth == 4 {
                let claims = other.claims();
                let both = claims.claim_all().lock(&door(&other)).lock(&claims.lock("window"));
                let mut all = won(&both.within(PATIENCE)).await;
                served.note("compound");
                return all.complete(&()).await.unwrap();
            }
            let guard = door(&other).acquire().await.unwrap().granted().unwrap();
            served.note(format!("{nth}"));
            guard.release().await.unwrap();
        }));
        until("it stands in line", async || waiting(&tidelock, "door").await == nth + 1).await;
    }
    let claims = tidelock.claims();
    let Outcome::Refused(refusals) = claims
        .claim_all()
        .lock(&claims.lock("window"))
        .lock(&claims.lock("door"))
        .claim()
        .await
        .unwrap()
    else {
        panic!("others stand in line")
    };
    assert!(
        refusals.iter().all(|refusal| matches!(refusal.why, RefusalReason::Held { .. })),
        "{refusals:?}"
    );
    first.release().await.unwrap();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(served.lines(), ["0", "1", "2", "3", "compound", "5"]);
    assert_eq!((waiting(&tidelock, "door").await, waiting(&tidelock, "window").await), (0, 0));
}

/// Schedule 113. CLAIM-1: a repeated completion returns the first result.
async fn a_claim_that_is_completed_twice_keeps_the_first_result(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let key = |tidelock: &Tidelock, key: &str| tidelock.claims().idempotency(key).lease(MINUTE);
    let claimed = async |name: &str| match key(&here, name).claim::<u32>().await.unwrap() {
        IdempotencyClaim::Won(won) => won,
        other => panic!("{other:?}"),
    };
    let won = claimed("a").await;
    assert_eq!((won.complete(&1).await.unwrap(), won.complete(&2).await.unwrap()), (1, 1));
    let refused = won.complete_with(&3, Commit::new()).await.unwrap_err();
    assert!(matches!(refused, ClaimError::Over { .. }), "{refused}");
    assert!(matches!(won.fail("no").await, Err(ClaimError::Over { .. })));
    // By its fence, in another process, before and after.
    let won = claimed("b").await;
    let by_fence = key(&there, "b").attach(won.fence());
    by_fence.complete(&1).await.unwrap();
    assert_eq!(won.complete(&2).await.unwrap(), 1);
    let won = claimed("c").await;
    let by_fence = key(&there, "c").attach(won.fence());
    assert_eq!(won.complete(&1).await.unwrap(), 1);
    assert!(matches!(by_fence.complete(&2).await, Err(ClaimError::Over { .. })));
    let won = claimed("d").await;
    key(&there, "d").attach(won.fence()).fail("no").await.unwrap();
    assert!(matches!(won.complete(&2).await, Err(ClaimError::Failed { .. })));
    let won = claimed("e").await;
    key(&there, "e").attach(won.fence()).release().await.unwrap();
    assert!(matches!(won.complete(&2).await, Err(ClaimError::Over { .. })));
    for name in ["a", "b", "c"] {
        let IdempotencyClaim::Done(result) = key(&there, name).claim::<u32>().await.unwrap() else {
            panic!("{name}")
        };
        assert_eq!(result, 1, "{name}");
    }
    // The same for a compound.
    let claims = here.claims();
    let mut all = self::won(&claims.claim_all().idempotency(&key(&here, "f"))).await;
    all.complete(&1).await.unwrap();
    assert!(matches!(all.complete(&2).await, Err(ClaimError::Over { .. })));
    let IdempotencyClaim::Done(result) = key(&there, "f").claim::<u32>().await.unwrap() else {
        panic!()
    };
    assert_eq!(result, 1);
}

/// CLAIM-8: a period's text is not part of the scope, and a day in one zone is not a day in
/// another.
async fn quotas_and_singletons_of_other_periods_and_zones_are_others(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let quota = || claims.quota("points", 1).of("child-7");
    let zones = ["CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0"]
        .map(|tz| TimeZone::posix(tz).unwrap());
    let mut quotas = vec![
        quota(),
        quota().of("per day"),
        quota().per(Period::Day),
        quota().per(Period::Year),
        quota().of("per day").per(Period::Day),
        quota().of("%70er day"),
        quota().per(Period::Every(MINUTE)),
        quota().per(Period::Day).zone(TimeZone::get("Europe/Berlin").unwrap()),
        quota().per(Period::Day).zone(TimeZone::posix("<+05>-5").unwrap()),
    ];
    quotas.extend(zones.iter().map(|zone| quota().per(Period::Day).zone(zone.clone())));
    for quota in &quotas {
        assert!(matches!(quota.take(1).await.unwrap(), Outcome::Granted(_)), "{:?}", quota.key());
    }
    // A zone has no effect without a calendar period.
    let ever = quota().zone(zones[0].clone());
    assert!(matches!(ever.take(1).await.unwrap(), Outcome::Refused(_)));
    let today = stage.tidelock().await.store().now().await.unwrap().to_string()[..10].to_owned();
    let single = || claims.singleton("prayer");
    let mut singles = vec![single().of(today), single().per(Period::Day), single()];
    singles.extend(zones.iter().map(|zone| single().per(Period::Day).zone(zone.clone())));
    for (nth, single) in singles.iter().enumerate() {
        assert!(
            matches!(single.take(&nth).await.unwrap(), Outcome::Granted(())),
            "the one at {nth}"
        );
    }
}

/// CLAIM-22: a lease of zero or of absurd length is refused before anything is written.
async fn leases_of_no_time_and_of_absurd_length_are_refused(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let long = limits::LEASE_DURATION + Duration::from_micros(1);
    for lease in [Duration::ZERO, Duration::from_nanos(999), long, Duration::MAX] {
        let refused = [
            claims.lock("door").lease(lease).acquire().await.map(drop),
            claims.idempotency("k").lease(lease).claim::<Value>().await.map(drop),
            claims.singleton("s").lease(lease).claim::<Value>().await.map(drop),
            points(&claims).reserve(1, lease).await.map(drop),
            claims.claim_all().lock(&claims.lock("door").lease(lease)).claim().await.map(drop),
            claims.lock("door").attach(Fence::new(1).unwrap()).renew(lease).await.map(drop),
        ];
        for (nth, refused) in refused.into_iter().enumerate() {
            let Err(ClaimError::Store(error)) = refused else {
                panic!("{nth} took a lease of {lease:?}")
            };
            assert!(
                matches!(error.kind(), StoreErrorKind::Invalid | StoreErrorKind::LimitExceeded),
                "{error}"
            );
            assert!(
                error.to_string().contains("lease") || error.to_string().contains("life"),
                "{error}"
            );
        }
    }
    let never = claims.rate("logins", 1, Duration::ZERO).take(1).await.unwrap_err();
    assert!(matches!(never, ClaimError::Store(_)), "{never}");
    assert!(claims.list("").all().await.unwrap().is_empty());
    assert!(claims.quotas("").all().await.unwrap().is_empty());
    let longest = claims.lock("door").lease(limits::LEASE_DURATION);
    longest.acquire().await.unwrap().granted().unwrap().release().await.unwrap();
}

/// CLAIM-22. The duplicate part is named as its caller names it, and nothing is written.
async fn a_compound_with_the_same_right_twice_is_refused(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let (lock, key) = (claims.lock("till"), claims.idempotency("pay:42"));
    let (single, quota) = (claims.singleton("prayer").per(Period::Day), claims.quota("points", 5));
    let today = stage.tidelock().await.store().now().await.unwrap().to_string()[..10].to_owned();
    let twice = [
        (claims.claim_all().lock(&lock).lock(&lock), "lock/till".to_owned()),
        (
            claims.claim_all().idempotency(&key).lock(&lock).idempotency(&key),
            "idempotency/pay:42".to_owned(),
        ),
        (
            claims.claim_all().singleton(&single).singleton(&single),
            format!("singleton/prayer/per day/{today}"),
        ),
        (
            claims.claim_all().lock(&lock).quota(&quota, 1).quota(&quota, 2),
            "quota/points".to_owned(),
        ),
    ];
    for (compound, name) in twice {
        let refused = compound.claim().await.unwrap_err().to_string();
        assert!(
            refused.contains(&format!("claim {name:?}: it is there twice in one compound")),
            "{refused}"
        );
    }
    assert!(claims.list("").all().await.unwrap().is_empty());
    assert!(claims.quotas("").all().await.unwrap().is_empty());
}

/// CLAIM-22. A negative limit is an error, not an empty quota.
async fn a_quota_of_less_than_nothing_is_refused(stage: TestStore) {
    let claims = stage.tidelock().await.claims();
    let (quota, lock) = (claims.quota("points", -1), claims.lock("till"));
    let refused = [
        quota.take(1).await.map(drop),
        quota.take(0).await.map(drop),
        quota.reserve(1, MINUTE).await.map(drop),
        quota.usage().await.map(drop),
        claims.claim_all().lock(&lock).quota(&quota, 1).claim().await.map(drop),
    ];
    for refused in refused {
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("claim \"quota/points\": a limit of -1; a quota has one of 0 or more"),
            "{refused}"
        );
    }
    assert!(claims.list("").all().await.unwrap().is_empty());
    assert!(claims.quotas("").all().await.unwrap().is_empty());
    assert!(matches!(claims.quota("points", 0).take(1).await.unwrap(), Outcome::Refused(_)));
}

on_every_store!(
    a_compound_with_the_same_right_twice_is_refused,
    a_quota_of_less_than_nothing_is_refused,
    a_dropped_compound_is_free_after_its_lease,
    a_compound_of_a_stalled_holder_is_free_after_its_lease,
    a_compound_keeps_its_units_for_as_long_as_it_works,
    units_of_a_compound_go_back_once,
    a_compound_survives_lost_replies,
    a_compound_queues_for_its_locks,
    a_claim_that_is_completed_twice_keeps_the_first_result,
    quotas_and_singletons_of_other_periods_and_zones_are_others,
    leases_of_no_time_and_of_absurd_length_are_refused,
);
