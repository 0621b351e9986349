//! Locks over HTTP: acquired through one server, renewed and released through another.

use http::Method;
use serde_json::{Value, json};
use tidelock::store::StoreExt;
use tidelock_test_stage::{TestStore, until};

use crate::harness::{Client, READER, Reply, Server, WRITER};

const LOCK: &str = "/v1/locks/door%2F7";

fn for_long() -> Value {
    json!({ "lease_ms": 60_000 })
}

async fn release(client: &Client, fence: &Value) -> Reply {
    client.send_with(Method::DELETE, &format!("{LOCK}?fence={fence}"), &[], None).await
}

async fn renew(client: &Client, fence: &Value) -> Reply {
    let body = json!({ "fence": fence, "lease_ms": 90_000 });
    client.send_with(Method::PUT, LOCK, &[], Some(&body)).await
}

/// HTTP-31. HTTP-33.
async fn a_lock_is_used_through_any_server_by_its_fence(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (first, second) = (here.client(WRITER), there.client(WRITER));
    first.get(LOCK).await.refused(404, "lock-free");
    let taken = first.post(LOCK, &for_long()).await.ok(201);
    assert_eq!(taken["key"], "lock/door/7");
    let busy = second.post(LOCK, &for_long()).await;
    busy.refused(409, "lock-held");
    assert_eq!((&busy.json()["by"], &busy.json()["until"]), (&json!("walt"), &taken["until"]));
    assert!(busy.headers.contains_key("retry-after"));
    let holder = there.client(READER).get(LOCK).await.ok(200);
    assert_eq!((&holder["by"], &holder["fence"]), (&json!("walt"), &taken["fence"]));
    let listed = second.get("/v1/locks?prefix=door/").await.ok(200);
    assert_eq!((&listed["items"][0]["name"], &listed["next"]), (&json!("door/7"), &json!(null)));
    // As a Rust program sees it.
    let own = there.tidelock.claims().lock("door").of(7).holder().await.unwrap().unwrap();
    assert_eq!(json!(own.fence), taken["fence"]);
    assert!(
        renew(&second, &taken["fence"]).await.ok(200)["until"].as_str() > taken["until"].as_str()
    );
    renew(&second, &json!(99)).await.refused(409, "fence-lost");
    release(&second, &json!(99)).await.refused(409, "fence-lost");
    assert_eq!(release(&second, &taken["fence"]).await.status, 204);
    assert_eq!(release(&first, &taken["fence"]).await.status, 204, "its first reply was lost");
    renew(&first, &taken["fence"]).await.refused(409, "claim-over");
    let next = second.post(LOCK, &for_long()).await.ok(201);
    assert!(next["fence"].as_u64() > taken["fence"].as_u64());
    release(&first, &taken["fence"]).await.refused(409, "fence-lost");
}

/// The number of waiters.
async fn waiting(server: &Server) -> usize {
    let places = tidelock::store::RecordQuery::prefix("~claim-place/lock/door/7/");
    server.tidelock.store().rows(places).all().await.unwrap().len()
}

/// HTTP-32: a waiter gets the lock; one that disconnected does not.
async fn a_waiter_that_disconnects_leaves_nothing_behind(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    let taken = client.post(LOCK, &for_long()).await.ok(201);
    let patient = json!({ "lease_ms": 60_000, "wait_ms": 60_000, "by": "patient" });
    let gone = client.clone();
    let asked = patient.clone();
    let leaving = tokio::spawn(async move { gone.post(LOCK, &asked).await });
    until("one waits", async || waiting(&server).await == 1).await;
    leaving.abort();
    until("none waits", async || waiting(&server).await == 0).await;
    let staying = client.clone();
    let staying = tokio::spawn(async move { staying.post(LOCK, &patient).await });
    until("another waits", async || waiting(&server).await == 1).await;
    assert_eq!(release(&client, &taken["fence"]).await.status, 204);
    let next = staying.await.unwrap().ok(201);
    assert_eq!(client.get(LOCK).await.ok(200)["by"], "patient");
    assert_eq!(release(&client, &next["fence"]).await.status, 204);
    assert_eq!(client.get(LOCK).await.status, 404, "the lock is free");
}

/// HTTP-33.
async fn an_invalid_lock_request_is_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    for body in [
        json!({}),
        json!({ "lease_ms": 0 }),
        json!({ "lease_ms": 1, "wait_ms": -1 }),
        json!({ "lease_ms": 1, "x": 1 }),
    ] {
        assert_eq!(client.post(LOCK, &body).await.problem().0, 400, "{body}");
    }
    for path in [
        "/v1/locks/a%2F",
        "/v1/locks/%2Fa",
        "/v1/locks/a%2F%2Fb",
        "/v1/locks/a%0Ab",
        "/v1/locks/%FF",
    ] {
        assert_eq!(client.post(path, &for_long()).await.problem().0, 400, "{path}");
    }
    for fence in ["", "?fence=", "?fence=0", "?fence=x", "?fence=1&more=2"] {
        let path = format!("{LOCK}{fence}");
        assert_eq!(
            client.send_with(Method::DELETE, &path, &[], None).await.problem().0,
            400,
            "{path}"
        );
    }
    let long = format!("/v1/locks/{}", "x".repeat(600));
    assert_eq!(client.post(&long, &for_long()).await.problem().0, 400);
}

over_sockets!(
    a_lock_is_used_through_any_server_by_its_fence,
    a_waiter_that_disconnects_leaves_nothing_behind,
    an_invalid_lock_request_is_refused,
);
