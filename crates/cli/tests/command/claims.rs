//! Claims, locks and quotas, shown; and claims of the dead, freed.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::{ClaimState, OnFailure, Period};
use tidelock::prelude::*;
use tidelock_test_stage::until;

use crate::ground::Shop;

on_files_and_postgres!(
    claims_and_locks_are_shown_with_who_has_them_and_what_came_of_them,
    quotas_are_shown_with_how_much_is_taken,
    a_claim_is_freed_if_its_claimant_is_gone_and_not_otherwise,
);

/// Somebody wins a claim and a lock, and dies.
pub(crate) fn dies_at_claims(shop: &Shop) {
    let dying = tokio::runtime::Runtime::new().unwrap();
    dying.block_on(async {
        let claims = Tidelock::open(&shop.url).await.unwrap().claims().by("alice").unwrap();
        let lease = Duration::from_millis(50);
        let pay = claims.idempotency("pay:42").lease(lease).claim::<Value>().await.unwrap();
        let till = claims.lock("till").lease(lease).acquire().await.unwrap();
        // The dead let go of nothing.
        std::mem::forget((pay, till));
    });
    dying.shutdown_background();
    shop.with(|store| async move {
        let claims = Tidelock::over(store).claims();
        until("both leases have run out", async || {
            let listed = claims.list("", None, 10).await.unwrap().claims;
            listed.iter().filter(|claim| claim.state == ClaimState::Stale).count() == 2
        })
        .await;
    });
}

/// CMD-8.
fn claims_and_locks_are_shown_with_who_has_them_and_what_came_of_them(shop: &Shop) {
    dies_at_claims(shop);
    let (told, table, locks) = shop.with(|store| async {
        let claims = Tidelock::over(store).claims().by("bob").unwrap();
        let once = |key: &str| claims.idempotency(key).on_failure(OnFailure::Remember);
        let IdempotencyClaim::Won(done) = once("done").claim::<Value>().await.unwrap() else {
            panic!("it is free")
        };
        done.complete(&json!("receipt")).await.unwrap();
        let IdempotencyClaim::Won(failed) = once("failed").claim::<Value>().await.unwrap() else {
            panic!("it is free")
        };
        failed.fail("no such card").await.unwrap();
        let _held = claims.lock("gate").lease(crate::ground::PATIENCE).acquire().await.unwrap();
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
    assert!(
        !shop.ok(&["claims", "--json"]).contains("receipt"),
        "a result is nobody else's business"
    );
    assert!(table.starts_with("CLAIM") && table.contains("it has run out"), "{table}");
    assert_eq!(locks.len(), 1, "{locks:?}");
    assert_eq!(shop.json(&["claims", "--state", "stale", "--state", "failed"]).len(), 3);
    let page = shop.run(&["claims", "--limit", "1"]);
    assert!(page.err.contains("there may be more"), "{page:?}");
    let none = shop.run(&["claims", "nobody"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("no such claim"), "{none:?}");
}

/// CMD-8.
fn quotas_are_shown_with_how_much_is_taken(shop: &Shop) {
    shop.with(|store| async move {
        let claims = Tidelock::over(store).claims();
        let _taken = claims.quota("mails", 100).of("joe").per(Period::Year).take(3).await.unwrap();
        let _kept = claims.quota("seats", 18).reserve(2, crate::ground::PATIENCE).await.unwrap();
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
fn a_claim_is_freed_if_its_claimant_is_gone_and_not_otherwise(shop: &Shop) {
    dies_at_claims(shop);
    let freed = shop.ok(&["release", "idempotency/pay:42"]);
    assert_eq!(freed, "claim \"idempotency/pay:42\" is free; \"alice\" was at it last\n");
    assert!(shop.json(&["claims", "idempotency/"]).is_empty());
    let again = shop.run(&["release", "idempotency/pay:42"]);
    assert_eq!((again.code, again.err.contains("nobody is at it")), (4, true), "{again:?}");
    let (held, done) = shop.with(|store| async {
        let claims = Tidelock::over(store).claims().by("bob").unwrap();
        let pay = claims.idempotency("pay:42");
        let IdempotencyClaim::Won(won) = pay.claim::<Value>().await.unwrap() else {
            panic!("it is free")
        };
        let held = shop.run(&["release", "idempotency/pay:42"]);
        won.complete(&json!("receipt")).await.unwrap();
        (held, shop.run(&["release", "idempotency/pay:42"]))
    });
    assert_eq!((held.code, held.err.contains("\"bob\" is at it")), (4, true), "{held:?}");
    assert_eq!((done.code, done.err.contains("its result is kept")), (4, true), "{done:?}");
    assert_eq!(shop.json(&["claims", "idempotency/"])[0]["state"], json!("done"));
}
