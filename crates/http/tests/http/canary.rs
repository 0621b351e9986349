//! Secrets and payloads are in no log.

use std::fmt;
use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::json;
use tidelock_http::Tokens;
use tidelock_test_stage::TestStore;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::harness::Server;

/// Captures everything that is logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut log = self.0.lock().unwrap();
        log.push_str(&format!("{field}={value:?}\n"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

const TOKEN: &str = "canary-token-0123456789";
const PAYLOAD: &str = "canary-payload";

/// HTTP-4. HTTP-11. Whatever goes well or wrong, and however much is logged.
#[test]
fn tokens_and_payloads_are_never_logged_or_returned() {
    let log = Log::default();
    // With a single subscriber, callsites that other tests reach first would be cached as disabled.
    let _another = tracing::Dispatch::new(Log::default());
    let _guard = tracing::subscriber::set_default(log.clone());
    // One thread, so that everything is logged here.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(play());
    drop(runtime);
    let logged = log.0.lock().unwrap();
    assert!(logged.contains("store-unavailable"), "something is logged at all: {logged}");
    assert!(!logged.contains("canary"), "{logged}");
}

async fn play() {
    let stage = TestStore::sqlite();
    let server = Server::start_with(&stage, |api| {
        api.tokens(Tokens::read(&format!("operator olga {TOKEN}")).unwrap())
    })
    .await;
    let client = server.client(TOKEN);
    let good = json!({ "events": [{ "type": "noted", "data": PAYLOAD, "metadata": { "note": PAYLOAD } }] });
    let bad = json!({ "events": [{ "type": "noted", "data": PAYLOAD, "extra": PAYLOAD }], "expected": PAYLOAD });
    client
        .send_with(Method::POST, "/v1/streams/a/events", &[("idempotency-key", "k")], Some(&good))
        .await
        .ok(201);
    let mut told = Vec::new();
    told.push(
        client
            .send_with(Method::POST, "/v1/streams/a/events", &[("if-match", "\"7\"")], Some(&good))
            .await,
    );
    told.push(client.post("/v1/streams/a/events", &bad).await);
    told.push(client.post("/v1/streams", &bad).await);
    told.push(server.client("canary-token-unknown").get("/v1/streams").await);
    told.push(
        server
            .stranger()
            .send_with(Method::GET, "/v1/streams", &[("authorization", "Basic canary")], None)
            .await,
    );
    server.tidelock.store().close().await.unwrap();
    told.push(client.post("/v1/streams/a/events", &good).await);
    told.push(client.get("/ready").await);
    for told in told {
        assert!(told.status >= 400, "{told:?}");
        assert!(!String::from_utf8_lossy(&told.body).contains("canary"), "{told:?}");
    }
}
