//! Claims, locks and quotas: lists, and releasing abandoned claims.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::{ClaimState, OnFailure, Period};
use tidelock::prelude::*;
use tidelock_test_stage::until;

use crate::harness::Shop;

on_files_and_postgres!(
    claims_and_locks_are_listed_with_holders_and_results,
    quotas_are_listed_with_their_use,
    only_an_abandoned_claim_is_released,
);

/// A process wins a claim and a lock, and dies.
pub(crate) fn dies_at_claims(shop: &Shop) {
    let dying = tokio::runtime::Runtime::new().unwrap();
    dying.block_on(async {
        let claims = Tidelock::open(&shop.url).await.unwrap().claims().by("alice");
        let lease = Duration::from_millis(50);
        let pay = claims.idempotency("pay:42").lease(lease).claim::<Value>().await.unwrap();
        let till = claims.lock("till").lease(lease).acquire().await.unwrap();
        // A dead process releases nothing.
        std::mem::forget((pay, till));
    });
    dying.shutdown_background();
    shop.with(|store| async move {
        let claims = Tidelock::over(store).claims();
        until("both leases have expired", async || {
            let listed = claims.list("").all().await.unwrap();
            listed.iter().filter(|claim| claim.state == ClaimState::Stale).count() == 2
        })
        .await;
    });
}

/// CMD-8.
fn claims_and_locks_are_listed_with_holders_and_results(shop: &Shop) {
    dies_at_claims(shop);
    let (told, table, locks) = shop.with(|store| async {
        let claims = Tidelock::over(store).claims().by("bob");
        let once = |key: &str| claims.idempotency(key).on_failure(OnFailure::Remember);
        let IdempotencyClaim::Won(done) = once("done").claim::<Value>().await.unwrap() else {
            panic!("it is free")
        };
        done.complete(&json!("receipt")).await.unwrap();
        let IdempotencyClaim::Won(failed) = once("failed").claim::<Value>().await.unwrap() else {
            panic!("it is free")
        };
        failed.fail("no such card").await.unwrap();
        let _held = claims.lock("gate").lease(crate::harness::PATIENCE).acquire().await.unwrap();
        (
            shop.json(&["claims"]),
            shop.ok(&["claims"]),
            shop.json(&["claims", "lock/", "--state", "pending"]),
        )
    });
    let rows: Vec<_> = told
        .iter()
        .map(|row| ["key", "state", "by"].map(|field| row[field].as_str().unwrap()).join(" "))
        .collect();
    assert_eq!(
        rows,
        [
            "idempotency/done done bob",
            "idempotency/failed failed bob",
            "idempotency/pay:42 stale alice",
            "lock/gate pending bob",
            "lock/till stale alice"
        ]
    );
    assert_eq!(told[1]["error"], json!("no such card"));
    assert!(told[3]["since"].is_string() && told[3]["until"].is_string(), "{told:?}");
    assert!(!shop.ok(&["claims", "--json"]).contains("receipt"), "results are not listed");
    assert!(table.starts_with("CLAIM") && table.contains("expired"), "{table}");
    assert_eq!(locks.len(), 1, "{locks:?}");
    assert_eq!(shop.json(&["claims", "--state", "stale", "--state", "failed"]).len(), 3);
    let page = shop.run(&["claims", "--limit", "1"]);
    assert!(page.err.contains("there may be more"), "{page:?}");
    let none = shop.run(&["claims", "unknown"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("no such claim"), "{none:?}");
}

/// CMD-8.
fn quotas_are_listed_with_their_use(shop: &Shop) {
    shop.with(|store| async move {
        let claims = Tidelock::over(store).claims();
        let _taken = claims.quota("mails", 100).of("joe").per(Period::Year).take(3).await.unwrap();
        let _kept = claims.quota("seats", 18).reserve(2, crate::harness::PATIENCE).await.unwrap();
    });
    let quotas = shop.json(&["claims", "--quotas"]);
    assert_eq!(quotas.len(), 2, "{quotas:?}");
    assert_eq!(
        (&quotas[0]["key"], &quotas[0]["used"]),
        (&json!("quota/mails/joe/per year"), &json!(3))
    );
    assert_eq!((&quotas[1]["used"], &quotas[1]["resets_at"]), (&json!(2), &Value::Null));
    let table = shop.ok(&["claims", "quota/mails", "--quotas"]);
    assert!(
        table.starts_with("QUOTA") && table.contains("in ") && !table.contains("seats"),
        "{table}"
    );
}

/// CMD-8.
fn only_an_abandoned_claim_is_released(shop: &Shop) {
    dies_at_claims(shop);
    let freed = shop.ok(&["release", "idempotency/pay:42"]);
    assert_eq!(freed, "claim \"idempotency/pay:42\" is released; its last holder was \"alice\"\n");
    assert!(shop.json(&["claims", "idempotency/"]).is_empty());
    let again = shop.run(&["release", "idempotency/pay:42"]);
    assert_eq!((again.code, again.err.contains("it is not held")), (4, true), "{again:?}");
    let (held, done) = shop.with(|store| async {
        let claims = Tidelock::over(store).claims().by("bob");
        let pay = claims.idempotency("pay:42");
        let IdempotencyClaim::Won(won) = pay.claim::<Value>().await.unwrap() else {
            panic!("it is free")
        };
        let held = shop.run(&["release", "idempotency/pay:42"]);
        won.complete(&json!("receipt")).await.unwrap();
        (held, shop.run(&["release", "idempotency/pay:42"]))
    });
    assert_eq!((held.code, held.err.contains("held by \"bob\"")), (4, true), "{held:?}");
    assert_eq!((done.code, done.err.contains("its result is kept")), (4, true), "{done:?}");
    assert_eq!(shop.json(&["claims", "idempotency/"])[0]["state"], json!("done"));
}
