//! Requests whose responses were lost with their server, repeated under the same key: they are
//! carried out once, and answered again.
//!
//! Appends and mutations of scopes are tested with their kind.

use serde_json::{Value, json};
use tidelock_test_stage::{TestStore, until};

use crate::harness::{Client, OPERATOR, READER, Reply, Server, WRITER};

async fn keyed(client: &Client, key: &str, path: &str, body: &Value) -> Reply {
    client.send_with(http::Method::POST, path, &[("idempotency-key", key)], Some(body)).await
}

/// Sends twice, with the recorded response deleted in between; both responses are equal.
async fn twice(server: &Server, client: &Client, path: &str, body: &Value) -> Reply {
    let first = keyed(client, path, path, body).await;
    assert!(first.status < 300, "{first:?}");
    server.forget_answers().await;
    let again = keyed(client, path, path, body).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body), "{path}");
    again
}

/// HTTP-9.
async fn a_quota_is_charged_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let used = async || {
        server.client(READER).get("/v1/quotas/seats?limit=9").await.ok(200)["used"].clone()
    };
    let taken =
        twice(&server, &writer, "/v1/quotas/seats/take", &json!({ "limit": 9, "units": 2 })).await;
    assert_eq!(used().await, 2);
    let reserving = json!({ "limit": 9, "units": 3, "ttl_ms": 600_000 });
    let reserved = twice(&server, &writer, "/v1/quotas/seats/reserve", &reserving).await;
    assert_eq!(used().await, 5);
    let confirming = json!({ "reservation_token": reserved.json()["reservation_token"] });
    let confirmed = twice(&server, &writer, "/v1/quotas/seats/confirm", &confirming).await;
    server.forget_answers().await;
    let over =
        keyed(&writer, "/v1/quotas/seats/reserve", "/v1/quotas/seats/reserve", &reserving).await;
    assert_eq!(over.problem(), (409, "reservation-over".into()), "it has ended");
    assert_eq!(used().await, 5);
    for (left, granted) in [(3, taken), (0, confirmed)] {
        let grant = json!({ "grant": granted.json()["grant"] });
        let refunded = twice(&server, &writer, "/v1/quotas/seats/refund", &grant).await.json();
        assert_eq!((&refunded["outcome"], used().await), (&json!("refunded"), json!(left)));
        server.forget_answers().await;
    }
    writer.post("/v1/quotas/seats/take", &json!({ "limit": 9, "units": 9 })).await.ok(201);
}

/// HTTP-9. The winner continues with it; no other caller can.
async fn a_retried_claim_keeps_its_fence(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, other) = (server.client(WRITER), server.client(OPERATOR));
    let for_long = json!({ "lease_ms": 600_000 });
    let claim = twice(&server, &writer, "/v1/claims/pay", &for_long).await.ok(201);
    assert_eq!(keyed(&other, "k", "/v1/claims/pay", &for_long).await.problem().1, "claim-held");
    let completing = json!({ "fence": claim["fence"], "result": "paid" });
    twice(&server, &writer, "/v1/claims/pay/complete", &completing).await;
    server.forget_answers().await;
    let done = keyed(&writer, "/v1/claims/pay", "/v1/claims/pay", &for_long).await.ok(200);
    assert_eq!((&done["outcome"], &done["result"]), (&json!("done"), &json!("paid")));

    let lock = twice(&server, &writer, "/v1/locks/door", &for_long).await.ok(201);
    assert_eq!(keyed(&other, "k", "/v1/locks/door", &for_long).await.problem().1, "lock-held");
    let release = format!("/v1/locks/door?fence={}", lock["fence"]);
    for _ in 0..2 {
        let key = [("idempotency-key", "release")];
        let released = writer.send_with(http::Method::DELETE, &release, &key, None).await;
        assert_eq!(released.status, 204);
        server.forget_answers().await;
    }
    let next = keyed(&writer, "another", "/v1/locks/door", &for_long).await.ok(201);
    assert_ne!(next["fence"], lock["fence"]);

    let taking = json!({ "details": 7, "every_ms": 600_000 });
    twice(&server, &writer, "/v1/singletons/greeting", &taking).await.ok(201);
    assert_eq!(keyed(&other, "k", "/v1/singletons/greeting", &taking).await.problem().1, "taken");
    assert_eq!(keyed(&writer, "k", "/v1/singletons/greeting", &taking).await.problem().1, "taken");
}

/// HTTP-9. The item was settled in the meantime: a retry must not wake it again.
async fn an_item_is_enqueued_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let (putting, path) = (json!({ "key": "a", "data": 7, "in_ms": 0 }), "/v1/queues/mail/items");
    let first = keyed(&writer, "put", path, &putting).await.ok(201);
    let leased =
        writer.post("/v1/queues/mail/lease", &json!({ "lease_ms": 600_000 })).await.ok(200);
    let ack = json!({ "key": "a", "fence": leased["items"][0]["fence"], "outcome": "ack" });
    twice(&server, &writer, "/v1/queues/mail/settle", &json!({ "items": [ack] })).await;
    assert_eq!(keyed(&writer, "put", path, &putting).await.ok(201), first);
    let leased =
        writer.post("/v1/queues/mail/lease", &json!({ "lease_ms": 600_000 })).await.ok(200);
    assert_eq!(leased["items"], json!([]));
    keyed(&writer, "another", path, &putting).await.ok(201);
    let leased =
        writer.post("/v1/queues/mail/lease", &json!({ "lease_ms": 600_000 })).await.ok(200);
    assert_eq!(leased["items"][0]["key"], "a");
}

/// HTTP-9. HTTP-22. And the operator's action is recorded once.
async fn a_retried_run_request_takes_effect_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, operator, reader) =
        (server.client(WRITER), server.client(OPERATOR), server.client(READER));
    // No worker drives the run, so its signals stay where they are.
    server.tidelock.start("idle", "r", &()).version(1).await.unwrap();
    twice(&server, &writer, "/v1/runs/r/signals", &json!({ "name": "go", "payload": 7 })).await;
    twice(&server, &operator, "/v1/runs/r/cancel", &json!({ "reason": "enough" })).await;
    twice(&server, &operator, "/v1/runs/r/terminate", &json!({ "reason": "at once" })).await;
    let history = reader.get("/v1/runs/r/history").await.ok(200);
    assert_eq!(history["items"].as_array().unwrap().len(), 4, "{history}");
    let audited = reader.get("/v1/audit").await.ok(200);
    assert_eq!(audited["items"].as_array().unwrap().len(), 2, "{audited}");
    let refused =
        keyed(&operator, "another", "/v1/runs/r/terminate", &json!({ "reason": "at once" })).await;
    refused.refused(409, "run-ended");
}

/// HTTP-9. HTTP-22. A later claim must not be released by a retry.
async fn an_abandoned_claim_is_freed_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, operator) = (server.client(WRITER), server.client(OPERATOR));
    let (path, body) = ("/v1/abandoned-claims/release", json!({ "claim": "idempotency/pay" }));
    assert_eq!(
        keyed(&operator, path, path, &body).await.status,
        404,
        "what was refused is judged again"
    );
    writer.post("/v1/claims/pay", &json!({ "lease_ms": 1, "by": "ada" })).await.ok(201);
    until("its lease has expired", async || {
        server.client(READER).get("/v1/claims/pay").await.status == 404
    })
    .await;
    let freed = twice(&server, &operator, path, &body).await.ok(200);
    assert_eq!(freed["by"], "ada");
    writer.post("/v1/claims/pay", &json!({ "lease_ms": 1, "by": "eve" })).await.ok(201);
    until("it has expired again", async || {
        server.client(READER).get("/v1/claims/pay").await.status == 404
    })
    .await;
    server.forget_answers().await;
    assert_eq!(keyed(&operator, path, path, &body).await.ok(200)["by"], "ada");
    assert_eq!(
        keyed(&operator, "another", path, &body).await.ok(200)["by"],
        "eve",
        "it was still there"
    );
    let audited = server.client(READER).get("/v1/audit").await.ok(200);
    let statuses: Vec<_> =
        audited["items"].as_array().unwrap().iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, [200, 200, 404], "each request that was judged, once: {audited}");
}

/// HTTP-9. An operator has freed the key, or its response has expired: the next request under it is
/// judged by itself.
async fn another_request_under_a_freed_key_is_judged_by_itself(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let placed = |units: u32| json!({ "events": [{ "type": "placed", "data": units }] });
    keyed(&writer, "k", "/v1/streams/s/events", &placed(1)).await.ok(201);
    server.forget_answers().await;
    let other = keyed(&writer, "k", "/v1/streams/s/events", &placed(2)).await.ok(201);
    assert_eq!((&other["version"], &other["replayed"]), (&json!(2), &json!(false)));
    for (by, sum) in [(7, 7), (8, 15)] {
        let adding = json!({ "at": "n", "by": by });
        let added = keyed(&writer, "n", "/v1/scopes/user/7/increment", &adding).await.ok(200);
        assert_eq!(added["value"], sum);
        server.forget_answers().await;
    }
}

over_sockets!(
    a_quota_is_charged_once,
    a_retried_claim_keeps_its_fence,
    an_item_is_enqueued_once,
    a_retried_run_request_takes_effect_once,
    an_abandoned_claim_is_freed_once,
    another_request_under_a_freed_key_is_judged_by_itself,
);
