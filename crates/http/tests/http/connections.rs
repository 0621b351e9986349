//! Connections that keep a server waiting: idle ones, half-sent ones, and ones that take no answer.

use std::io::ErrorKind;
use std::time::Duration;

use http::Method;
use serde_json::json;
use tidelock_http::Limits;
use tidelock_test_stage::{PATIENCE, TestStore, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ground::{READER, Server, WRITER, tokens};

/// So many connections at once, unless the machine allows for fewer: each has two ends in this
/// process.
const MANY: usize = 4096;
/// A limit that comes soon.
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

/// A connection on which this much of a request is sent.
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

/// All that still comes over a connection until the server lets go of it.
async fn rest(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .expect("the server lets go");
    // What it never read of a request is answered with a reset.
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    String::from_utf8(rest).unwrap()
}

/// HTTP-38. Schedule 118. As many as the server takes, none of which asks for anything: whoever
/// does is answered.
async fn health_checks_are_answered_however_many_connections_wait(stage: TestStore) {
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

/// HTTP-38. Whoever has asked is not cut off for the sake of somebody who has not; and if there is
/// nothing but such, it is said that there is no room.
async fn whoever_is_worked_for_keeps_the_connection(stage: TestStore) {
    let server = start(&stage, |limits| limits.connections = 2).await;
    let client = server.client(WRITER);
    let held = server.tidelock.claims().lock("door").acquire().await.unwrap().locked().unwrap();
    let patient = json!({ "lease_ms": 200, "wait_ms": 60_000 });
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (client, asked) =
                (client.clone(), client.request(Method::POST, "/v1/locks/door", Some(&patient)));
            tokio::spawn(async move { client.send(asked).await })
        })
        .collect();
    until("both stand in line", async || {
        let places = tidelock::RecordQuery::prefix("~claim-place/lock/door/");
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
    // The client has its answers before the server has counted the connections down.
    until("there is room again", async || client.get("/v1/whoami").await.status == 200).await;
    server.stop().await;
}

/// HTTP-38. Schedule 118. Each within its own limit, and a body that does not come is answered
/// before.
async fn every_connection_that_waits_is_let_go_within_its_limit(stage: TestStore) {
    let server = start(&stage, |limits| (limits.head, limits.body) = (SOON, SOON)).await;
    assert_eq!(rest(half(&server, "").await).await, "", "it never said anything");
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
        "it had its answer, and asked for nothing more: {idle}"
    );
    server.stop().await;
}

/// HTTP-38. Somebody who takes nothing of an event stream gives its place to others.
async fn an_answer_that_is_not_taken_is_let_go(stage: TestStore) {
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
    // The only place is its own once its answer has begun.
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
    whoever_is_worked_for_keeps_the_connection,
    every_connection_that_waits_is_let_go_within_its_limit,
    an_answer_that_is_not_taken_is_let_go,
);

/// Sockets by the thousand are the same for every store.
#[test]
fn health_checks_are_answered_however_many_connections_wait_there() {
    tidelock_test_stage::for_real(
        TestStore::memory(),
        health_checks_are_answered_however_many_connections_wait,
    );
}
