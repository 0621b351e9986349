//! Abandoned claims, and contended locks.

use std::cell::RefCell;

use serde_json::json;
use tidelock::doctor::{Doctor, FindingKind};
use tidelock::prelude::*;
use tidelock_test_stage::until;

use super::{commands, findings, paste, remedy};
use crate::claims::dies_at_claims;
use crate::harness::{PATIENCE, Shop};

on_files_and_postgres!(
    an_abandoned_claim_is_found_and_released,
    a_lock_that_others_wait_for_is_found_with_its_holder,
);

/// CMD-5.
fn an_abandoned_claim_is_found_and_released(shop: &Shop) {
    dies_at_claims(shop);
    let (code, found) = findings(shop, &[]);
    assert_eq!((code, found.len()), (1, 2), "{found:?}");
    let (pay, till) = (&found[0], &found[1]);
    assert_eq!((&pay["kind"], &pay["severity"]), (&json!("abandoned"), &json!("error")));
    assert_eq!(pay["subject"], json!("claim \"idempotency/pay:42\""));
    assert!(pay["what"].as_str().unwrap().starts_with("the lease of \"alice\" expired"), "{pay}");
    assert!(pay["since"].is_string(), "{pay}");
    assert!(remedy(pay).contains("tidelock release idempotency/pay:42 --store "), "{pay}");
    assert_eq!(till["severity"], json!("warning"), "the next claimant takes the lock");
    assert_eq!(
        shop.run(&["doctor", "--stuck-after", "1h"]).code,
        0,
        "with more patience there are fewer findings"
    );
    for finding in [pay, till] {
        let freed = paste(shop, &commands(finding)[0], &[]);
        assert_eq!(freed.code, 0, "{finding}: {freed:?}");
    }
    assert_eq!(findings(shop, &[]), (0, Vec::new()));
}

/// CMD-5.
fn a_lock_that_others_wait_for_is_found_with_its_holder(shop: &Shop) {
    let hot = shop.with(|store| async move {
        let lock = |who: &str| Tidelock::over(store.clone()).claims().by(who).lock("till");
        let held = lock("alice").acquire().await.unwrap().granted().unwrap();
        let waiting = lock("bob").within(PATIENCE);
        let bob = tokio::spawn(async move { waiting.acquire().await.unwrap().granted().map(drop) });
        let hot = RefCell::new(Vec::new());
        until("it is found", async || {
            let diagnosis = Doctor::over(store.clone()).examine().await.unwrap();
            assert!(diagnosis.is_healthy(), "a slow lock is not an error: {diagnosis:?}");
            let found =
                diagnosis.findings.into_iter().filter(|finding| finding.kind == FindingKind::Hot);
            *hot.borrow_mut() = found.collect();
            !hot.borrow().is_empty()
        })
        .await;
        drop(held);
        bob.await.unwrap().unwrap();
        hot.into_inner()
    });
    assert_eq!(hot[0].subject.to_string(), "claim \"lock/till\"");
    assert_eq!(hot[0].what, "1 waiting for it; held by \"alice\"");
    assert!(hot[0].since.is_some(), "{hot:?}");
}
