//! Appends to streams, and reads.

use http::Method;
use serde_json::{Value, json};
use tidelock_test_stage::{TestStore, past};

use crate::harness::{Client, OPERATOR, READER, Server, WRITER};

const EVENTS: &str = "/v1/streams/order-7/events";

fn placed(units: u64) -> Value {
    json!({ "events": [{ "type": "placed", "data": { "units": units } }] })
}

async fn append_if(client: &Client, header: (&str, &str), body: &Value) -> crate::harness::Reply {
    client.send_with(Method::POST, EVENTS, &[header], Some(body)).await
}

/// HTTP-7.
async fn appended_events_are_read_back(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, reader) = (server.client(WRITER), server.client(READER));
    let id = "0198c5a0-0000-7000-8000-000000000001";
    let events = json!({ "events": [
        { "type": "placed", "data": { "units": 2 }, "id": id, "metadata": { "correlation": "c-1" } },
        { "type": "paid", "data": null },
    ]});
    let appended = writer.post(EVENTS, &events).await;
    assert_eq!(appended.headers["etag"], "\"2\"");
    let appended = appended.ok(201);
    assert_eq!(
        (&appended["version"], &appended["events"][0]["id"], &appended["events"][1]["version"]),
        (&json!(2), &json!(id), &json!(2))
    );
    let page = reader.get(EVENTS).await;
    assert_eq!(page.headers["etag"], "\"2\"");
    let page = page.ok(200);
    let first = &page["items"][0];
    assert_eq!(
        (&first["type"], &first["data"], &first["metadata"]),
        (&json!("placed"), &json!({ "units": 2 }), &json!({ "correlation": "c-1" }))
    );
    assert_eq!(
        (&first["stream"], &first["version"], &first["id"]),
        (&json!("order-7"), &json!(1), &json!(id))
    );
    assert_eq!(page["items"][1]["position"], appended["position"]);
    let listed = reader.get("/v1/streams?prefix=order-").await.ok(200);
    assert_eq!(
        (&listed["items"][0]["name"], &listed["items"][0]["version"]),
        (&json!("order-7"), &json!(2))
    );
    assert_eq!(reader.get("/v1/streams/order-7").await.ok(200)["last_type"], "paid");
    reader.get("/v1/streams/order-8").await.refused(404, "no-stream");
    reader.get("/v1/streams/order-8/events").await.refused(404, "no-stream");
}

/// HTTP-8. By a header a 412, in the body a 409; both include the actual version.
async fn an_append_with_a_wrong_expected_version_is_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    append_if(&writer, ("if-none-match", "*"), &placed(1)).await.ok(201);
    let refused = append_if(&writer, ("if-none-match", "*"), &placed(1)).await;
    refused.refused(412, "version-conflict");
    append_if(&writer, ("if-match", "\"1\""), &placed(2)).await.ok(201);
    let refused = append_if(&writer, ("if-match", "\"1\""), &placed(2)).await;
    assert_eq!(
        (refused.problem(), &refused.json()["found"]),
        ((412, "version-conflict".into()), &json!(2))
    );
    let in_body = |expected: Value| {
        let mut body = placed(3);
        body["expected"] = expected;
        body
    };
    for (expected, status) in [
        (json!("any"), 201),
        (json!("none"), 409),
        (json!("exists"), 201),
        (json!(2), 409),
        (json!(4), 201),
    ] {
        assert_eq!(
            writer.post(EVENTS, &in_body(expected.clone())).await.status,
            status,
            "{expected}"
        );
    }
    let nowhere = "/v1/streams/order-8/events";
    assert_eq!(writer.post(nowhere, &in_body(json!("exists"))).await.status, 409);
    let exists =
        writer.send_with(Method::POST, nowhere, &[("if-match", "*")], Some(&placed(1))).await;
    exists.refused(412, "version-conflict");
    append_if(&writer, ("if-match", "\"5\""), &in_body(json!(4)))
        .await
        .refused(400, "expectation-ambiguous");
    append_if(&writer, ("if-match", "\"5\""), &in_body(json!(5))).await.ok(201);
    append_if(&writer, ("if-match", "5"), &placed(1)).await.refused(400, "expectation-invalid");
}

/// HTTP-9. By the events' ids, and by the idempotency key.
async fn a_repeated_append_takes_effect_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let body = json!({ "events": [{ "type": "placed", "data": 1, "id": "0198c5a0-0000-7000-8000-000000000002" }], "expected": "none" });
    let first = writer.post(EVENTS, &body).await.ok(201);
    let again = writer.post(EVENTS, &body).await.ok(200);
    assert_eq!(
        (&again["version"], &again["position"], &again["replayed"]),
        (&first["version"], &first["position"], &json!(true))
    );
    let mut other = body.clone();
    other["events"][0]["data"] = json!(2);
    writer.post(EVENTS, &other).await.refused(409, "id-reused");
    let first = append_if(&writer, ("idempotency-key", "k-1"), &placed(1)).await.ok(201);
    assert_eq!(append_if(&writer, ("idempotency-key", "k-1"), &placed(1)).await.ok(201), first);
    append_if(&writer, ("idempotency-key", "k-1"), &placed(2)).await.refused(422, "key-reused");
    let refused = writer
        .send_with(
            Method::POST,
            EVENTS,
            &[("idempotency-key", "k-2"), ("if-match", "\"7\"")],
            Some(&placed(1)),
        )
        .await;
    assert_eq!(refused.status, 412);
    assert_eq!(server.client(READER).get("/v1/streams/order-7").await.ok(200)["version"], 2);
    // A refusal is not recorded: the same request is judged again.
    let mut later = placed(1);
    later["expected"] = json!(3);
    assert_eq!(append_if(&writer, ("idempotency-key", "k-3"), &later).await.status, 409);
    append_if(&writer, ("idempotency-key", "k-4"), &placed(1)).await.ok(201);
    append_if(&writer, ("idempotency-key", "k-3"), &later).await.ok(201);
    // A key belongs to its token.
    append_if(&server.client(OPERATOR), ("idempotency-key", "k-1"), &placed(2)).await.ok(201);
}

/// HTTP-9. A server died after it appended and before it recorded the response: the key's record is
/// gone.
async fn an_append_whose_response_was_lost_takes_effect_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let first = append_if(&writer, ("idempotency-key", "k-1"), &placed(1)).await.ok(201);
    server.forget_answers().await;
    let again = append_if(&writer, ("idempotency-key", "k-1"), &placed(1)).await.ok(200);
    assert_eq!((&again["events"], &again["replayed"]), (&first["events"], &json!(true)));
    append_if(&writer, ("idempotency-key", "k-2"), &placed(1)).await.ok(201);
    assert_eq!(server.client(READER).get("/v1/streams/order-7").await.ok(200)["version"], 2);
}

/// HTTP-10.
async fn long_lists_are_read_page_by_page(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, reader) = (server.client(WRITER), server.client(READER));
    let events: Vec<_> = (1..=5).map(|n| json!({ "type": "noted", "data": n })).collect();
    writer.post("/v1/streams/a%2Fb%20%C3%A9/events", &json!({ "events": events })).await.ok(201);
    writer.post("/v1/streams/b/events", &placed(1)).await.ok(201);
    for (path, key) in [
        ("/v1/streams/a%2Fb%20%C3%A9/events?limit=2", "data"),
        ("/v1/events?limit=4&types=noted", "data"),
        ("/v1/streams?limit=1", "name"),
    ] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = reader.get(&format!("{path}{after}")).await.ok(200);
            seen.extend(page["items"].as_array().unwrap().iter().map(|item| item[key].clone()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", encoded(next)),
                None => break,
            }
        }
        let expected = if key == "name" {
            vec![json!("a/b é"), json!("b")]
        } else {
            (1..=5).map(Value::from).collect()
        };
        seen.retain(|item| !item.as_str().is_some_and(past::left));
        assert_eq!(seen, expected, "{path}");
    }
    let newest =
        reader.get("/v1/streams/a%2Fb%20%C3%A9/events?backward=true&limit=1").await.ok(200);
    assert_eq!(newest["items"][0]["data"], 5);
    // The cursor is the last that was read, as everywhere, and `from` the first to read.
    for (query, expected) in [
        ("after=0", json!([1, 2, 3, 4, 5])),
        ("after=3", json!([4, 5])),
        ("from=3", json!([3, 4, 5])),
        ("after=5", json!([])),
        ("after=9223372036854775807", json!([])),
        ("after=3&backward=true", json!([2, 1])),
        ("after=1&backward=true", json!([])),
        ("after=0&backward=true", json!([])),
        ("from=3&backward=true", json!([3, 2, 1])),
    ] {
        let page = reader.get(&format!("/v1/streams/a%2Fb%20%C3%A9/events?{query}")).await.ok(200);
        let data: Vec<_> =
            page["items"].as_array().unwrap().iter().map(|item| &item["data"]).collect();
        assert_eq!((json!(data), &page["next"]), (expected, &json!(null)), "{query}");
    }
    let both = "/v1/streams/a%2Fb%20%C3%A9/events?from=3&after=3";
    reader.get(both).await.refused(400, "query-invalid");
    for limit in ["0", "1001", "-1", "x"] {
        assert_eq!(reader.get(&format!("/v1/events?limit={limit}")).await.status, 400, "{limit}");
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// HTTP-11. The message says what is wrong, without quoting the payload.
async fn invalid_requests_are_refused(stage: TestStore) {
    let server = Server::start_with(&stage, |api| {
        let mut limits = tidelock_http::Limits::default();
        limits.body_bytes = 2_000;
        api.tokens(crate::harness::tokens()).limits(limits)
    })
    .await;
    let writer = server.client(WRITER);
    for (body, code) in [
        (json!({}), "body-invalid"),
        (json!({ "events": [] }), "invalid"),
        (json!({ "events": [{ "type": "", "data": "canary" }] }), "body-invalid"),
        (json!({ "events": [{ "type": "t", "data": "canary", "canary": 1 }] }), "body-invalid"),
        (json!({ "events": [{ "type": "t", "data": "canary", "metadata": [] }] }), "body-invalid"),
        (json!({ "events": [{ "type": "t", "data": 1, "id": "canary" }] }), "body-invalid"),
        (json!({ "events": [{ "type": "t", "data": 1 }], "expected": "canary" }), "body-invalid"),
        (json!("canary"), "body-invalid"),
    ] {
        let refused = writer.post(EVENTS, &body).await;
        assert_eq!(refused.problem(), (400, code.into()), "{body}: {refused:?}");
        assert!(!String::from_utf8_lossy(&refused.body).contains("canary"), "{refused:?}");
    }
    let large = json!({ "events": [{ "type": "t", "data": "x".repeat(2_000) }] });
    writer.post(EVENTS, &large).await.refused(413, "body-too-large");
    append_if(&writer, ("idempotency-key", "k"), &large).await.refused(413, "body-too-large");
    append_if(&writer, ("content-type", "text/plain"), &placed(1)).await.refused(415, "not-json");
    writer.post("/v1/streams/a%00b/events", &placed(1)).await.refused(400, "path-invalid");
    writer.post("/v1/streams/%FF/events", &placed(1)).await.refused(400, "path-invalid");
    writer
        .post(&format!("/v1/streams/{}/events", "n".repeat(257)), &placed(1))
        .await
        .refused(400, "path-invalid");
    writer.post("/v1/streams/~audit/events", &placed(1)).await.refused(403, "name-reserved");
    writer.get("/v1/streams?limt=1").await.refused(400, "query-invalid");
    writer.get("/v1/nothing").await.refused(404, "no-route");
    let method = writer.post("/v1/streams", &placed(1)).await;
    method.refused(405, "method-not-allowed");
    assert_eq!(method.headers["allow"], "GET,HEAD");
    writer.get("/v1/events?after=999999").await.refused(410, "position-unknown");
    let streams = server.client(READER).get("/v1/streams").await.ok(200)["items"].clone();
    let names = streams.as_array().unwrap().iter().map(|stream| stream["name"].as_str().unwrap());
    assert_eq!(names.filter(|name| !past::left(name)).collect::<Vec<_>>(), [""; 0]);
}

over_sockets!(
    appended_events_are_read_back,
    an_append_with_a_wrong_expected_version_is_refused,
    a_repeated_append_takes_effect_once,
    an_append_whose_response_was_lost_takes_effect_once,
    long_lists_are_read_page_by_page,
    invalid_requests_are_refused,
);
