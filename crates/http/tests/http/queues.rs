//! Workers in any language: they enqueue, lease, renew and settle over HTTP, with nothing but keys
//! and fences.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use serde_json::{Value, json};
use tidelock::Tidelock;
use tidelock::store::{Result, StoreOperation};
use tidelock_http::Api;
use tidelock_test_stage::{Interceptor, Observed, TestStore, Wrapped, until};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::harness::{Client, READER, Server, WRITER, tokens};

const QUEUE: &str = "/v1/queues/mail";

async fn put(client: &Client, body: Value) {
    client.post(&format!("{QUEUE}/items"), &body).await.ok(201);
}

async fn lease(client: &Client, body: Value) -> Vec<Value> {
    let leased = client.post(&format!("{QUEUE}/lease"), &body).await.ok(200);
    leased["items"].as_array().unwrap().clone()
}

async fn settle(client: &Client, items: Value) -> Value {
    client.post(&format!("{QUEUE}/settle"), &json!({ "items": items })).await.ok(200)["items"]
        .clone()
}

async fn states(client: &Client, state: &str) -> Vec<Value> {
    let page = client.get(&format!("{QUEUE}/items?state={state}")).await.ok(200);
    page["items"].as_array().unwrap().clone()
}

fn ack(item: &Value) -> Value {
    json!({ "key": item["key"], "fence": item["fence"], "outcome": "ack" })
}

/// HTTP-31. One worker dies: its items are done by the other, and its late settlement changes
/// nothing.
async fn a_queue_is_drained_although_a_worker_dies(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (one, other) = (here.client(WRITER), there.client(WRITER));
    for nth in 0..12 {
        put(&one, json!({ "key": format!("letter-{nth}"), "data": { "nth": nth } })).await;
    }
    let dying = lease(&one, json!({ "worker": "dying", "lease_ms": 50, "limit": 3 })).await;
    assert_eq!((dying.len(), &dying[0]["attempts"]), (3, &json!(1)));
    let (mut done, mut fences) = (BTreeSet::new(), BTreeMap::new());
    while done.len() < 12 {
        let leased = lease(
            &other,
            json!({ "worker": "w", "lease_ms": 60_000, "limit": 5, "wait_ms": 60_000 }),
        )
        .await;
        let acks: Vec<Value> = leased.iter().map(ack).collect();
        for item in &leased {
            fences.insert(item["key"].to_string(), item["fence"].as_u64().unwrap());
            assert!(
                done.insert(item["data"]["nth"].as_u64().unwrap()),
                "nothing is done twice: {item}"
            );
        }
        for settled in settle(&other, json!(acks)).await.as_array().unwrap() {
            assert_eq!(settled["outcome"], "settled");
        }
    }
    for item in &dying {
        let before = item["fence"].as_u64().unwrap();
        assert!(
            fences[&item["key"].to_string()] > before,
            "an item of the dead worker has a higher fence"
        );
    }
    for settled in
        settle(&one, json!(dying.iter().map(ack).collect::<Vec<_>>())).await.as_array().unwrap()
    {
        assert_eq!(settled["outcome"], "lost");
    }
    assert_eq!(states(&one, "idle").await.len(), 12);
    assert!(lease(&one, json!({ "lease_ms": 1000 })).await.is_empty());
}

/// HTTP-33.
async fn work_is_settled_with_every_outcome(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    for key in ["ack", "again", "block", "defer", "release"] {
        put(&client, json!({ "key": key, "priority": 7, "lane": "slow" })).await;
    }
    put(&client, json!({ "key": "later", "in_ms": 3_600_000 })).await;
    put(&client, json!({ "key": "long ago", "due_at": "2020-01-01T00:00:00Z", "mark": 4 })).await;
    assert!(lease(&client, json!({ "lease_ms": 1000, "lane": "quick" })).await.is_empty());
    let leased = lease(&client, json!({ "lease_ms": 60_000, "limit": 10 })).await;
    assert_eq!(leased.len(), 6);
    let of = |key: &str| leased.iter().find(|item| item["key"] == key).unwrap();
    assert_eq!(
        (&of("ack")["priority"], &of("ack")["lane"], &of("long ago")["mark"]),
        (&json!(7), &json!("slow"), &json!(4))
    );
    let renewing = json!({ "lease_ms": 90_000, "items": [
        { "key": "ack", "fence": of("ack")["fence"] }, { "key": "ack", "fence": 99 },
    ]});
    let renewed = client.post(&format!("{QUEUE}/renew"), &renewing).await.ok(200)["items"].clone();
    assert_eq!(
        (&renewed[0]["outcome"], &renewed[1]["outcome"]),
        (&json!("renewed"), &json!("lost"))
    );
    assert!(renewed[0]["until"].as_str() > of("ack")["until"].as_str());
    let settled = settle(&client, json!([
        ack(of("ack")),
        { "key": "again", "fence": of("again")["fence"], "outcome": "retry", "after_ms": 60_000, "error": "no stamps" },
        { "key": "block", "fence": of("block")["fence"], "outcome": "block", "error": "no address" },
        { "key": "defer", "fence": of("defer")["fence"], "outcome": "defer", "after_ms": 60_000 },
        { "key": "release", "fence": of("release")["fence"], "outcome": "release" },
        { "key": "long ago", "fence": of("long ago")["fence"], "outcome": "ack", "done": 4 },
        { "key": "unknown", "fence": 1, "outcome": "ack" },
    ]))
    .await;
    let outcomes: Vec<_> =
        settled.as_array().unwrap().iter().map(|item| item["outcome"].as_str().unwrap()).collect();
    assert_eq!(
        outcomes,
        ["settled", "settled", "settled", "settled", "settled", "settled", "lost"]
    );
    let reader = server.client(READER);
    let waiting = states(&reader, "waiting").await;
    assert_eq!(
        (waiting.len(), &waiting[0]["error"], &waiting[0]["failures"]),
        (2, &json!("no stamps"), &json!(1))
    );
    let blocked = states(&reader, "blocked").await;
    assert_eq!((&blocked[0]["key"], &blocked[0]["error"]), (&json!("block"), &json!("no address")));
    assert_eq!(states(&reader, "due").await[0]["key"], "release");
    assert_eq!(states(&reader, "scheduled").await[0]["key"], "later");
    assert_eq!(states(&reader, "idle").await.len(), 2);
}

/// Lets leases be granted, and delays their responses until it is allowed.
#[derive(Debug)]
struct SlowAnswers {
    granted: Arc<Semaphore>,
    allowed: Arc<Semaphore>,
}

impl Interceptor for SlowAnswers {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = call.await;
        if operation == StoreOperation::Lease {
            self.granted.add_permits(1);
            self.allowed.acquire().await.unwrap().forget();
        }
        answer
    }
}

/// Notes that a request was dropped before its response.
struct Unanswered(Option<Observed>);

impl Unanswered {
    fn answer(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(seen) = self.0.take() {
            seen.note("hung up");
        }
    }
}

/// A server that notes clients that disconnect.
async fn watched(tidelock: &Tidelock, left: &Observed) -> SocketAddr {
    let watch = left.clone();
    let layer = from_fn(move |request: Request, next: Next| {
        let mut unanswered = Unanswered(Some(watch.clone()));
        async move {
            let response = next.run(request).await;
            unanswered.answer();
            response
        }
    });
    let app = Api::over(tidelock).tokens(tokens()).router().layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// HTTP-32: neither while it waits, nor when it disconnects between the grant and the response.
async fn a_long_poll_whose_client_disconnects_leaves_no_lease(stage: TestStore) {
    let own = Server::start(&stage).await;
    let client = own.client(WRITER);
    let (granted, allowed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let between = SlowAnswers { granted: granted.clone(), allowed: allowed.clone() };
    let slow = Tidelock::over(Wrapped::new(stage.store().await, between));
    let left = Observed::default();
    let gone = Client::to(watched(&slow, &left).await, WRITER);
    let poll = || {
        let gone = gone.clone();
        let asked = json!({ "worker": "gone", "lease_ms": 600_000, "wait_ms": 60_000 });
        tokio::spawn(async move { gone.post(&format!("{QUEUE}/lease"), &asked).await })
    };
    let waiting = poll();
    granted.acquire().await.unwrap().forget();
    allowed.add_permits(1);
    waiting.abort();
    left.until(1).await;
    put(&client, json!({ "key": "letter" })).await;
    // A poll in flight when the client disconnected may find it, and releases it.
    until("nothing waits for it any more", async || states(&client, "due").await.len() == 1).await;
    let granting = poll();
    until("it is granted", async || states(&client, "held").await.len() == 1).await;
    granting.abort();
    left.until(2).await;
    // The first poll may have asked again before its client was seen to be gone: its answer is
    // held back, too.
    allowed.add_permits(10);
    until("it was released", async || states(&client, "due").await.len() == 1).await;
    assert_eq!(lease(&client, json!({ "lease_ms": 60_000 })).await.len(), 1);
}

/// HTTP-33. HTTP-36.
async fn invalid_queue_requests_are_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    for body in [
        json!({}),
        json!({ "key": "" }),
        json!({ "key": "a\u{7}" }),
        json!({ "key": "a", "due_at": "tomorrow" }),
        json!({ "key": "a", "due_at": "2030-01-01T00:00:00Z", "in_ms": 1 }),
        json!({ "key": "a", "priority": 101 }),
        json!({ "key": "a", "in_ms": u64::MAX }),
        json!({ "key": "x".repeat(300) }),
    ] {
        assert_eq!(client.post(&format!("{QUEUE}/items"), &body).await.problem().0, 400, "{body}");
    }
    for body in [
        json!({ "lease_ms": 0 }),
        json!({ "lease_ms": 1, "limit": 0 }),
        json!({ "lease_ms": 1, "limit": 1001 }),
        json!({ "lease_ms": 1, "worker": "" }),
    ] {
        assert_eq!(client.post(&format!("{QUEUE}/lease"), &body).await.problem().0, 400, "{body}");
    }
    for item in [
        json!({ "key": "a", "fence": 1, "outcome": "shrug" }),
        json!({ "key": "a", "fence": 1, "outcome": "ack", "error": "but" }),
        json!({ "key": "a", "fence": 1, "outcome": "block", "after_ms": 1 }),
        json!({ "key": "a", "fence": 0, "outcome": "ack" }),
    ] {
        let body = json!({ "items": [item] });
        assert_eq!(client.post(&format!("{QUEUE}/settle"), &body).await.problem().0, 400, "{body}");
    }
    let twice = json!({ "key": "a", "fence": 1, "outcome": "ack" });
    let twice = client.post(&format!("{QUEUE}/settle"), &json!({ "items": [twice, twice] })).await;
    assert_eq!(twice.problem().0, 400);
    for (path, body) in [
        ("items", json!({ "key": "a" })),
        ("lease", json!({ "lease_ms": 1000 })),
        ("renew", json!({ "lease_ms": 1000, "items": [] })),
        ("settle", json!({ "items": [{ "key": "a", "fence": 1, "outcome": "ack" }] })),
    ] {
        let refused = client.post(&format!("/v1/queues/~reaction%2Fmail/{path}"), &body).await;
        assert_eq!(refused.problem(), (403, "name-reserved".into()), "{path}");
    }
    assert_eq!(client.get("/v1/queues/~reaction%2Fmail/items").await.ok(200)["items"], json!([]));
    assert_eq!(client.get(&format!("{QUEUE}/items?state=bored")).await.problem().0, 400);
    assert_eq!(client.get(&format!("{QUEUE}/items?after=x")).await.problem().0, 400);
}

over_sockets!(
    a_queue_is_drained_although_a_worker_dies,
    work_is_settled_with_every_outcome,
    a_long_poll_whose_client_disconnects_leaves_no_lease,
    invalid_queue_requests_are_refused,
);
