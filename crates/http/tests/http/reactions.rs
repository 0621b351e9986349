//! Reactions over HTTP: their progress, and operators' actions on their targets.

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::store::{StoredEvent, StreamName};
use tidelock_test_stage::{Observed, Running, TestStore, brisk, note, past, until};

use crate::harness::{Client, OPERATOR, READER, Server};

async fn targets(client: &Client, query: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/reactions/mail/targets?{query}")).await.ok(200);
    page["items"].as_array().unwrap().clone()
}

async fn adjust(client: &Client, verb: &str, body: Value) -> (Value, Value) {
    let told = client.post(&format!("/v1/reactions/{verb}"), &body).await.ok(200);
    (told["matched"].clone(), told["changed"].clone())
}

/// HTTP-35. HTTP-9.
async fn operators_change_the_selected_targets(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for stream in ["good", "bad-1", "bad-2"] {
        note(&tidelock, stream, "x").await;
    }
    let saw = seen.clone();
    let app = tidelock.app().worker(brisk("w")).reaction(
        "mail",
        on_any(),
        move |event: StoredEvent, _| {
            let seen = saw.clone();
            async move {
                seen.note(event.stream.as_str());
                let failures = seen.lines().iter().filter(|line| line.starts_with("bad")).count();
                if event.stream.as_str().starts_with("bad") && failures <= 2 {
                    Err(HandlerError::fatal("no ink"))
                } else {
                    Ok(())
                }
            }
        },
    );
    let running = Running::start(app);
    until("both are blocked", async || targets(&reader, "blocked=true").await.len() == 2).await;
    let listed = reader.get("/v1/reactions").await.ok(200)["items"].clone();
    assert_eq!(
        (&listed[0]["reaction"], &listed[0]["blocked_targets"]),
        (&json!("mail"), &json!(2))
    );
    let bad = targets(&reader, "target=bad*").await;
    assert_eq!(
        (&bad[0]["target"], &bad[0]["error"], &bad[0]["lag"]),
        (&json!("bad-1"), &json!("no ink"), &json!(1))
    );
    let family =
        |dry_run: bool| json!({ "reaction": "mail", "pattern": "bad-*", "dry_run": dry_run });
    assert_eq!(adjust(&operator, "unblock", family(true)).await, (json!(2), json!(0)));
    assert_eq!(targets(&reader, "blocked=true").await.len(), 2);
    assert_eq!(adjust(&operator, "unblock", family(false)).await, (json!(2), json!(2)));
    until("all is handled", async || {
        targets(&reader, "").await.iter().all(|target| target["lag"] == 0)
    })
    .await;
    assert!(
        reader.get("/v1/reactions").await.ok(200)["items"][0]["lag"].is_u64(),
        "a process routes"
    );
    running.stop().await;
    note(&tidelock, "good-2", "x").await;
    let listed = reader.get("/v1/reactions").await.ok(200)["items"][0].clone();
    assert_eq!(listed["lag"], Value::Null, "what stands still does not lag: {listed}");
    until("the overview says so", async || {
        let now = reader.get("/v1/overview").await.ok(200)["now"].clone();
        (&now["lag"], &now["unserved_reactions"]) == (&Value::Null, &json!(1))
    })
    .await;
    let one = |more: (&str, Value)| {
        let mut body = json!({ "reaction": "mail", "target": "good" });
        body[more.0] = more.1;
        body
    };
    assert_eq!(adjust(&operator, "prioritize", one(("priority", json!(9)))).await.1, 1);
    assert_eq!(adjust(&operator, "reset", one(("repeat_effects", json!(false)))).await.1, 1);
    assert_eq!(adjust(&operator, "defer", one(("in_ms", json!(60_000)))).await.1, 1);
    let good = &targets(&reader, "target=good").await[0];
    assert_eq!((&good["lag"], &good["priority"]), (&json!(1), &json!(9)));
    assert!(good["hold_until"].is_string());
    let reroute = json!({ "reaction": "mail", "from": "now" });
    for _ in 0..2 {
        let key = [("idempotency-key", "reroute")];
        let rerouted = operator
            .send_with(http::Method::POST, "/v1/reactions/reroute", &key, Some(&reroute))
            .await;
        assert_eq!(rerouted.status, 204);
        server.forget_answers().await;
    }
    let moments = reader.get("/v1/streams/~registrations%2Fmail").await.ok(200);
    assert_eq!(moments["version"], 1, "the first time counts: what came since is not left out");
    let audited = reader.get("/v1/audit").await.ok(200).to_string();
    assert!(audited.contains("/v1/reactions/reroute") && audited.contains("bad-*"), "{audited}");
}

/// REACT-28, HTTP-35. The reason is in the audit and with the event.
async fn a_target_goes_on_without_the_event_that_blocks_it(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for text in ["a", "poison", "b"] {
        note(&tidelock, "order-1", text).await;
    }
    let saw = seen.clone();
    let app = tidelock.app().worker(brisk("w")).reaction(
        "mail",
        on_any(),
        move |event: StoredEvent, _| {
            let seen = saw.clone();
            async move {
                if event.payload.as_str().contains("poison") {
                    return Err(HandlerError::fatal("no ink"));
                }
                seen.note(event.version.to_string());
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    until("it is blocked", async || targets(&reader, "blocked=true").await.len() == 1).await;
    let skip = |body: Value| {
        let mut whole =
            json!({ "reaction": "mail", "target": "order-1", "reason": "a test order" });
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        whole
    };
    let refused = async |body: Value, status: u16, code: &str| {
        operator.post("/v1/reactions/skip", &skip(body)).await.refused(status, code);
    };
    refused(json!({ "target": "order-2" }), 404, "no-target").await;
    refused(json!({ "reaction": "mial" }), 404, "no-reaction").await;
    refused(json!({ "at": 0 }), 409, "target-moved").await;
    refused(json!({ "reason": " " }), 400, "invalid").await;
    assert_eq!(targets(&reader, "blocked=true").await.len(), 1, "nothing was done");
    let skipped = operator.post("/v1/reactions/skip", &skip(json!({ "at": 1 }))).await;
    assert_eq!(skipped.status, 204);
    seen.until(2).await;
    until("it is idle", async || targets(&reader, "").await[0]["lag"] == 0).await;
    refused(json!({}), 409, "not-blocked").await;
    running.stop().await;
    assert_eq!(seen.lines(), ["1", "3"]);
    let page = reader.get("/v1/reactions/mail/skipped").await.ok(200);
    let [event] = &page["items"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&event["stream"], &event["version"]), (&json!("order-1"), &json!(2)));
    assert_eq!((&event["type"], &event["error"]), (&json!("noted"), &json!("no ink")));
    assert_eq!((&event["reason"], &event["target"]), (&json!("a test order"), &json!("order-1")));
    let audited = reader.get("/v1/audit").await.ok(200).to_string();
    assert!(
        audited.contains("/v1/reactions/skip") && audited.contains("a test order"),
        "{audited}"
    );
}

/// REACT-26. Schedule 114.
async fn a_reset_that_would_skip_events_is_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, tidelock) = (server.client(OPERATOR), stage.tidelock().await);
    note(&tidelock, "good", "x").await;
    let app = tidelock.app().worker(brisk("w"));
    let running =
        Running::start(app.reaction("mail", on_any(), |_: StoredEvent, _| async { Ok(()) }));
    until("it is handled", async || {
        targets(&operator, "").await.iter().any(|target| target["lag"] == 0)
    })
    .await;
    tidelock
        .archive_stream_to(&StreamName::new("good").unwrap(), tidelock::closing::discard)
        .close()
        .await
        .unwrap();
    running.stop().await;
    let mut body = json!({ "reaction": "mail" });
    let refused = operator.post("/v1/reactions/reset", &body).await;
    refused.refused(409, "events-gone");
    let detail = refused.json()["detail"].to_string();
    assert!(
        detail.contains("up to version 1 were deleted") && detail.contains("partial: true"),
        "{detail}"
    );
    assert_eq!(targets(&operator, "").await[0]["lag"], 0, "nothing was reset");
    body["partial"] = json!(true);
    assert_eq!(adjust(&operator, "reset", body).await.1, 1);
}

/// HTTP-33.
async fn invalid_operator_requests_are_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let operator = server.client(OPERATOR);
    for (verb, body) in [
        ("unblock", json!({})),
        ("reset", json!({ "dry_run": true })),
        ("unblock", json!({ "reaction": "mail", "target": "a", "pattern": "a*" })),
        ("unblock", json!({ "reaction": "mail", "priority": 1 })),
        ("unblock", json!({ "reaction": "" })),
        ("unblock", json!({ "reaction": "mail", "target": "" })),
        ("defer", json!({ "reaction": "mail" })),
        ("prioritize", json!({ "reaction": "mail", "priority": -101 })),
        ("skip", json!({ "reaction": "mail", "target": "a" })),
        ("skip", json!({ "reaction": "mail", "reason": "x" })),
        ("reroute", json!({ "reaction": "mail" })),
        ("reroute", json!({ "reaction": "~mail", "from": "now" })),
        ("reroute", json!({ "reaction": "mail", "from": "then" })),
    ] {
        let refused = operator.post(&format!("/v1/reactions/{verb}"), &body).await;
        assert_eq!(refused.problem().0, 400, "{verb} {body}");
    }
    // The reaction is not registered, and nothing is recorded for it.
    let unknown = json!({ "reaction": "mail", "from": "now" });
    let refused = operator.post("/v1/reactions/reroute", &unknown).await;
    refused.refused(404, "no-reaction");
    let streams = operator.get("/v1/streams?prefix=~").await.ok(200)["items"].clone();
    let names = streams.as_array().unwrap().iter().map(|stream| stream["name"].as_str().unwrap());
    assert_eq!(names.filter(|name| !past::left(name)).collect::<Vec<_>>(), ["~audit"]);
    assert_eq!(targets(&operator, "").await.len(), 0);
    assert_eq!(operator.get("/v1/reactions/mail/targets?blocked=maybe").await.problem().0, 400);
}

over_sockets!(
    operators_change_the_selected_targets,
    a_reset_that_would_skip_events_is_refused,
    a_target_goes_on_without_the_event_that_blocks_it,
    invalid_operator_requests_are_refused
);
