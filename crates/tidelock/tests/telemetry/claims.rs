//! Contended claims are logged and counted: with key, waiter, holder and attempts, and never with a
//! result.

use std::time::Duration;

use tidelock::prelude::*;
use tidelock::telemetry::{CLAIMED, CLAIMS_CONTENDED};
use tidelock_test_stage::{TestStore, on_every_store};

use crate::breadcrumbs::{assert_discreet, begin};
use crate::capture::{CANARY, said};
use crate::meter::metric;

on_every_store!(a_contended_claim_is_logged_with_its_holder_and_counted);

/// CLAIM-16.
async fn a_contended_claim_is_logged_with_its_holder_and_counted(stage: TestStore) {
    let name = begin(&stage, "claims");
    let claims = stage.tidelock().await.claims();
    let (holder, waiter) = (claims.clone().by("holder"), claims.by("waiter"));
    let counted = |kind, outcome| metric(CLAIMED, &[("kind", kind), ("outcome", outcome)]);
    let (won, contended) = (counted("lock", "won"), metric(CLAIMS_CONTENDED, &[("kind", "lock")]));
    let guard = holder
        .lock(&name)
        .lease(Duration::from_secs(60))
        .acquire()
        .await
        .unwrap()
        .granted()
        .unwrap();
    let busy = waiter.lock(&name).within(Duration::from_millis(20)).acquire().await.unwrap();
    busy.granted().unwrap_err();
    assert!(
        counted("lock", "won") > won && metric(CLAIMS_CONTENDED, &[("kind", "lock")]) > contended
    );
    let key = format!("lock/{name}");
    let timed_out = said("key", &key)
        .into_iter()
        .find(|said| said.message == "timed out waiting for a claim")
        .unwrap();
    assert_eq!((&*timed_out.fields["waiter"], &*timed_out.fields["holder"]), ("waiter", "holder"));
    assert!(timed_out.fields["attempts"].parse::<u32>().unwrap() >= 1);
    assert!(said("key", &key).iter().any(|said| said.message == "claim contended"));
    guard.release().await.unwrap();

    let secret = holder.idempotency(&name).fingerprint(CANARY);
    let IdempotencyClaim::Won(claim) = secret.claim::<String>().await.unwrap() else {
        panic!("it is free")
    };
    assert!(matches!(
        waiter.idempotency(&name).claim::<String>().await.unwrap(),
        IdempotencyClaim::Held(_)
    ));
    claim.complete(&CANARY.to_owned()).await.unwrap();
    assert!(matches!(
        waiter.idempotency(&name).claim::<String>().await.unwrap(),
        IdempotencyClaim::Done(_)
    ));
    let outcomes: Vec<_> = said("key", &format!("idempotency/{name}"))
        .into_iter()
        .filter(|said| said.message == "claimed")
        .map(|said| said.fields["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["won", "held", "done"]);
    assert_discreet();
}
