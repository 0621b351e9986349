//! Secrets and payloads are in no log.

use std::io::{self, Write};
use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use tidelock_http::Tokens;
use tidelock_test_stage::TestStore;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::harness::Server;

/// Captures everything that is logged, with the fields of spans.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn subscriber(&self) -> impl Subscriber + Send + Sync {
        let log = self.clone();
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_writer(move || log.clone())
            .finish()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const TOKEN: &str = "canary-token-0123456789";
const PAYLOAD: &str = "canary-payload";

/// HTTP-4. HTTP-11. Whatever goes well or wrong, and however much is logged.
#[test]
fn tokens_and_payloads_are_never_logged_or_returned() {
    let log = Log::default();
    // With a single subscriber, callsites that other tests reach first would be cached as disabled.
    let _another = tracing::Dispatch::new(Log::default().subscriber());
    let _guard = tracing::subscriber::set_default(log.subscriber());
    // One thread, so that everything is logged here.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(play());
    drop(runtime);
    let logged = String::from_utf8(log.0.lock().clone()).unwrap();
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
