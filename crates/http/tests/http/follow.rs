//! Following the feed by server-sent events.

use std::collections::VecDeque;

use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tidelock::store::StoreExt;
use tidelock_test_stage::{PATIENCE, TestStore, append, until};

use crate::harness::{READER, Server, WRITER, tokens};

/// A client that follows.
pub(crate) struct Listener {
    response: Response<Incoming>,
    text: String,
    events: VecDeque<(Option<u64>, String, Value)>,
}

impl Listener {
    pub(crate) async fn open(server: &Server, path: &str, last: Option<&str>) -> Self {
        let client = server.client(READER);
        let mut request = client.request(Method::GET, path, None);
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", last.parse().unwrap());
        }
        let response = client.open(request).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        Self { response, text: String::new(), events: VecDeque::new() }
    }

    /// The next event; `None` once the stream has ended.
    async fn next(&mut self) -> Option<(Option<u64>, String, Value)> {
        while self.events.is_empty() {
            let frame = tokio::time::timeout(PATIENCE, self.response.frame())
                .await
                .expect("something comes")?;
            self.text.push_str(std::str::from_utf8(frame.ok()?.data_ref()?).unwrap());
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                self.events.extend(parsed(&event));
            }
        }
        self.events.pop_front()
    }

    /// The data of the next events.
    pub(crate) async fn data(&mut self, count: usize) -> Vec<Value> {
        let mut data = Vec::new();
        while data.len() < count {
            data.push(self.next().await.expect("the stream goes on").2["data"].clone());
        }
        data
    }
}

/// The event in these lines; `None` for a comment.
fn parsed(lines: &str) -> Option<(Option<u64>, String, Value)> {
    let field = |name: &str| {
        lines
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    };
    let data = serde_json::from_str(&field("data")?).unwrap();
    Some((field("id").map(|id| id.parse().unwrap()), field("event").unwrap(), data))
}

async fn note(server: &Server, stream: &str, numbers: std::ops::Range<u64>) {
    for chunk in numbers.collect::<Vec<_>>().chunks(100) {
        let events: Vec<_> = chunk.iter().map(|n| json!({ "type": "noted", "data": n })).collect();
        server
            .client(WRITER)
            .post(&format!("/v1/streams/{stream}/events"), &json!({ "events": events }))
            .await
            .ok(201);
    }
}

/// HTTP-12. Existing and new events, during concurrent appends.
async fn a_follower_sees_every_event_once_and_in_order(stage: TestStore) {
    let server = Server::start(&stage).await;
    let start = server.tidelock.store().feed_end().await.unwrap();
    note(&server, "a", 0..250).await;
    let mut listener =
        Listener::open(&server, &format!("/v1/events/follow?after={start}"), None).await;
    let (appended, seen) = tokio::join!(note(&server, "a", 250..700), listener.data(700));
    let () = appended;
    assert_eq!(seen, (0..700).map(Value::from).collect::<Vec<_>>());
    server.stop().await;
}

/// HTTP-12. After a disconnect, from the id of the last event: `Last-Event-ID` takes precedence
/// over `after`.
async fn a_follower_resumes_after_its_last_event(stage: TestStore) {
    let server = Server::start(&stage).await;
    note(&server, "a", 0..5).await;
    note(&server, "b", 5..7).await;
    let mut first = Listener::open(&server, "/v1/events/follow?types=noted", None).await;
    let (id, name, event) = first.next().await.unwrap();
    assert_eq!(
        (name.as_str(), &event["data"], &event["position"]),
        ("event", &json!(0), &json!(id))
    );
    drop(first);
    let last = id.unwrap().to_string();
    let mut second = Listener::open(&server, "/v1/events/follow?after=0", Some(&last)).await;
    assert_eq!(second.data(6).await, (1..7).map(Value::from).collect::<Vec<_>>());
    let mut other = Listener::open(&server, "/v1/events/follow?stream=b", None).await;
    assert_eq!(other.data(2).await, [json!(5), json!(6)]);
    let client = server.client(READER);
    client.get("/v1/events/follow?after=999999").await.refused(410, "position-unknown");
    client
        .send_with(Method::GET, "/v1/events/follow", &[("last-event-id", "x")], None)
        .await
        .refused(400, "position-invalid");
}

/// HTTP-13. A reader that reads nothing does not block writers.
async fn a_reader_that_reads_nothing_does_not_slow_writers(stage: TestStore) {
    let server = Server::start(&stage).await;
    let slow = Listener::open(&server, "/v1/events/follow", None).await;
    let large = json!({ "events": [{ "type": "noted", "data": "x".repeat(200_000) }] });
    for _ in 0..40 {
        server.client(WRITER).post("/v1/streams/large/events", &large).await.ok(201);
    }
    let mut quick = Listener::open(&server, "/v1/events/follow", None).await;
    assert_eq!(quick.data(40).await.len(), 40);
    drop(slow);
    server.stop().await;
}

/// HTTP-14. Beyond the limit, with `Retry-After`; a closed stream makes room.
async fn the_number_of_open_streams_is_limited(stage: TestStore) {
    let server = Server::start_with(&stage, |api| {
        let mut limits = tidelock_http::Limits::default();
        limits.streams = 2;
        api.tokens(tokens()).limits(limits)
    })
    .await;
    let first = Listener::open(&server, "/v1/events/follow", None).await;
    let second = Listener::open(&server, "/v1/overview/live", None).await;
    let refused = server.client(READER).get("/v1/events/follow").await;
    assert_eq!(
        (refused.problem(), &refused.headers["retry-after"]),
        ((503, "too-many-streams".into()), &"1".parse().unwrap())
    );
    drop(first);
    until("there is room again", async || {
        let client = server.client(READER);
        client.open(client.request(Method::GET, "/v1/events/follow", None)).await.status() == 200
    })
    .await;
    drop(second);
}

/// HTTP-15. Streams end when the server does, and the server when they have.
async fn streams_end_with_the_server(stage: TestStore) {
    let server = Server::start(&stage).await;
    let start = server.tidelock.store().feed_end().await.unwrap();
    append(&server.tidelock, "a", "noted", &json!(1)).await;
    let mut listener =
        Listener::open(&server, &format!("/v1/events/follow?after={start}"), None).await;
    listener.data(1).await;
    let mut live = Listener::open(&server, "/v1/overview/live", None).await;
    assert_eq!(live.next().await.unwrap().1, "sample");
    server.stop().await;
    assert_eq!(listener.next().await, None);
    while live.next().await.is_some() {}
}

over_sockets!(
    a_follower_sees_every_event_once_and_in_order,
    a_follower_resumes_after_its_last_event,
    a_reader_that_reads_nothing_does_not_slow_writers,
    the_number_of_open_streams_is_limited,
    streams_end_with_the_server,
);
