//! Work items of every queue, and operators' actions on them.

use serde_json::{Value, json};
use tidelock_test_stage::{TestStore, past};

use crate::harness::{Client, OPERATOR, READER, Server};

async fn blocked(server: &Server, keys: &[&str]) {
    let queue = server.tidelock.queue("mail");
    for key in keys {
        queue.enqueue(key).await.unwrap();
    }
    let taken = queue.lease("w").limit(keys.len()).await.unwrap();
    let blocks = taken
        .iter()
        .map(|taken| tidelock::store::Settlement::block(taken.lease.token(), "no stamps"));
    queue.settle(blocks.collect()).await.unwrap();
}

async fn keys(client: &Client, query: &str) -> Vec<String> {
    let page = client.get(&format!("/v1/leases?{query}")).await.ok(200);
    let items = page["items"].as_array().unwrap().iter().filter(|item| !past::left_item(item));
    items.map(|item| item["key"].as_str().unwrap().to_owned()).collect()
}

async fn adjust(client: &Client, verb: &str, body: Value) -> (Value, Value) {
    let told = client.post(&format!("/v1/leases/{verb}"), &body).await.ok(200);
    (told["matched"].clone(), told["changed"].clone())
}

/// HTTP-35.
async fn operators_change_the_selected_items(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    blocked(&server, &["a-1", "a-2", "b-1"]).await;
    assert_eq!(keys(&reader, "queue=ma*&state=blocked").await, ["a-1", "a-2", "b-1"]);
    let family = |dry_run: bool| json!({ "queue": "mail", "pattern": "a-*", "dry_run": dry_run });
    assert_eq!(adjust(&operator, "unblock", family(true)).await, (json!(2), json!(0)));
    assert_eq!(keys(&reader, "state=blocked").await.len(), 3, "nothing was changed");
    assert_eq!(adjust(&operator, "unblock", family(false)).await, (json!(2), json!(2)));
    assert_eq!(keys(&reader, "state=due&key=a*").await, ["a-1", "a-2"]);
    let one = |more: (&str, Value)| {
        let mut body = json!({ "queue": "mail", "key": "a-1" });
        body[more.0] = more.1;
        body
    };
    assert_eq!(adjust(&operator, "prioritize", one(("priority", json!(9)))).await.1, 1);
    assert_eq!(adjust(&operator, "defer", one(("in_ms", json!(60_000)))).await.1, 1);
    assert_eq!(keys(&reader, "state=waiting").await, ["a-1"]);
    let until = one(("until", json!("2020-01-01T00:00:00Z")));
    assert_eq!(adjust(&operator, "defer", until).await.1, 1);
    assert_eq!(keys(&reader, "state=due").await, ["a-1", "a-2"]);
    let taken = server.tidelock.queue("mail").lease("holder-7").limit(2).await.unwrap();
    assert_eq!(taken[0].lease.item.key.as_str(), "a-1", "it is more urgent");
    let held = reader.get("/v1/leases?state=held&holder=holder-7").await.ok(200);
    assert_eq!(
        (held["items"].as_array().unwrap().len(), &held["items"][0]["holder"]["worker"]),
        (2, &json!("holder-7"))
    );
    assert_eq!(keys(&reader, "holder=unknown").await.len(), 0);
    assert_eq!(adjust(&operator, "reset", json!({ "queue": "mail", "key": "a-1" })).await.1, 1);
    assert_eq!(keys(&reader, "state=held").await, ["a-2"]);
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = reader.get(&format!("/v1/leases?limit=1{after}")).await.ok(200);
        let items = page["items"].as_array().unwrap();
        seen += items.iter().filter(|item| !past::left_item(item)).count();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, 3);
    let audited = reader.get("/v1/audit").await.ok(200).to_string();
    assert!(audited.contains("olga") && audited.contains("/v1/leases/reset"), "{audited}");
}

/// HTTP-33.
async fn invalid_operator_requests_are_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let operator = server.client(OPERATOR);
    for (verb, body) in [
        ("unblock", json!({})),
        ("unblock", json!({ "queue": "" })),
        ("unblock", json!({ "queue": "mail", "key": "a", "pattern": "a*" })),
        ("unblock", json!({ "queue": "mail", "priority": 1 })),
        ("defer", json!({ "queue": "mail" })),
        ("defer", json!({ "queue": "mail", "in_ms": 1, "until": "2030-01-01T00:00:00Z" })),
        ("prioritize", json!({ "queue": "mail", "priority": 101 })),
        ("prioritize", json!({ "queue": "mail" })),
        ("reset", json!({ "queue": "mail", "to": -1 })),
        ("unblock", json!({ "queue": "mail", "key": "a".repeat(257) })),
    ] {
        assert_eq!(
            operator.post(&format!("/v1/leases/{verb}"), &body).await.problem().0,
            400,
            "{verb} {body}"
        );
    }
    server.tidelock.queue("mail").enqueue("z").await.unwrap();
    // No name is longer than the limit.
    let like = |many: usize| json!({ "queue": "mail", "pattern": "a".repeat(many) });
    operator.post("/v1/leases/unblock", &like(256)).await.ok(200);
    let refused = operator.post("/v1/leases/unblock", &like(257)).await;
    refused.refused(400, "name-too-long");
}

over_sockets!(operators_change_the_selected_items, invalid_operator_requests_are_refused);
