//! Clients that disconnect, and processes that stall.

use std::time::Duration;

use tidelock::Tidelock;
use tidelock_test_stage::{Pause, TestStore, on_every_store, until};

use crate::client::{answered, ask, ask_until_answered, begin, pay};
use crate::till::{INSTANT, Till, keys};

/// CLAIM-52. The work continues, and a retry gets its response.
async fn work_continues_after_its_client_disconnects(stage: TestStore) {
    let till = Till::shut();
    let app = till.app(keys(&stage.tidelock().await));
    let client = begin(&app, pay("k", "7"));
    till.effects.until(1).await;
    client.abort();
    assert!(client.await.is_err_and(|e| e.is_cancelled()));
    assert!(ask(&app, pay("k", "7")).await.is_in_progress());
    till.open_up();
    let again = ask_until_answered(&app, "k", "7").await;
    assert_eq!((again.told(), again.is_replay()), ((201, "payment 1 of 7"), true));
    assert_eq!(till.effects.count(), 1);
}

/// CLAIM-53. The lease is renewed for as long as the handler takes.
async fn a_handler_that_outlasts_its_lease_keeps_its_key(stage: TestStore) {
    let till = Till::shut();
    let tidelock = stage.tidelock().await;
    let lease = Duration::from_secs(6);
    let app = till.app(keys(&tidelock).lease(lease));
    let first = begin(&app, pay("k", "7"));
    till.effects.until(1).await;
    let record = tidelock::store::RecordKey::new("~claim/idempotency/http::k/").unwrap();
    let ends = async || {
        use tidelock::store::StoreExt;
        tidelock.store().get_one(&record).await.unwrap().live().unwrap().expires_at
    };
    let begun = ends().await;
    until("the lease was renewed", async || ends().await > begun).await;
    assert!(ask(&app, pay("k", "7")).await.is_in_progress());
    till.open_up();
    assert_eq!((answered(first).await.status, till.effects.count()), (201, 1));
}

/// Schedule 59. CLAIM-53. Its response never replaces the new holder's, and its client is told to
/// retry.
async fn the_response_of_a_replaced_handler_is_discarded(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (slow, quick) = (Till::shut(), Till::open());
    let process = Pause::over(&tidelock);
    let here = slow.app(keys(&Tidelock::over(process.clone())).lease(INSTANT));
    let there = quick.app(keys(&tidelock));
    let first = begin(&here, pay("k", "7"));
    slow.effects.until(1).await;
    process.stop();
    let second = ask_until_answered(&there, "k", "7").await;
    assert_eq!((second.told(), second.is_replay()), ((201, "payment 1 of 7"), false));
    slow.open_up();
    process.go_on();
    answered(first).await.refused(409, "in-progress");
    assert!(ask(&there, pay("k", "7")).await.is_replay());
    assert_eq!(quick.effects.count(), 1);
}

/// CLAIM-53.
async fn a_handler_whose_key_is_lost_is_stopped(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let (stuck, quick) = (Till::shut(), Till::open());
    let process = Pause::over(&tidelock);
    let here = stuck.app(keys(&Tidelock::over(process.clone())).lease(INSTANT));
    let there = quick.app(keys(&tidelock));
    let first = begin(&here, pay("k", "7"));
    stuck.effects.until(1).await;
    process.stop();
    ask_until_answered(&there, "k", "7").await;
    process.go_on();
    assert_eq!(answered(first).await.problem().0, 409, "although the handler never finished");
}

on_every_store!(
    work_continues_after_its_client_disconnects,
    a_handler_that_outlasts_its_lease_keeps_its_key,
    the_response_of_a_replaced_handler_is_discarded,
    a_handler_whose_key_is_lost_is_stopped,
);
