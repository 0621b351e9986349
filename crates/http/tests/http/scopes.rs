//! Scopes over HTTP: documents with concurrent writers.

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidelock_test_stage::{PATIENCE, TestStore, until};

use crate::harness::{Client, READER, Reply, Server, WRITER};

const SCOPE: &str = "/v1/scopes/cart/ada%2F7";

async fn put(client: &Client, headers: &[(&str, &str)], state: &Value) -> Reply {
    client.send_with(Method::PUT, SCOPE, headers, Some(state)).await
}

async fn patch(client: &Client, headers: &[(&str, &str)], patch: &Value) -> Reply {
    client.send_with(Method::PATCH, SCOPE, headers, Some(patch)).await
}

/// The entity tag of the revision so many after this one.
fn tag(first: u64, after: u64) -> String {
    format!("\"{}\"", first + after)
}

fn revision(shown: &Value) -> u64 {
    shown["revision"].as_u64().unwrap()
}

async fn ask(client: &Client, verb: &str, body: Value) -> Reply {
    client.post(&format!("{SCOPE}/{verb}"), &body).await
}

/// HTTP-33.
async fn a_document_is_created_changed_and_read(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (writer, reader) = (here.client(WRITER), there.client(READER));
    reader.get(SCOPE).await.refused(404, "no-scope");
    let created = put(&writer, &[("if-none-match", "*")], &json!({ "items": [] })).await;
    let first = revision(&created.json());
    assert_eq!((created.status, &created.headers["etag"]), (201, &tag(first, 0).parse().unwrap()));
    put(&writer, &[("if-none-match", "*")], &json!(1)).await.refused(412, "scope-taken");
    let shown = reader.get(SCOPE).await;
    assert_eq!(shown.headers["etag"], tag(first, 0));
    assert_eq!(
        (&shown.json()["id"], &shown.json()["state"]),
        (&json!("ada/7"), &json!({ "items": [] }))
    );
    let pushed =
        ask(&writer, "push", json!({ "at": "items", "value": { "sku": 7 } })).await.ok(200);
    assert_eq!(
        (&pushed["value"], &pushed["revision"], &pushed["outcome"]),
        (&json!(1), &json!(first + 1), &json!("applied"))
    );
    assert_eq!(
        ask(&writer, "increment", json!({ "at": "/count/all", "by": 3 })).await.ok(200)["value"],
        3
    );
    ask(&writer, "entries", json!({ "at": "prices", "key": "a/b", "value": 1.5 })).await.ok(200);
    let merge = ("content-type", "application/merge-patch+json");
    let seen = tag(first, 3);
    let patched =
        patch(&writer, &[merge, ("if-match", &seen)], &json!({ "items": null, "note": "x" })).await;
    assert_eq!(revision(&patched.ok(200)), first + 4);
    let moved = patch(&writer, &[merge, ("if-match", &seen)], &json!({ "note": "y" })).await;
    moved.refused(412, "revision-conflict");
    assert_eq!(
        (&moved.json()["expected"], &moved.json()["found"]),
        (&json!(first + 3), &json!(first + 4))
    );
    let entry = format!("{SCOPE}/entries?at=prices&key=a%2Fb");
    assert_eq!(writer.send_with(Method::DELETE, &entry, &[], None).await.ok(200)["value"], true);
    assert_eq!(writer.send_with(Method::DELETE, &entry, &[], None).await.ok(200)["value"], false);
    let state = reader.get(SCOPE).await.ok(200)["state"].clone();
    assert_eq!(state, json!({ "count": { "all": 3 }, "note": "x", "prices": {} }));
    assert_eq!(put(&writer, &[("if-match", "*")], &state).await.ok(200)["outcome"], "unchanged");
    let listed = reader.get("/v1/scopes?kind=cart&prefix=ada").await.ok(200);
    assert_eq!(
        (listed["items"].as_array().unwrap().len(), &listed["items"][0]["id"]),
        (1, &json!("ada/7"))
    );
    let delete = async |headers: &[(&str, &str)]| {
        writer.send_with(Method::DELETE, SCOPE, headers, None).await
    };
    let moved = delete(&[("if-match", &tag(first, 4))]).await;
    moved.refused(412, "revision-conflict");
    assert_eq!(
        (&moved.json()["expected"], &moved.json()["found"]),
        (&json!(first + 4), &json!(first + 5))
    );
    assert_eq!(delete(&[("if-none-match", "*")]).await.problem().0, 400);
    assert_eq!(revision(&reader.get(SCOPE).await.ok(200)), first + 5, "it is still there");
    assert_eq!(delete(&[("if-match", &tag(first, 5))]).await.ok(200)["outcome"], "applied");
    assert_eq!(delete(&[]).await.ok(200)["outcome"], "unchanged");
    for expected in ["*", &tag(first, 5), &tag(first, 6)] {
        delete(&[("if-match", expected)]).await.refused(410, "scope-gone");
    }
    let never =
        writer.send_with(Method::DELETE, "/v1/scopes/cart/bob", &[("if-match", "*")], None).await;
    never.refused(404, "no-scope");
    reader.get(SCOPE).await.refused(410, "scope-gone");
    for gone in [
        put(&writer, &[], &json!(1)).await,
        ask(&writer, "increment", json!({ "at": "n", "by": 1 })).await,
    ] {
        assert_eq!(
            gone.problem(),
            (410, "scope-gone".into()),
            "nothing brings it back by accident"
        );
    }
    assert_eq!(put(&writer, &[("if-none-match", "*")], &json!({})).await.status, 201);
}

/// HTTP-33: concurrently, through two servers.
async fn concurrent_increments_all_count(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let counting = (0..20).map(|nth| {
        let client = if nth % 2 == 0 { here.client(WRITER) } else { there.client(WRITER) };
        tokio::spawn(async move {
            ask(&client, "increment", json!({ "at": "n", "by": 1 })).await.ok(200)
        })
    });
    for counted in counting.collect::<Vec<_>>() {
        counted.await.unwrap();
    }
    assert_eq!(here.client(READER).get(SCOPE).await.ok(200)["state"]["n"], 20);
}

/// HTTP-33.
async fn an_invalid_mutation_is_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let first = revision(&put(&writer, &[], &json!({ "text": "x", "list": [] })).await.ok(200));
    for (verb, body) in [
        ("increment", json!({ "at": "text", "by": 1 })),
        ("push", json!({ "at": "text", "value": 1 })),
        ("entries", json!({ "at": "list", "key": "a", "value": 1 })),
    ] {
        assert_eq!(ask(&writer, verb, body).await.problem(), (409, "scope-unfit".into()), "{verb}");
    }
    for (verb, body) in [
        ("increment", json!({ "by": 0.5 })),
        ("push", json!({})),
        ("entries", json!({ "key": 1, "value": 1 })),
    ] {
        assert_eq!(ask(&writer, verb, body).await.problem().0, 400, "{verb}");
    }
    for tag in ["1", "W/\"1\"", "\"x\"", "\"0\"", "\"1\", \"2\""] {
        assert_eq!(put(&writer, &[("if-match", tag)], &json!(1)).await.problem().0, 400, "{tag}");
    }
    assert_eq!(patch(&writer, &[("if-none-match", "*")], &json!({})).await.problem().0, 400);
    assert_eq!(
        patch(&writer, &[("content-type", "text/plain")], &json!({})).await.problem().0,
        415
    );
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(put(&writer, &[], &deep).await.problem().0, 400);
    for path in ["/v1/scopes/~x/a", "/v1/scopes/a%2Fb/c", "/v1/scopes/a/%0A", "/v1/scopes/%20/"] {
        let refused = writer.send_with(Method::PUT, path, &[], Some(&json!(1))).await;
        assert!(matches!(refused.status, 400 | 404), "{path}: {refused:?}");
    }
    writer.get("/v1/scopes?prefix=a").await.refused(400, "kind-missing");
    assert_eq!(revision(&writer.get(SCOPE).await.ok(200)), first, "nothing was changed");
}

/// HTTP-33. A session expires by itself, and a watcher sees it created, changed and deleted.
async fn a_watcher_sees_the_newest_state(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (writer, reader) = (here.client(WRITER), there.client(READER));
    let path = "/v1/scopes/session/s-1";
    let mut stream =
        reader.open(reader.request(Method::GET, &format!("{path}/watch"), None)).await.into_body();
    let first = revision(
        &writer.send_with(Method::PUT, path, &[], Some(&json!({ "step": 1 }))).await.ok(200),
    );
    let deleted = format!("id: {}\nevent: scope", first + 1);
    assert!(reader.get(path).await.ok(200)["expires_at"].is_string(), "a session has its own TTL");
    writer.send_with(Method::DELETE, path, &[], None).await.ok(200);
    let (mut text, mut gone) = (String::new(), false);
    while !gone {
        let frame = tokio::time::timeout(PATIENCE, stream.frame())
            .await
            .expect("it is told")
            .unwrap()
            .unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
        gone = text.contains(&deleted) && text.ends_with("\n\n");
    }
    assert!(text.contains("\"state\":null"), "{text}");
    let short = "/v1/scopes/mine/a?ttl_ms=5";
    writer.send_with(Method::PUT, short, &[], Some(&json!(1))).await.ok(200);
    until("it has expired", async || reader.get("/v1/scopes/mine/a").await.status == 410).await;
}

/// HTTP-9. A server died after it made the changes and before it recorded the responses.
async fn a_mutation_whose_response_was_lost_is_applied_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let first = revision(&put(&writer, &[], &json!({ "count": 0, "items": [] })).await.ok(200));
    let counted = tag(first, 1);
    let changes = [
        ("increment", json!({ "at": "count", "by": 7 }), ("if-match", "*")),
        ("push", json!({ "at": "items", "value": "pear" }), ("if-match", counted.as_str())),
    ];
    let mut answers = Vec::new();
    for _ in 0..2 {
        for (verb, body, condition) in &changes {
            let (path, headers) =
                (format!("{SCOPE}/{verb}"), [("idempotency-key", *verb), *condition]);
            answers.push(writer.send_with(Method::POST, &path, &headers, Some(body)).await.ok(200));
        }
        server.forget_answers().await;
    }
    assert_eq!(answers[..2], answers[2..], "the same is answered");
    let state = server.client(READER).get(SCOPE).await.json()["state"].clone();
    assert_eq!(state, json!({ "count": 7, "items": ["pear"] }));
}

/// HTTP-9. A retry does not delete a document that was created again since.
async fn a_document_whose_response_was_lost_is_created_and_deleted_once(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let create = async || {
        put(&writer, &[("idempotency-key", "create"), ("if-none-match", "*")], &json!({ "n": 1 }))
            .await
            .ok(201)
    };
    let delete = async || {
        writer
            .send_with(Method::DELETE, SCOPE, &[("idempotency-key", "delete")], None)
            .await
            .ok(200)
    };
    let created = create().await;
    server.forget_answers().await;
    assert_eq!(create().await, created);
    let deleted = delete().await;
    assert_eq!(
        (&deleted["outcome"], &deleted["revision"]),
        (&json!("applied"), &json!(revision(&created) + 1))
    );
    put(&writer, &[("if-none-match", "*")], &json!({ "n": 2 })).await.ok(201);
    server.forget_answers().await;
    assert_eq!(delete().await, deleted);
    assert_eq!(create().await, created);
    assert_eq!(server.client(READER).get(SCOPE).await.ok(200)["state"], json!({ "n": 2 }));
}

over_sockets!(
    a_document_is_created_changed_and_read,
    a_mutation_whose_response_was_lost_is_applied_once,
    a_document_whose_response_was_lost_is_created_and_deleted_once,
    concurrent_increments_all_count,
    an_invalid_mutation_is_refused,
    a_watcher_sees_the_newest_state,
);
