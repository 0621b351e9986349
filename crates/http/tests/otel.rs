//! Spans that reach a collector over OTLP: one trace from a request to the steps of a run.
//!
//! The collector is a stub on a loopback socket, which reads what it needs of the protobuf. The
//! server is another process, because a subscriber is global and the endpoint comes from the
//! environment.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use tidelock::prelude::*;
use tidelock::reactions::{ReactionCtx, ReactionFilter};
use tidelock_http::{Api, SpanExport, Tokens, serve};
use tidelock_test_stage::{Running, brisk, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing_subscriber::layer::SubscriberExt as _;

const ROLE: &str = "TIDELOCK_TEST_OTEL";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
/// In every payload, and in no span.
const CANARY: &str = "canary-7f3a";
const TOKEN: &str = "writer-token-0123456789";

/// A span as the collector got it.
#[derive(Debug, Clone, Default)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    attributes: BTreeMap<String, String>,
    links: usize,
}

/// The fields of a protobuf message: numbers with their bytes, or their integers.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8], u64)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        match tag & 7 {
            0 => found.push((tag >> 3, &message[..0], varint(&mut message))),
            1 => message = &message[8..],
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                let (bytes, rest) = message.split_at(length);
                found.push((tag >> 3, bytes, 0));
                message = rest;
            }
            5 => message = &message[4..],
            wire => panic!("wire type {wire}"),
        }
    }
    found
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = message[0];
        *message = &message[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The parts of a message under a field.
fn parts(message: &[u8], field: u64) -> Vec<&[u8]> {
    fields(message).into_iter().filter(|part| part.0 == field).map(|part| part.1).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// `ExportTraceServiceRequest.resource_spans.scope_spans.spans`.
fn spans(request: &[u8]) -> Vec<Span> {
    let scopes = parts(request, 1).into_iter().flat_map(|resource| parts(resource, 2));
    scopes.flat_map(|scope| parts(scope, 2)).map(span).collect()
}

fn span(message: &[u8]) -> Span {
    let mut span = Span::default();
    for (field, bytes, number) in fields(message) {
        match field {
            1 => span.trace = hex(bytes),
            2 => span.id = hex(bytes),
            4 => span.parent = hex(bytes),
            5 => span.name = text(bytes),
            6 => span.kind = number,
            9 => {
                let (key, value) = (text(parts(bytes, 1)[0]), fields(parts(bytes, 2)[0]));
                let value = match value[0] {
                    (1, bytes, _) => text(bytes),
                    (_, _, number) => number.to_string(),
                };
                span.attributes.insert(key, value);
            }
            13 => span.links += 1,
            _ => {}
        }
    }
    span
}

#[derive(Clone, Default)]
struct Collector {
    requests: Arc<Mutex<Vec<Bytes>>>,
}

impl Collector {
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let keep =
            async |State(to): State<Self>, body: Bytes| to.requests.lock().unwrap().push(body);
        let routes = Router::new().route("/v1/traces", post(keep)).with_state(collector.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
        (collector, url)
    }

    fn spans(&self) -> Vec<Span> {
        self.requests.lock().unwrap().iter().flat_map(|request| spans(request)).collect()
    }
}

/// TRACE-5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_reaches_the_collector_from_the_request_to_the_steps_of_a_run() {
    let (collector, url) = Collector::start().await;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "the_server"]).env(ROLE, "server").env("OTEL_SERVICE_NAME", "shop");
    child.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url).stdout(Stdio::null());
    let ended = tokio::task::spawn_blocking(move || child.status().unwrap()).await.unwrap();
    assert!(ended.success());

    let all = collector.spans();
    let named = |name: &str| {
        let found = all.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no span {name:?} in {all:#?}")).clone()
    };
    let request = named("POST /v1/streams/{stream}/events");
    assert_eq!((&*request.trace, &*request.parent, request.kind), (TRACE, PARENT, 2));
    assert_eq!(request.attributes["http.response.status_code"], "201");
    let handle = named("process label");
    assert_eq!((&handle.trace, &handle.parent, handle.kind), (&request.trace, &request.id, 5));
    assert_eq!(handle.attributes["messaging.system"], "tidelock");
    assert_eq!(handle.attributes["messaging.destination.name"], "order-7");
    let run = named("run delivery");
    assert_eq!((&run.trace, &run.parent), (&handle.trace, &handle.id));
    let step = named("step pack");
    assert_eq!((&step.trace, &step.parent), (&run.trace, &run.id));
    let commit = all.iter().find(|span| span.name == "commit").unwrap();
    assert_eq!((&*commit.attributes["db.system.name"], commit.kind), ("tidelock", 3));
    let several = named("process batch");
    assert_ne!(several.trace, TRACE, "it is part of neither trace");
    assert_eq!(several.links, 2, "and linked to both");
    assert!(all.iter().all(|span| span.name != "work"), "a lease is no span of a trace");

    let requests = collector.requests.lock().unwrap();
    let sent: Vec<u8> = requests.iter().flat_map(|request| request.to_vec()).collect();
    assert!(!sent.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()));
    assert!(sent.windows(4).any(|window| window == b"shop"), "the service has its name");
}

/// The process with the server: an application, and the HTTP API of its store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let export = SpanExport::from_environment().unwrap().expect("the parent names a collector");
    let subscriber = tracing_subscriber::registry().with(export.layer());
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let tidelock = Tidelock::open("memory:").await.unwrap();
    let packed = |ctx: RunCtx, order: String| async move {
        ctx.step("pack", |_| async { Ok::<_, HandlerError>(CANARY.to_owned()) }).await?;
        Ok::<_, StepError>(order)
    };
    let label = |event: tidelock::store::StoredEvent, ctx: ReactionCtx| async move {
        ctx.start("delivery", event.stream.as_str(), CANARY).await?;
        Ok(())
    };
    let batch = |_: Vec<tidelock::store::StoredEvent>, _: ReactionCtx| async { Ok(()) };
    let app = tidelock.app().worker(brisk("one")).workflow("delivery", packed);
    let app = app.reaction("label", on_any().in_streams("order-"), label);
    let app = app.batch_reaction("batch", on_any().in_streams("several"), 10, batch);
    append(&tidelock, "several").await;
    let running = Running::start(app);

    let tokens = Tokens::read(&format!("writer app {TOKEN}")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let api = Api::over(&tidelock).tokens(tokens);
    let served = tokio::spawn(serve(listener, api, None, async { drop(stopped.await) }));

    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = format!(r#"{{"events":[{{"type":"placed","data":"{CANARY}"}}]}}"#);
    let request = format!(
        "POST /v1/streams/order-7/events HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
         traceparent: 00-{TRACE}-{PARENT}-01\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let run = tidelock.runs().run("order-7");
    until("the run has completed", async || {
        run.get().await.is_ok_and(|run| run.state == tidelock::runs::RunState::Completed)
    })
    .await;
    let handled = ReactionFilter::named("batch");
    until("the batch was handled", async || {
        let targets = tidelock.reactions().list(&handled).all().await.unwrap();
        targets.iter().any(|target| target.at.get() == 2)
    })
    .await;
    running.stop().await;
    drop(stop);
    served.await.unwrap().unwrap();
    drop(export);
}

/// Two events of two traces.
async fn append(tidelock: &Tidelock, stream: &str) {
    use tidelock::store::{Commit, NewEvent, StreamName};
    let traced = |span| {
        let trace = tidelock::TraceContext::new(span, 1, true).unwrap();
        let metadata = tidelock::Metadata { trace: Some(trace), ..tidelock::Metadata::new() };
        NewEvent::of("noted", CANARY).unwrap().with_metadata(metadata.to_json().unwrap())
    };
    let stream = StreamName::new(stream).unwrap();
    let commit = Commit::new().append(&stream, ExpectedVersion::NoStream, [traced(1), traced(2)]);
    tidelock.store().commit(commit).await.unwrap().committed().unwrap();
}
