//! Claims over HTTP: won by one request, continued by others, through any server.

use http::Method;
use serde_json::{Value, json};
use tidelock_test_stage::{TestStore, until};

use crate::harness::{Client, READER, Reply, Server, WRITER};

const KEY: &str = "/v1/claims/pay:42";

fn for_long() -> Value {
    json!({ "lease_ms": 60_000, "ttl_ms": 60_000, "by": "till-1", "fingerprint": { "amount": 7, "to": "ada" } })
}

async fn go_on(client: &Client, verb: &str, body: Value) -> Reply {
    client.post(&format!("{KEY}/{verb}"), &body).await
}

/// HTTP-31. HTTP-33.
async fn a_key_is_claimed_once_and_every_caller_gets_its_result(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (first, second) = (here.client(WRITER), there.client(WRITER));
    first.get(KEY).await.refused(404, "claim-free");
    let won = first.post(KEY, &for_long()).await.ok(201);
    assert_eq!(won["outcome"], "won");
    let held = second.post(KEY, &for_long()).await;
    held.refused(409, "claim-held");
    let retry: u64 = held.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry));
    assert_eq!((&held.json()["outcome"], &held.json()["by"]), (&json!("held"), &json!("till-1")));
    let other = json!({ "lease_ms": 1000, "fingerprint": { "amount": 8 } });
    second.post(KEY, &other).await.refused(422, "key-reused");
    let fence = &won["fence"];
    let renewed =
        go_on(&second, "renew", json!({ "fence": fence, "lease_ms": 90_000 })).await.ok(200);
    assert!(renewed["until"].as_str() > won["until"].as_str());
    let seen = second.get(KEY).await.ok(200);
    assert_eq!(
        (&seen["state"], &seen["fence"], &seen["by"]),
        (&json!("pending"), fence, &json!("till-1"))
    );
    let done = json!({ "fence": fence, "result": { "receipt": 1, "exact": 0.1 } });
    assert_eq!(go_on(&second, "complete", done.clone()).await.status, 204);
    assert_eq!(
        go_on(&first, "complete", done.clone()).await.status,
        204,
        "its first reply was lost"
    );
    let again = first.post(KEY, &for_long()).await.ok(200);
    assert_eq!((&again["outcome"], &again["result"]), (&json!("done"), &done["result"]));
    assert_eq!(second.get(KEY).await.ok(200)["result"], done["result"]);
    for (verb, body) in [
        ("complete", json!({ "fence": fence, "result": 2 })),
        ("fail", json!({ "fence": fence, "error": "no" })),
        ("release", json!({ "fence": fence })),
        ("renew", json!({ "fence": fence, "lease_ms": 1000 })),
    ] {
        assert_eq!(go_on(&first, verb, body).await.problem(), (409, "claim-over".into()), "{verb}");
    }
    let listed = second.get("/v1/claims?prefix=idempotency/pay&state=done").await.ok(200);
    let listed = &listed["items"][0];
    assert_eq!(
        (&listed["kind"], &listed["name"], &listed["state"]),
        (&json!("idempotency"), &json!("pay:42"), &json!("done"))
    );
    assert!(listed.get("result").is_none() && listed["until"].is_string());
}

/// HTTP-31. HTTP-33: a late holder completes nothing.
async fn a_fence_that_is_not_the_newest_is_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    let late = client.post(KEY, &json!({ "lease_ms": 5 })).await.ok(201);
    until("the lease has expired", async || client.get(KEY).await.status == 404).await;
    let won = client.post(KEY, &for_long()).await.ok(201);
    for (verb, body) in [
        ("complete", json!({ "fence": late["fence"], "result": 1 })),
        ("fail", json!({ "fence": late["fence"], "error": "no" })),
        ("release", json!({ "fence": late["fence"] })),
        ("renew", json!({ "fence": late["fence"], "lease_ms": 1000 })),
    ] {
        assert_eq!(
            go_on(&client, verb, body).await.problem(),
            (409, "fence-lost".into()),
            "{verb}"
        );
    }
    assert_eq!(go_on(&client, "release", json!({ "fence": won["fence"] })).await.status, 204);
    assert_eq!(go_on(&client, "release", json!({ "fence": won["fence"] })).await.status, 204);
    assert_eq!(client.get(KEY).await.status, 404);
}

/// HTTP-33.
async fn a_waiting_caller_gets_the_outcome(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (worker, reader) = (here.client(WRITER), there.client(READER));
    let won = worker.post(KEY, &for_long()).await.ok(201);
    let still = reader.get(&format!("{KEY}?wait_ms=5")).await.ok(200);
    assert_eq!(still["state"], "pending");
    let waiting = tokio::spawn(async move { reader.get(&format!("{KEY}?wait_ms=60000")).await });
    let failed = json!({ "fence": won["fence"], "error": "no funds" });
    assert_eq!(go_on(&worker, "fail", failed).await.status, 204);
    let told = waiting.await.unwrap().ok(200);
    assert_eq!((&told["state"], &told["error"]), (&json!("failed"), &json!("no funds")));
    let claimed = worker.post(KEY, &for_long()).await.ok(200);
    assert_eq!((&claimed["outcome"], &claimed["error"]), (&json!("failed"), &json!("no funds")));
}

/// HTTP-33: an invalid request claims nothing.
async fn an_invalid_claim_is_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    for body in [
        json!({}),
        json!({ "lease_ms": 0 }),
        json!({ "lease_ms": 604_800_001_u64 }),
        json!({ "lease_ms": -1 }),
        json!({ "lease_ms": 1000, "more": 1 }),
        json!({ "lease_ms": 1000, "by": "" }),
        json!({ "lease_ms": 1000, "by": "a\u{0}b" }),
        json!([]),
    ] {
        assert_eq!(client.post(KEY, &body).await.problem().0, 400, "{body}");
    }
    for fence in [json!(0), json!(-1), json!("1"), json!(u64::MAX), json!(null)] {
        let body = json!({ "fence": fence, "result": 1 });
        assert_eq!(go_on(&client, "complete", body).await.problem().0, 400, "{fence}");
    }
    let unheard = json!({ "fence": 7, "result": 1 });
    go_on(&client, "complete", unheard).await.refused(409, "fence-lost");
    let last = json!({ "fence": i64::MAX, "result": 1 });
    go_on(&client, "complete", last).await.refused(409, "fence-lost");
    assert_eq!(client.get("/v1/claims?after=%00").await.problem().0, 400);
    assert_eq!(client.get("/v1/claims?limit=0").await.problem().0, 400);
    assert_eq!(client.send_with(Method::POST, KEY, &[], None).await.problem().0, 415);
    assert_eq!(client.get(KEY).await.status, 404);
}

over_sockets!(
    a_key_is_claimed_once_and_every_caller_gets_its_result,
    a_fence_that_is_not_the_newest_is_refused,
    a_waiting_caller_gets_the_outcome,
    an_invalid_claim_is_refused,
);
