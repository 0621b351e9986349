//! Connections that keep a server waiting: idle ones, half-sent ones, and ones that read no
//! response.

use std::io::ErrorKind;
use std::time::Duration;

use http::Method;
use serde_json::json;
use tidelock_http::Limits;
use tidelock_test_stage::{PATIENCE, TestStore, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{READER, Server, WRITER, tokens};

/// The number of connections, unless the machine allows for fewer: each has two ends in this
/// process.
const MANY: usize = 4096;
/// A short limit.
const SOON: Duration = Duration::from_millis(300);

fn many() -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    MANY.min(usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(2_000) / 2)
}

async fn start(stage: &TestStore, with: impl FnOnce(&mut Limits)) -> Server {
    let mut limits = Limits::default();
    with(&mut limits);
    Server::start_with(stage, |api| api.tokens(tokens()).limits(limits)).await
}

/// A connection on which this much of a request was sent.
async fn half(server: &Server, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    stream
}

/// The head of a request that announces so many bytes, of which none is sent.
fn bodiless(server: &Server, bytes: usize) -> String {
    format!(
        "POST /v1/streams/a/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {WRITER}\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n",
        server.address
    )
}

/// Everything received until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .expect("the server closes the connection");
    // Unread bytes of a request cause a reset.
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    String::from_utf8(rest).unwrap()
}

/// HTTP-38. Schedule 118. With as many idle connections as the server allows, a request is still
/// answered.
async fn health_checks_are_answered_despite_idle_connections(stage: TestStore) {
    let many = many();
    let server = start(&stage, |limits| limits.connections = many).await;
    let head = format!("GET /health HTTP/1.1\r\nhost: {}\r\n", server.address);
    for sent in ["", &head, &bodiless(&server, 9)] {
        let mut waiting = Vec::with_capacity(many);
        while waiting.len() < many {
            waiting.push(half(&server, sent).await);
        }
        for _ in 0..3 {
            assert_eq!(server.stranger().get("/health").await.ok(200), json!({ "status": "ok" }));
            assert_eq!(server.client(READER).get("/v1/whoami").await.status, 200);
        }
    }
    server.stop().await;
}

/// HTTP-38. An active connection is not evicted for a new one; with only active ones, a new client
/// is told that the server is full.
async fn an_active_connection_is_not_evicted(stage: TestStore) {
    let server = start(&stage, |limits| limits.connections = 2).await;
    let client = server.client(WRITER);
    let held = server.tidelock.claims().lock("door").acquire().await.unwrap().granted().unwrap();
    let patient = json!({ "lease_ms": 200, "wait_ms": 60_000 });
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (client, asked) =
                (client.clone(), client.request(Method::POST, "/v1/locks/door", Some(&patient)));
            tokio::spawn(async move { client.send(asked).await })
        })
        .collect();
    until("both wait for the lock", async || {
        let places = tidelock::store::RecordQuery::prefix("~claim-place/lock/door/");
        server.tidelock.store().scan(places).await.unwrap().records.len() == 2
    })
    .await;
    assert_eq!(server.stranger().get("/health").await.status, 200);
    assert_eq!(server.stranger().get("/ready").await.status, 200);
    let told = client.get("/v1/whoami").await;
    let comes_back = told.headers.contains_key("retry-after");
    assert_eq!((told.problem(), comes_back), ((503, "too-many-connections".into()), true));
    held.release().await.unwrap();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status, 201);
    }
    // The client has its responses before the server has counted the connections down.
    until("there is room again", async || client.get("/v1/whoami").await.status == 200).await;
    server.stop().await;
}

/// HTTP-38. Schedule 118. Each within its own limit; a missing body is answered before the
/// connection closes.
async fn every_idle_connection_is_closed_within_its_limit(stage: TestStore) {
    let server = start(&stage, |limits| (limits.head, limits.body) = (SOON, SOON)).await;
    assert_eq!(rest(half(&server, "").await).await, "", "nothing was sent");
    rest(half(&server, "GET /health HTTP/1.1\r\nhost: loc").await).await;
    let slow = rest(half(&server, &bodiless(&server, 9)).await).await;
    assert!(slow.starts_with("HTTP/1.1 408 ") && slow.contains("\"body-too-slow\""), "{slow}");
    let half_sent = rest(half(&server, &format!("{}{{\"eve", bodiless(&server, 900))).await).await;
    assert!(half_sent.starts_with("HTTP/1.1 408 "), "{half_sent}");
    let keyed = bodiless(&server, 9).replace("content-type", "idempotency-key: k\r\ncontent-type");
    assert!(rest(half(&server, &keyed).await).await.starts_with("HTTP/1.1 4"), "under a key too");
    let idle = rest(
        half(&server, &format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", server.address)).await,
    )
    .await;
    assert!(
        idle.starts_with("HTTP/1.1 200 "),
        "it had its response, and sent no further request: {idle}"
    );
    server.stop().await;
}

/// HTTP-38. A client that reads nothing of an event stream loses its place.
async fn a_response_that_is_not_read_is_dropped(stage: TestStore) {
    let server = start(&stage, |limits| (limits.taken, limits.streams) = (SOON, 1)).await;
    let large = json!({ "events": [{ "type": "noted", "data": "x".repeat(500_000) }] });
    for _ in 0..60 {
        server.client(WRITER).post("/v1/streams/large/events", &large).await.ok(201);
    }
    let ask = format!(
        "GET /v1/events/follow HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {READER}\r\n\r\n",
        server.address
    );
    let mut takes_nothing = half(&server, &ask).await;
    // The only place is taken once its response has begun.
    let mut begun = [0; 12];
    takes_nothing.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    let reader = server.client(READER);
    let open = async || {
        reader.open(reader.request(Method::GET, "/v1/events/follow?after=0", None)).await.status()
    };
    until("the stream is taken", async || open().await == 503).await;
    until("there is room again", async || open().await == 200).await;
    server.stop().await;
}

over_sockets!(
    an_active_connection_is_not_evicted,
    every_idle_connection_is_closed_within_its_limit,
    a_response_that_is_not_read_is_dropped,
);

/// Thousands of sockets behave the same for every store.
#[test]
fn health_checks_are_answered_despite_thousands_of_idle_connections() {
    tidelock_test_stage::for_real(
        TestStore::memory(),
        health_checks_are_answered_despite_idle_connections,
    );
}
