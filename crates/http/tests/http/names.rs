//! Names with any characters: they round-trip or are refused, and are never confused.

use http::Method;
use serde_json::json;
use tidelock_test_stage::TestStore;

use crate::harness::{Server, WRITER};

/// Percent-encodes a name for a path.
fn encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

const ODD: &[&str] = &[
    "a/b",
    "../../etc",
    "a?b#c",
    "%2F",
    "%",
    "100%25",
    "a b",
    "\"quoted\"",
    "<script>",
    "naïve",
    "日本",
    "🦀",
    "a\\b",
    "'; DROP TABLE",
    "*",
    "?",
    ".",
    "..",
    "a=b&c",
    "+",
];

/// HTTP-34.
async fn odd_names_round_trip(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    for name in ODD {
        let path = encoded(name);
        let put = client
            .send_with(Method::PUT, &format!("/v1/scopes/odd/{path}"), &[], Some(&json!(name)))
            .await;
        assert_eq!(put.status, 200, "{name}: {put:?}");
        let shown = client.get(&format!("/v1/scopes/odd/{path}")).await.ok(200);
        assert_eq!((&shown["id"], &shown["state"]), (&json!(name), &json!(name)));
        let claimed =
            client.post(&format!("/v1/claims/{path}"), &json!({ "lease_ms": 60_000 })).await;
        assert_eq!(claimed.status, 201, "{name}: {claimed:?}");
        client.post(&format!("/v1/queues/{path}/items"), &json!({ "key": name })).await.ok(201);
        let leased = client
            .post(&format!("/v1/queues/{path}/lease"), &json!({ "lease_ms": 60_000 }))
            .await
            .ok(200);
        assert_eq!(leased["items"][0]["key"], json!(name));
        let started = json!({ "workflow": "w", "version": 1, "input": null });
        assert_eq!(
            client.post(&format!("/v1/runs/{path}"), &started).await.ok(201)["id"],
            json!(name)
        );
        assert_eq!(client.get(&format!("/v1/runs/{path}")).await.ok(200)["id"], json!(name));
    }
    let listed = client.get("/v1/claims?prefix=idempotency/").await.ok(200);
    for claim in listed["items"].as_array().unwrap() {
        let name = claim["name"].as_str().unwrap();
        assert!(ODD.contains(&name), "{claim}");
        let seen = client.get(&format!("/v1/claims/{}", encoded(name))).await.ok(200);
        assert_eq!(seen["fence"], claim["fence"]);
    }
    assert_eq!(listed["items"].as_array().unwrap().len(), ODD.len());
}

/// HTTP-34: a name can be requested as a list shows it.
async fn listed_lock_names_can_be_requested(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    let claims = server.tidelock.claims();
    for lock in
        [claims.lock("a/b").of("100%"), claims.lock("a").of("b").of("c"), claims.lock("%2F")]
    {
        let _held = lock
            .lease(std::time::Duration::from_secs(60))
            .acquire()
            .await
            .unwrap()
            .granted()
            .unwrap()
            .detach();
    }
    let listed = client.get("/v1/locks").await.ok(200)["items"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 3);
    for lock in listed.as_array().unwrap() {
        let path = format!("/v1/locks/{}", encoded(lock["name"].as_str().unwrap()));
        assert_eq!(client.get(&path).await.ok(200)["fence"], lock["fence"], "{lock}");
        let gone = client
            .send_with(Method::DELETE, &format!("{path}?fence={}", lock["fence"]), &[], None)
            .await;
        assert_eq!(gone.status, 204);
    }
    assert_eq!(client.get("/v1/locks").await.ok(200)["items"], json!([]));
}

/// HTTP-34.
async fn invalid_names_are_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    let long = "x".repeat(2_000);
    for name in ["%00", "%0A", "%1B%5B31m", "%7F", "%C2%85", "%FF", "%C3", &long] {
        for (method, path, body) in [
            (Method::PUT, format!("/v1/scopes/odd/{name}"), json!(1)),
            (Method::POST, format!("/v1/claims/{name}"), json!({ "lease_ms": 1000 })),
            (Method::POST, format!("/v1/locks/{name}"), json!({ "lease_ms": 1000 })),
            (Method::POST, format!("/v1/singletons/{name}"), json!({})),
            (Method::POST, format!("/v1/quotas/{name}/take"), json!({ "limit": 1, "units": 1 })),
            (Method::POST, format!("/v1/queues/{name}/items"), json!({ "key": "a" })),
            (
                Method::POST,
                format!("/v1/runs/{name}"),
                json!({ "workflow": "w", "version": 1, "input": 1 }),
            ),
            (Method::POST, format!("/v1/runs/{name}/signals"), json!({ "name": "s" })),
        ] {
            let refused = client.send_with(method, &path, &[], Some(&body)).await;
            assert_eq!(refused.problem().0, 400, "{path}");
        }
        let refused = client.get(&format!("/v1/reactions/{name}/targets")).await;
        assert!(matches!(refused.status, 200 | 400), "{name}: {refused:?}");
    }
}

over_sockets!(odd_names_round_trip, listed_lock_names_can_be_requested, invalid_names_are_refused,);
