//! The doctor over HTTP: its remedies can be sent as they are, and fix the problem.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tidelock::doctor::{Doctor, Thresholds};
use tidelock::prelude::*;
use tidelock::store::{ExpectedRevision, RecordKey, Settlement, StoreExt};
use tidelock_test_stage::{Running, TestStore, brisk, note, until};

use crate::harness::{Client, OPERATOR, READER, Reply, Server, WRITER};

/// A server whose doctor has zero thresholds.
async fn hasty(stage: &TestStore) -> Server {
    let bounds = Thresholds { stuck_after: Duration::ZERO, ..Thresholds::default() };
    let doctor = Doctor::over(stage.store().await).within(bounds);
    Server::start_with(stage, |api| api.tokens(crate::harness::tokens()).doctor(doctor)).await
}

async fn findings(client: &Client, kind: &str) -> Vec<Value> {
    let exam = client.get("/v1/doctor").await.ok(200);
    let all = exam["findings"].as_array().unwrap().clone();
    all.into_iter().filter(|finding| finding["kind"] == kind).collect()
}

/// Sends the remedy of the first finding of this kind: the action of this name.
async fn send(client: &Client, kind: &str, action: &str) -> Reply {
    let found = findings(client, kind).await;
    let offered = found[0]["remedy"]["actions"].as_array().unwrap();
    let cure = offered
        .iter()
        .find(|offered| offered["action"] == action)
        .unwrap_or_else(|| panic!("{found:?}"));
    let (request, add) = (&cure["request"], &cure["request"]["add"]);
    assert_eq!((&request["method"], add), (&json!("POST"), &Value::Null), "{cure}");
    client.post(request["path"].as_str().unwrap(), &request["body"]).await
}

/// HTTP-37. An item, and all items of a queue: the one of the router's lease.
async fn blocked_items_and_stopped_routes_are_resumed(stage: TestStore) {
    let server = hasty(&stage).await;
    let operator = server.client(OPERATOR);
    let queue = server.tidelock.queue("post");
    queue.enqueue("a").await.unwrap();
    let taken = queue.lease("w").await.unwrap();
    queue.settle(vec![Settlement::block(taken[0].lease.token(), "no stamps")]).await.unwrap();
    assert_eq!(send(&operator, "blocked", "unblock").await.ok(200)["changed"], 1);
    assert_eq!(findings(&operator, "blocked").await, Vec::<Value>::new());

    let tidelock = stage.tidelock().await;
    note(&tidelock, "order-1", "x").await;
    let mailing =
        || tidelock.app().worker(brisk("w")).reaction("mail", on_any(), |_, _| async { Ok(()) });
    let running = Running::start(mailing());
    until("it is routed", async || !tidelock.reactions().routes().await.unwrap().is_empty()).await;
    running.stop().await;
    rewind(&tidelock).await;
    let running = Running::start(mailing());
    let stopped = async || tidelock.reactions().routes().await.unwrap()[0].blocked;
    until("the route has stopped", stopped).await;
    running.stop().await;
    let cure = &findings(&operator, "route").await[0]["remedy"]["actions"][0]["request"];
    assert_eq!(cure["body"], json!({ "queue": "~route/mail", "pattern": "*" }));
    assert_eq!(send(&operator, "route", "unblock").await.ok(200)["changed"], 1);
    assert!(!stopped().await, "it is tried again");
    assert_eq!(send(&operator, "route", "reroute").await.status, 204);
    let running = Running::start(mailing());
    until("it is rerouted", async || findings(&operator, "route").await.is_empty()).await;
    running.stop().await;
}

/// As if the store had been restored from a backup: the reaction is ahead of the log.
async fn rewind(tidelock: &Tidelock) {
    let key = RecordKey::new("~route/mail").unwrap();
    let record = tidelock.store().get_one(&key).await.unwrap().into_live().unwrap();
    let mut cursor: Value = record.value.to().unwrap();
    cursor["position"] = json!(i64::MAX);
    let cursor = tidelock::store::RawJson::new(&cursor).unwrap();
    tidelock.store().put(&key, ExpectedRevision::Any, cursor).await.unwrap().committed().unwrap();
}

/// HTTP-37. HTTP-33: only if it is not held and has no result.
async fn only_an_abandoned_claim_is_freed(stage: TestStore) {
    let server = hasty(&stage).await;
    let (operator, writer) = (server.client(OPERATOR), server.client(WRITER));
    let free = async |claim: &str| {
        operator.post("/v1/abandoned-claims/release", &json!({ "claim": claim })).await
    };
    free("idempotency/pay").await.refused(404, "no-claim");
    writer.post("/v1/claims/pay", &json!({ "lease_ms": 5, "by": "alice" })).await.ok(201);
    until("it is abandoned", async || findings(&operator, "abandoned").await.len() == 1).await;
    let freed = send(&operator, "abandoned", "release").await.ok(200);
    assert_eq!(freed, json!({ "claim": "idempotency/pay", "by": "alice" }));
    assert_eq!(findings(&operator, "abandoned").await, Vec::<Value>::new());
    let held =
        writer.post("/v1/claims/pay", &json!({ "lease_ms": 60_000, "by": "bob" })).await.ok(201);
    let refused = free("idempotency/pay").await;
    refused.refused(409, "claim-held");
    assert_eq!(refused.json()["by"], "bob");
    let done = json!({ "fence": held["fence"], "result": 1 });
    assert_eq!(writer.post("/v1/claims/pay/complete", &done).await.status, 204);
    free("idempotency/pay").await.refused(409, "claim-over");
    let written = operator.get("/v1/audit").await.ok(200).to_string();
    assert!(
        written.contains("/v1/abandoned-claims/release") && written.contains("idempotency/pay"),
        "{written}"
    );
    for nonsense in [json!({}), json!({ "claim": 7 }), json!({ "claim": "a", "fence": 1 })] {
        assert_eq!(operator.post("/v1/abandoned-claims/release", &nonsense).await.problem().0, 400);
    }
    let other = server.client(READER).request(Method::POST, "/v1/abandoned-claims/release", None);
    assert_eq!(server.client(READER).send(other).await.problem().0, 403);
}

/// Schedule 107. CMD-5: a hanging worker is found over HTTP, too, and no request fixes it.
async fn a_long_lease_without_progress_is_found(stage: TestStore) {
    let bounds = Thresholds { hung_after: Duration::ZERO, ..Thresholds::default() };
    let doctor = Doctor::over(stage.store().await).within(bounds);
    let server =
        Server::start_with(&stage, |api| api.tokens(crate::harness::tokens()).doctor(doctor)).await;
    let queue = server.tidelock.queue("post");
    queue.enqueue("a").await.unwrap();
    queue.lease("w").duration(Duration::from_secs(3_600)).await.unwrap();
    let found = findings(&server.client(READER), "hung").await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0]["what"].as_str().unwrap().starts_with("worker \"w\" holds it"), "{found:?}");
    assert_eq!(found[0]["remedy"]["actions"], json!([]));
}

over_sockets!(
    a_long_lease_without_progress_is_found,
    blocked_items_and_stopped_routes_are_resumed,
    only_an_abandoned_claim_is_freed,
);
