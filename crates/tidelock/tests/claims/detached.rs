//! Detached claims: won in one process, continued in another with nothing but key and fence.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::ClaimError;
use tidelock::claims::{ClaimState, Handoff, Peek, ReservationToken};
use tidelock::prelude::*;
use tidelock::store::{Fence, Result, StoreOperation};
use tidelock_test_stage::{Interceptor, PATIENCE, TestStore, Wrapped, on_every_store, until};
use tokio::sync::Semaphore;

/// Expires immediately.
const INSTANT: Duration = Duration::from_millis(5);
const MINUTE: Duration = Duration::from_secs(60);

async fn won(tidelock: &Tidelock, lease: Duration) -> Handoff {
    let claim = tidelock.claims().idempotency("pay:42").lease(lease).ttl(MINUTE);
    match claim.claim::<Value>().await.unwrap() {
        IdempotencyClaim::Won(won) => won.detach(),
        other => panic!("{other:?}"),
    }
}

async fn won_again_later(tidelock: &Tidelock) -> Handoff {
    let claim = tidelock.claims().idempotency("pay:42").lease(MINUTE);
    let won = std::sync::Mutex::new(None);
    until("it is free", async || {
        let claimed = claim.claim::<Value>().await.unwrap();
        let IdempotencyClaim::Won(again) = claimed else { return false };
        *won.lock().unwrap() = Some(again.detach());
        true
    })
    .await;
    won.into_inner().unwrap().unwrap()
}

/// CLAIM-17.
async fn a_detached_lock_is_held_by_its_fence(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let lock =
        |tidelock: &Tidelock| tidelock.claims().lock("door").lease(MINUTE).retry(Retry::never());
    let passed = lock(&here).acquire().await.unwrap().granted().unwrap().detach();
    let holder = lock(&there).holder().await.unwrap().unwrap();
    assert_eq!((holder.fence, holder.until), (passed.fence, Some(passed.until)));
    drop(lock(&there).attach(passed.fence));
    assert!(lock(&there).acquire().await.unwrap().granted().is_err(), "it was not released");
    let until = lock(&there).attach(passed.fence).renew(2 * MINUTE).await.unwrap();
    assert!(until > passed.until);
    let foreign = Fence::new(passed.fence.get() + 7).unwrap();
    assert!(matches!(lock(&there).attach(foreign).release().await, Err(ClaimError::Lost { .. })));
    lock(&there).attach(passed.fence).release().await.unwrap();
    lock(&here).attach(passed.fence).release().await.expect("asked for again, it says the same");
    assert_eq!(lock(&there).holder().await.unwrap(), None);
    let next = lock(&there).acquire().await.unwrap().granted().unwrap().detach();
    assert!(next.fence > passed.fence);
    assert!(matches!(
        lock(&here).attach(passed.fence).release().await,
        Err(ClaimError::Lost { .. })
    ));
    assert!(lock(&here).holder().await.unwrap().is_some(), "an old fence gives nothing back");
}

/// CLAIM-17, CLAIM-4: the result's TTL is the one set when the key was claimed.
async fn detached_work_is_completed_elsewhere(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let passed = won(&here, MINUTE).await;
    let work = there.claims().idempotency("pay:42").attach(passed.fence);
    work.renew(MINUTE).await.unwrap();
    work.complete(&json!({ "receipt": 7, "to": "ada" })).await.unwrap();
    work.complete(&json!({ "to": "ada", "receipt": 7 })).await.expect("the first reply was lost");
    for refused in [
        work.complete(&json!(8)).await,
        work.fail("no").await,
        work.release().await,
        work.renew(MINUTE).await.map(drop),
    ] {
        assert!(matches!(refused, Err(ClaimError::Over { .. })), "{refused:?}");
    }
    let IdempotencyClaim::Done(done) =
        here.claims().idempotency("pay:42").claim::<Value>().await.unwrap()
    else {
        panic!()
    };
    assert_eq!(done["receipt"], 7);
    let listed = here.claims().list("idempotency/").all().await.unwrap();
    assert!(listed[0].until.is_some() && listed[0].state == ClaimState::Done, "{listed:?}");
}

/// CLAIM-17, CLAIM-3.
async fn a_late_holder_completes_nothing(stage: TestStore) {
    let (slow, quick) = (stage.tidelock().await, stage.tidelock().await);
    let late = won(&slow, INSTANT).await;
    let again = won_again_later(&quick).await;
    assert!(again.fence > late.fence);
    let work = slow.claims().idempotency("pay:42").attach(late.fence);
    for refused in
        [work.complete(&json!(1)).await, work.release().await, work.renew(MINUTE).await.map(drop)]
    {
        assert!(matches!(refused, Err(ClaimError::Lost { .. })), "{refused:?}");
    }
    let work = quick.claims().idempotency("pay:42").attach(again.fence);
    work.complete(&json!(2)).await.unwrap();
    let Peek::Done(done) = slow.claims().idempotency("pay:42").peek::<Value>().await.unwrap()
    else {
        panic!()
    };
    assert_eq!(done, 2);
}

/// CLAIM-17: a late holder that was not replaced still completes.
async fn a_late_holder_that_was_not_replaced_completes(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let late = won(&tidelock, INSTANT).await;
    let key = tidelock.claims().idempotency("pay:42");
    until("the lease has run out", async || {
        matches!(key.peek::<Value>().await.unwrap(), Peek::Free)
    })
    .await;
    key.attach(late.fence).renew(MINUTE).await.unwrap();
    assert!(matches!(key.peek::<Value>().await.unwrap(), Peek::Held(..)));
    key.attach(late.fence).complete(&json!("late")).await.unwrap();
}

/// CLAIM-18.
async fn a_peek_claims_nothing_and_returns_the_state(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let key = tidelock.claims().idempotency("pay:42");
    assert!(matches!(key.peek::<Value>().await.unwrap(), Peek::Free));
    let passed = won(&tidelock, MINUTE).await;
    let Peek::Held(holder, fence) = key.peek::<Value>().await.unwrap() else { panic!() };
    assert_eq!((holder.until(), fence), (Some(passed.until), passed.fence));
    let waiting = async { holder.wait(PATIENCE).await };
    let failing = async { key.attach(fence).fail("no funds").await.unwrap() };
    let (waited, ()) = tokio::join!(waiting, failing);
    assert!(matches!(waited, Err(ClaimError::Failed { error, .. }) if error == "no funds"));
    assert!(
        matches!(key.peek::<Value>().await.unwrap(), Peek::Failed(error) if error == "no funds")
    );
}

/// CLAIM-19.
async fn a_reservation_is_continued_by_its_token(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    let quota = |tidelock: &Tidelock| tidelock.claims().quota("seats", 5).of("boat-3");
    let reserve = async || match quota(&here).reserve(3, MINUTE).await.unwrap() {
        Outcome::Granted(reservation) => serde_json::to_string(&reservation.token()).unwrap(),
        Outcome::Refused(exceeded) => panic!("{exceeded}"),
    };
    let voucher: ReservationToken = serde_json::from_str(&reserve().await).unwrap();
    quota(&there).attach(&voucher).unwrap().refund().await.unwrap();
    let voucher: ReservationToken = serde_json::from_str(&reserve().await).unwrap();
    let grant = quota(&there).attach(&voucher).unwrap().confirm().await.unwrap();
    assert_eq!((grant.units, quota(&here).usage().await.unwrap().used), (3, 3));
    there
        .claims()
        .quota("seats", 5)
        .of("boat-4")
        .attach(&voucher)
        .expect_err("it is another boat's");
    let listed = here.claims().quotas("quota/seats/").all().await.unwrap();
    assert_eq!(
        (listed.len(), listed[0].key.as_str(), listed[0].used),
        (1, "quota/seats/boat-3", 3)
    );
}

/// CLAIM-16: one page at a time.
async fn claims_are_listed_page_by_page(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for name in ["a", "b", "c"] {
        let lock = tidelock.claims().lock(name).lease(MINUTE).acquire().await.unwrap();
        let _held = lock.granted().unwrap().detach();
    }
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = tidelock.claims().list("lock/").after(after).limit(2).await.unwrap();
        assert!(page.items.iter().all(|claim| claim.state == ClaimState::Pending));
        assert!(page.items.len() == 2 || page.next.is_none(), "a page is full while there is more");
        keys.extend(page.items.into_iter().map(|claim| claim.key));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(keys, ["lock/a", "lock/b", "lock/c"]);
}

/// Lets commits land, and delays their replies until it is allowed.
#[derive(Debug)]
struct SlowAnswers {
    landed: Arc<Semaphore>,
    allowed: Arc<Semaphore>,
}

impl Interceptor for SlowAnswers {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = call.await;
        if operation == StoreOperation::Commit {
            self.landed.add_permits(1);
            self.allowed.acquire().await.unwrap().forget();
        }
        answer
    }
}

/// CLAIM-20: not even after the store has granted it.
async fn a_cancelled_acquire_holds_no_lock(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (landed, allowed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let between = SlowAnswers { landed: landed.clone(), allowed: allowed.clone() };
    let slow = Tidelock::over(Wrapped::new(tidelock.store().clone(), between));
    let asking =
        tokio::spawn(async move { slow.claims().lock("door").lease(10 * MINUTE).acquire().await });
    landed.acquire().await.unwrap().forget();
    let door = tidelock.claims().lock("door");
    assert!(door.holder().await.unwrap().is_some());
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    allowed.add_permits(Semaphore::MAX_PERMITS >> 1);
    until("it was given back", async || door.holder().await.unwrap().is_none()).await;
}

/// CLAIM-20. CLAIM-21: it may already belong to a retry.
async fn a_lock_with_an_operation_id_is_left_for_a_retry(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (landed, allowed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let between = SlowAnswers { landed: landed.clone(), allowed: allowed.clone() };
    let slow = Tidelock::over(Wrapped::new(tidelock.store().clone(), between));
    let door = |tidelock: &Tidelock| {
        tidelock.claims().operation_id("a").lock("door").lease(10 * MINUTE).retry(Retry::never())
    };
    let asked = door(&slow);
    drop(slow);
    let asking = tokio::spawn(async move { asked.acquire().await });
    landed.acquire().await.unwrap().forget();
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    let passed = door(&tidelock).acquire().await.unwrap().granted().unwrap().detach();
    allowed.add_permits(Semaphore::MAX_PERMITS >> 1);
    until("the first one is gone", async || Arc::strong_count(&landed) == 1).await;
    assert_eq!(
        door(&tidelock).holder().await.unwrap().map(|holder| holder.fence),
        Some(passed.fence)
    );
}

on_every_store!(
    a_cancelled_acquire_holds_no_lock,
    a_lock_with_an_operation_id_is_left_for_a_retry,
    a_detached_lock_is_held_by_its_fence,
    detached_work_is_completed_elsewhere,
    a_late_holder_completes_nothing,
    a_late_holder_that_was_not_replaced_completes,
    a_peek_claims_nothing_and_returns_the_state,
    a_reservation_is_continued_by_its_token,
    claims_are_listed_page_by_page,
);
