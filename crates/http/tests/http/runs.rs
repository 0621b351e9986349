//! Runs over HTTP: started, signalled, queried and awaited; and operators' actions.

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock_test_stage::{Running, TestStore, brisk, many_gone, until};

use crate::harness::{OPERATOR, READER, Server, WRITER};

/// Waits for an approval, and fails if it is refused.
async fn approval(ctx: RunCtx, amount: u64) -> Result<u64, StepError> {
    ctx.publish("asked", &("asked for", amount)).await?;
    let approved: bool = ctx.wait_for_signal("approve").await?;
    let decide = |_: StepKey| async move {
        if approved { Ok(amount * 2) } else { Err(HandlerError::fatal("it was not approved")) }
    };
    ctx.step("decide", decide).await
}

/// HTTP-33.
async fn a_run_is_started_signalled_queried_and_awaited(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let app = stage.tidelock().await.app().worker(brisk("w")).workflow("approval", approval);
    let running = Running::start(app);
    let (writer, reader, operator) =
        (here.client(WRITER), there.client(READER), there.client(OPERATOR));
    let start =
        json!({ "workflow": "approval", "version": 1, "input": 21, "attributes": { "shop": "7" } });
    let started = writer.post("/v1/runs/a%2F1", &start).await.ok(201);
    assert_eq!((&started["id"], &started["state"]), (&json!("a/1"), &json!("open")));
    assert_eq!(writer.post("/v1/runs/a%2F1", &start).await.ok(200)["id"], "a/1");
    let other = json!({ "workflow": "approval", "version": 1, "input": 22 });
    writer.post("/v1/runs/a%2F1", &other).await.refused(409, "other-run");
    until("it waits", async || {
        let shown = reader.get("/v1/runs/a%2F1").await.ok(200);
        shown["status"]["waiting"]["on"][0]["signal"]["signal"] == "approve"
    })
    .await;
    assert_eq!(
        reader.get("/v1/runs/a%2F1/published").await.ok(200)["published"],
        json!(["asked for", 21])
    );
    assert_eq!(reader.get("/v1/runs/a%2F1/result").await.ok(202)["state"], "open");
    assert_eq!(reader.get("/v1/runs/a%2F1/result?wait_ms=5").await.ok(202)["state"], "open");
    let waiting = {
        let reader = reader.clone();
        tokio::spawn(async move { reader.get("/v1/runs/a%2F1/result?wait_ms=60000").await })
    };
    let signal = json!({ "name": "approve", "payload": true, "id": "s-1" });
    assert_eq!(writer.post("/v1/runs/a%2F1/signals", &signal).await.status, 204);
    assert_eq!(
        writer.post("/v1/runs/a%2F1/signals", &signal).await.status,
        204,
        "it is the same signal"
    );
    let ended = waiting.await.unwrap().ok(200);
    assert_eq!((&ended["state"], &ended["result"]), (&json!("completed"), &json!(42)));
    let late = json!({ "name": "approve", "payload": true });
    writer.post("/v1/runs/a%2F1/signals", &late).await.refused(409, "run-ended");
    for verb in ["cancel", "terminate"] {
        let refused =
            operator.post(&format!("/v1/runs/a%2F1/{verb}"), &json!({ "reason": "enough" })).await;
        assert_eq!(refused.problem(), (409, "run-ended".into()), "{verb}");
    }
    operator.post("/v1/runs/a%2F1/retry", &json!({})).await.refused(409, "run-not-failed");
    let (mut kinds, mut after) = (Vec::new(), String::new());
    loop {
        let page = reader.get(&format!("/v1/runs/a%2F1/history?limit=2{after}")).await.ok(200);
        kinds.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entry| entry["kind"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert!(
        kinds.starts_with(&["started".to_owned()]) && kinds.contains(&"step".to_owned()),
        "{kinds:?}"
    );
    assert_eq!(kinds.last().unwrap(), "completed");
    let beyond = reader.get(&format!("/v1/runs/a%2F1/history?after={}", i64::MAX)).await.ok(200);
    assert_eq!(beyond["items"], json!([]));
    let listed =
        reader.get("/v1/runs?workflow=approval&state=completed&attribute=shop%3D7").await.ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    running.stop().await;
}

/// HTTP-35.
async fn operators_retry_cancel_and_terminate_runs(stage: TestStore) {
    let server = Server::start(&stage).await;
    let running = Running::start(
        stage.tidelock().await.app().worker(brisk("w")).workflow("approval", approval),
    );
    let (writer, operator) = (server.client(WRITER), server.client(OPERATOR));
    for run in ["refused", "cancelled", "terminated"] {
        let start =
            json!({ "workflow": "approval", "version": 1, "input": 1, "deadline_ms": 600_000 });
        writer.post(&format!("/v1/runs/{run}"), &start).await.ok(201);
    }
    writer.post("/v1/runs/refused/signals", &json!({ "name": "approve", "payload": false })).await;
    let result = async |run: &str| {
        let told = writer.get(&format!("/v1/runs/{run}/result?wait_ms=60000")).await.ok(200);
        (told["state"].as_str().unwrap().to_owned(), told["error"].as_str().unwrap().to_owned())
    };
    assert_eq!(result("refused").await.0, "failed");
    assert_eq!(
        operator.post("/v1/runs/refused/retry", &json!({ "reason": "look again" })).await.status,
        204
    );
    assert_eq!(result("refused").await.0, "failed", "it is still not approved");
    assert_eq!(
        operator.post("/v1/runs/cancelled/cancel", &json!({ "reason": "enough" })).await.status,
        202
    );
    assert_eq!(result("cancelled").await, ("cancelled".to_owned(), "enough".to_owned()));
    assert_eq!(
        operator
            .post("/v1/runs/terminated/terminate", &json!({ "reason": "at once" }))
            .await
            .status,
        204
    );
    assert_eq!(result("terminated").await, ("terminated".to_owned(), "at once".to_owned()));
    let stands = operator
        .send_with(http::Method::POST, "/v1/runs/terminated/resume", &[], None)
        .await
        .ok(200);
    assert_eq!(stands["status"]["ended"]["terminated"], "at once");
    let verdict = json!({ "step": "decide", "verdict": "rerun" });
    assert_eq!(operator.post("/v1/runs/refused/resolve", &verdict).await.problem().0, 409);
    let audited = server.client(READER).get("/v1/audit").await.ok(200).to_string();
    assert!(audited.contains("terminate") && audited.contains("at once"), "{audited}");
    running.stop().await;
}

/// HTTP-33.
async fn invalid_run_requests_are_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, operator) = (server.client(WRITER), server.client(OPERATOR));
    let start = |workflow: &str, version: Value| json!({ "workflow": workflow, "input": 1, "version": version });
    let unknown = writer.post("/v1/runs/r", &start("unregistered", json!(null))).await;
    unknown.refused(409, "workflow-unknown");
    for (path, body) in [
        ("/v1/runs/r", json!({})),
        ("/v1/runs/r", start("a/b", json!(1))),
        ("/v1/runs/~r", start("w", json!(1))),
        ("/v1/runs/r%00", start("w", json!(1))),
        ("/v1/runs/r", json!({ "workflow": "w", "input": 1, "attributes": { "a": 1 } })),
        ("/v1/runs/r/signals", json!({ "name": "" })),
        ("/v1/runs/r/signals", json!({ "name": "~cancel" })),
    ] {
        assert_eq!(writer.post(path, &body).await.problem().0, 400, "{path} {body}");
    }
    for path in ["", "/history", "/published", "/result", "/result?wait_ms=60000"] {
        assert_eq!(
            writer.get(&format!("/v1/runs/r{path}")).await.problem(),
            (404, "no-run".into()),
            "{path}"
        );
    }
    for verb in ["cancel", "terminate", "retry", "resume"] {
        let refused = operator.post(&format!("/v1/runs/r/{verb}"), &json!({})).await;
        assert_eq!(refused.problem(), (404, "no-run".into()), "{verb}");
    }
    for body in [
        json!({ "step": "s", "verdict": "perhaps" }),
        json!({ "step": "s", "verdict": "rerun", "result": 1 }),
        json!({ "step": "s", "verdict": "fail" }),
    ] {
        assert_eq!(operator.post("/v1/runs/r/resolve", &body).await.problem().0, 400, "{body}");
    }
    let resolved = operator
        .post("/v1/runs/r/resolve", &json!({ "step": "s", "verdict": "done", "result": 1 }))
        .await;
    resolved.refused(404, "no-run");
    for query in
        ["state=asleep", "attribute=shop", "since=today", "after=x", "workflow=a/b", "limit=1001"]
    {
        assert_eq!(writer.get(&format!("/v1/runs?{query}")).await.problem().0, 400, "{query}");
    }
}

over_sockets!(
    runs_are_terminated_in_bulk_a_batch_at_a_time,
    a_run_is_started_signalled_queried_and_awaited,
    operators_retry_cancel_and_terminate_runs,
    invalid_run_requests_are_refused,
    open_runs_are_listed_behind_any_number_of_ended_ones,
);

/// RUN-54. HTTP-9.
async fn runs_are_terminated_in_bulk_a_batch_at_a_time(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    for nth in 0..5 {
        let town = if nth < 3 { "north" } else { "south" };
        let start = server.tidelock.start("checkout", format!("order-{nth}"), &nth).version(1);
        start.attribute("town", town).await.unwrap();
    }
    let ask = |more: Value| {
        let mut body = json!({
            "action": "terminate", "workflow": "checkout", "attributes": { "town": "north" },
            "reason": "the shop is closed", "limit": 2,
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let open = async || {
        let page = reader.get("/v1/runs?state=open").await.ok(200);
        page["items"].as_array().unwrap().len()
    };
    let dry = operator.post("/v1/bulk/runs", &ask(json!({ "dry_run": true }))).await.ok(200);
    assert_eq!((&dry["matched"], &dry["changed"]), (&json!(2), &json!(0)));
    assert_eq!(open().await, 5);
    let key = [("idempotency-key", "bulk")];
    let first = async || {
        let path = "/v1/bulk/runs";
        operator.send_with(http::Method::POST, path, &key, Some(&ask(json!({})))).await.ok(200)
    };
    let done = first().await;
    assert_eq!((&done["changed"], &done["refused"]), (&json!(2), &json!([])));
    assert_eq!(first().await, done, "the same answer");
    assert_eq!(open().await, 3);
    let rest = ask(json!({ "after": done["next"] }));
    let done = operator.post("/v1/bulk/runs", &rest).await.ok(200);
    assert_eq!((&done["changed"], &done["next"]), (&json!(1), &Value::Null));
    assert_eq!(open().await, 2);
    for (body, status, code) in [
        (json!({ "workflow": "chekcout" }), 404, "no-workflow"),
        (json!({ "workflow": null, "attributes": {} }), 400, "runs-missing"),
        (json!({ "action": "start" }), 400, "invalid"),
        (json!({ "limit": 0 }), 400, "limit-invalid"),
    ] {
        let refused = operator.post("/v1/bulk/runs", &ask(body.clone())).await;
        assert_eq!(refused.problem().0, status, "{body}");
        if status == 404 || code == "runs-missing" {
            refused.refused(status, code);
        }
    }
    let audited = reader.get("/v1/audit").await.ok(200).to_string();
    assert!(
        audited.contains("/v1/bulk/runs") && audited.contains("the shop is closed"),
        "{audited}"
    );
}

/// Schedule 102. RUN-40.
async fn open_runs_are_listed_behind_any_number_of_ended_ones(stage: TestStore) {
    let server = Server::start(&stage).await;
    for id in ["a", "b", "c", "d"] {
        server.tidelock.start("checkout", id, &json!(7)).version(1).await.unwrap();
    }
    many_gone(&**server.tidelock.store(), "~run-index/open/checkout/0").await;
    let (reader, mut after, mut found) = (server.client(READER), String::new(), 0);
    loop {
        let page = reader.get(&format!("/v1/runs?state=open{after}")).await.ok(200);
        found += page["items"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(found, 4);
}
