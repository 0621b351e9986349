//! Refusals name what is wrong: limits with the field that exceeded them, and unknown names.

use http::Method;
use serde_json::{Value, json};
use tidelock::store::{Commit, ItemRef, Mark, Settlement, Wake};
use tidelock_test_stage::TestStore;

use crate::harness::{OPERATOR, Server, WRITER};

/// JSON nested so deep, around a value that must not be quoted.
fn deep(levels: usize) -> String {
    format!("{}\"canary\"{}", "[".repeat(levels), "]".repeat(levels))
}

/// Every place of the API that accepts arbitrary JSON: the request, with a gap for the JSON, and
/// its field.
const PLACES: &[(&str, &str, &str, &str)] = &[
    (
        "POST",
        "/v1/streams/a/events",
        r#"{"events":[{"type":"t","data":1},{"type":"t","data":JSON}]}"#,
        "events[1].data",
    ),
    (
        "POST",
        "/v1/streams/a/events",
        r#"{"events":[{"type":"t","data":1,"metadata":{"m":JSON}}]}"#,
        "events[0].metadata",
    ),
    ("POST", "/v1/queues/mail/items", r#"{"key":"a","data":JSON}"#, "data"),
    ("POST", "/v1/runs/r", r#"{"workflow":"w","version":1,"input":JSON}"#, "input"),
    ("POST", "/v1/runs/r/signals", r#"{"name":"go","payload":JSON}"#, "payload"),
    ("POST", "/v1/runs/r/resolve", r#"{"step":"s","verdict":"done","result":JSON}"#, "result"),
    ("POST", "/v1/claims/c", r#"{"lease_ms":1000,"fingerprint":JSON}"#, "fingerprint"),
    ("POST", "/v1/claims/c/complete", r#"{"fence":1,"result":JSON}"#, "result"),
    ("POST", "/v1/singletons/s", r#"{"details":JSON}"#, "details"),
    ("PUT", "/v1/scopes/user/ada", "JSON", ""),
    ("PATCH", "/v1/scopes/user/ada", r#"{"a":JSON}"#, ""),
    ("POST", "/v1/scopes/user/ada/push", r#"{"at":"list","value":JSON}"#, ""),
    ("POST", "/v1/scopes/user/ada/entries", r#"{"at":"map","key":"k","value":JSON}"#, ""),
];

async fn send(server: &Server, method: &str, path: &str, body: &str) -> (u16, Value) {
    let client = server.client(OPERATOR);
    let mut request =
        client.request(Method::from_bytes(method.as_bytes()).unwrap(), path, Some(&json!({})));
    *request.body_mut() = body.to_owned().into();
    let reply = client.send(request).await;
    assert!(!String::from_utf8_lossy(&reply.body).contains("canary"), "{reply:?}");
    (reply.problem().0, reply.json())
}

/// HTTP-11. One level too many, twice as many as are parsed, and enough to overflow a stack.
async fn json_that_is_too_deep_is_refused_with_its_name_and_limit(stage: TestStore) {
    let server = Server::start(&stage).await;
    for (method, path, body, field) in PLACES {
        for levels in [65, 130, 10_000] {
            let (status, problem) =
                send(&server, method, path, &body.replace("JSON", &deep(levels))).await;
            let detail = problem["detail"].as_str().unwrap();
            assert_eq!(status, 400, "{method} {path} at {levels}: {problem}");
            assert!(
                detail.contains("too deep; the limit is 64 levels"),
                "{method} {path} at {levels}: {detail}"
            );
            assert!(detail.contains(field), "{method} {path} at {levels}: {detail}");
        }
    }
    server.stop().await;
}

/// HTTP-11. Valid JSON of another form: it is not called invalid, and the place is named.
async fn json_of_another_form_is_refused_with_its_place(stage: TestStore) {
    let server = Server::start(&stage).await;
    let append = "/v1/streams/a/events";
    let commits = "/v1/commits";
    for (path, body, says) in [
        // A list in the place of an object.
        (append, r#"[[{"type":"t","data":1}],null]"#, "expected an object"),
        (append, r#"{"events":[["t",1]]}"#, "field events[0]: expected an object"),
        (commits, r#"{"appends":[["s",[]]]}"#, "field appends[0]: expected an object"),
        (
            commits,
            r#"{"records":[{"key":"a","change":{"add":[1]}}]}"#,
            "field records[0].change: expected an object",
        ),
        ("/v1/queues/mail/lease", "[1000]", "expected an object"),
        // A value that no variant has, which the parser calls a syntax error.
        (
            commits,
            r#"{"records":[{"key":"a","change":7}]}"#,
            "field records[0].change does not accept",
        ),
        (
            commits,
            r#"{"records":[{"key":"a","change":{"put":1,"delete":null}}]}"#,
            "field records[0].change does not accept",
        ),
        // Another type.
        (commits, r#"{"appends":{}}"#, "field appends: expected a sequence"),
        (
            commits,
            r#"{"quotas":[{"key":"q","take":{"limit":"many"}}]}"#,
            "field quotas[0].take.limit: expected a whole number",
        ),
        (commits, r#"{"scopes":[{"kind":"k"}]}"#, "field scopes[0]: missing field `id`"),
        (
            commits,
            r#"{"appends":[{"stream":"s","events":[{"type":"t","data":1,"metadata":"x"}]}]}"#,
            "field appends[0].events[0].metadata: expected an object",
        ),
        (
            append,
            r#"{"events":[{"type":"t","data":1,"metadata":[1]}]}"#,
            "field events[0].metadata: expected an object",
        ),
    ] {
        let (status, problem) = send(&server, "POST", path, body).await;
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!((status, &problem["code"]), (400, &json!("body-invalid")), "{problem}");
        assert!(detail.contains(says) && !detail.contains("not JSON"), "{body}: {detail}");
    }
    let named = r#"{"workflow":"w","version":1,"input":1,"attributes":{"canary":7}}"#;
    let (_, problem) = send(&server, "POST", "/v1/runs/r", named).await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("field attributes: expected a string"), "{detail}");
    for body in ["{", r#"{"appends":["#, r#"{"records":[{"key":"a","change":{"put":"#, "{}x"] {
        let (status, problem) = send(&server, "POST", commits, body).await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 400 && detail.contains("it is not JSON"), "{body}: {detail}");
    }
    server.stop().await;
}

/// HTTP-11. Before a byte of it is sent, on every route that takes a body, with a key and without.
async fn an_announced_body_that_is_too_large_is_refused_at_once(stage: TestStore) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start(&stage).await;
    for route in tidelock_http::Api::over(&server.tidelock).routes() {
        let takes_a_body = matches!(route.method, Method::POST | Method::PUT | Method::PATCH);
        if !takes_a_body {
            continue;
        }
        let path = route.path.replace(['{', '}'], "");
        for key in ["", "Idempotency-Key: a\r\n"] {
            let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
            let head = format!(
                "{} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR}\r\n\
                 Content-Type: application/json\r\nContent-Length: 52428800\r\n{key}\r\n",
                route.method
            );
            socket.write_all(head.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            socket.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 413", "{} {path} {key}", route.method);
        }
    }
    server.stop().await;
}

/// HTTP-11.
async fn oversized_input_is_refused_with_its_name_and_limit(stage: TestStore) {
    let server = Server::start(&stage).await;
    let large =
        json!({ "events": [{ "type": "t", "data": "canary".repeat(200_000) }] }).to_string();
    let (status, problem) = send(&server, "POST", "/v1/streams/a/events", &large).await;
    let detail = problem["detail"].as_str().unwrap();
    assert_eq!((status, &problem["limit"]), (413, &json!(1 << 20)), "{problem}");
    assert!(
        detail.contains(&large.len().to_string()) && detail.contains("1048576 bytes"),
        "{detail}"
    );
    let long = "canary".repeat(100);
    for (path, body, says) in [
        (
            "/v1/streams/a/events",
            json!({ "events": [{ "type": long, "data": 1 }] }),
            "field events[0].type has 600 bytes; the limit is 128",
        ),
        (
            "/v1/streams/a/events",
            json!({ "events": [{ "type": "t", "data": 1, "metadata": { "m": long.repeat(40) } }] }),
            "metadata",
        ),
        ("/v1/queues/mail/items", json!({ "key": long }), "600 bytes; the limit is 256"),
        (
            "/v1/queues/mail/items",
            json!({ "key": "a", "lane": long }),
            "field lane has 600 bytes; the limit is 64",
        ),
        (
            "/v1/leases/unblock",
            json!({ "queue": long }),
            "field queue has 600 bytes; the limit is 128",
        ),
    ] {
        let (status, problem) = send(&server, "POST", path, &body.to_string()).await;
        assert_eq!(status, 400, "{path}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{path}: {problem}");
    }
    server.stop().await;
}

/// One named subject of each kind.
async fn stock(server: &Server) {
    let store = server.tidelock.store();
    let item = ItemRef::parse("post", "a").unwrap();
    store
        .commit(Commit::new().wake(Wake::to_mark(item, Mark::new(1).unwrap())))
        .await
        .unwrap()
        .committed()
        .unwrap();
    let taken = server.tidelock.queue("post").lease("walt").await.unwrap();
    let blocks = taken.iter().map(|taken| Settlement::block(taken.lease.token(), "no address"));
    server.tidelock.queue("post").settle(blocks.collect()).await.unwrap();
    server.tidelock.start("checkout", "checkout-1", &json!(7)).version(1).await.unwrap();
}

/// HTTP-39. Every operator's action on a name, with an unknown name.
async fn an_unknown_name_is_a_404(stage: TestStore) {
    let server = Server::start(&stage).await;
    stock(&server).await;
    let operator = server.client(OPERATOR);
    for (path, body, code, says) in [
        ("/v1/leases/unblock", json!({ "queue": "pst" }), "no-queue", "queue \"pst\""),
        (
            "/v1/leases/unblock",
            json!({ "queue": "pst", "pattern": "*" }),
            "no-queue",
            "queue \"pst\"",
        ),
        (
            "/v1/leases/unblock",
            json!({ "queue": "pst", "dry_run": true }),
            "no-queue",
            "queue \"pst\"",
        ),
        (
            "/v1/leases/reset",
            json!({ "queue": "post", "key": "b" }),
            "no-item",
            "item \"b\" in queue \"post\"",
        ),
        (
            "/v1/leases/defer",
            json!({ "queue": "post", "lane": "slow", "in_ms": 5 }),
            "no-lane",
            "lane \"slow\"",
        ),
        (
            "/v1/leases/prioritize",
            json!({ "queue": "pst", "priority": 5 }),
            "no-queue",
            "queue \"pst\"",
        ),
        (
            "/v1/reactions/unblock",
            json!({ "reaction": "mial" }),
            "no-reaction",
            "reaction \"mial\"",
        ),
        (
            "/v1/reactions/unblock",
            json!({ "target": "order-9" }),
            "no-target",
            "target \"order-9\"",
        ),
        (
            "/v1/reactions/unblock",
            json!({ "reaction": "mial", "dry_run": true }),
            "no-reaction",
            "reaction \"mial\"",
        ),
        ("/v1/reactions/reset", json!({ "reaction": "mial" }), "no-reaction", "reaction \"mial\""),
        (
            "/v1/reactions/defer",
            json!({ "reaction": "mial", "in_ms": 5 }),
            "no-reaction",
            "reaction \"mial\"",
        ),
        (
            "/v1/reactions/prioritize",
            json!({ "reaction": "mial", "priority": 5 }),
            "no-reaction",
            "reaction \"mial\"",
        ),
        (
            "/v1/reactions/reroute",
            json!({ "reaction": "mial", "from": "now" }),
            "no-reaction",
            "reaction \"mial\"",
        ),
        ("/v1/pauses", json!({ "reaction": "mial", "reason": "x" }), "no-reaction", "\"mial\""),
        ("/v1/pauses", json!({ "workflow": "pya", "reason": "x" }), "no-workflow", "\"pya\""),
        ("/v1/pauses/resume", json!({ "queue": "pst" }), "no-queue", "queue \"pst\""),
        ("/v1/pauses/resume", json!({ "reaction": "mial" }), "no-reaction", "\"mial\""),
        ("/v1/pauses/resume", json!({ "workflow": "pya" }), "no-workflow", "\"pya\""),
        ("/v1/runs/nope/signals", json!({ "name": "approved" }), "no-run", "run \"nope\""),
        ("/v1/runs/nope/cancel", json!({}), "no-run", "run \"nope\""),
        ("/v1/runs/nope/terminate", json!({}), "no-run", "run \"nope\""),
        ("/v1/runs/nope/retry", json!({}), "no-run", "run \"nope\""),
        ("/v1/runs/nope/resume", json!({}), "no-run", "run \"nope\""),
        (
            "/v1/runs/nope/resolve",
            json!({ "step": "pay", "verdict": "rerun" }),
            "no-run",
            "run \"nope\"",
        ),
        (
            "/v1/abandoned-claims/release",
            json!({ "claim": "lock/nope" }),
            "no-claim",
            "\"lock/nope\"",
        ),
    ] {
        let refused = operator.post(path, &body).await;
        assert_eq!(refused.problem(), (404, code.into()), "{path} {body}: {refused:?}");
        assert!(
            refused.json()["detail"].as_str().unwrap().contains(says),
            "{path} {body}: {refused:?}"
        );
    }
    for (path, body) in [
        ("/v1/reactions/unblock", json!({ "pattern": "order-*" })),
        ("/v1/leases/unblock", json!({ "queue": "post", "pattern": "zz*" })),
    ] {
        assert_eq!(
            operator.post(path, &body).await.ok(200)["matched"],
            0,
            "a pattern may mean none"
        );
    }
    let early = json!({ "name": "approved", "early": true });
    assert_eq!(server.client(WRITER).post("/v1/runs/nope/signals", &early).await.status, 204);
    server.stop().await;
}

over_sockets!(
    json_of_another_form_is_refused_with_its_place,
    an_announced_body_that_is_too_large_is_refused_at_once,
    json_that_is_too_deep_is_refused_with_its_name_and_limit,
    oversized_input_is_refused_with_its_name_and_limit,
    an_unknown_name_is_a_404,
);
