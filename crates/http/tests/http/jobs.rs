//! Jobs, schedules and pauses, for operators.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidelock::jobs::JobOptions;
use tidelock::prelude::*;
use tidelock_test_stage::{Running, TestStore, brisk, until};

use crate::harness::{Client, OPERATOR, READER, Reply, Server};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Job for Mail {
    const QUEUE: &'static str = "mail";

    fn options() -> JobOptions {
        JobOptions::new().keep_results(std::time::Duration::from_secs(60))
    }
}

/// Fails for the odd ones, for good.
fn app(server: &Server) -> Running {
    let app = server.tidelock.app().job(async |mail: Mail, _: JobCtx| match mail.to.as_str() {
        "odd" => Err(HandlerError::fatal("no such mailbox")),
        to => Ok(format!("sent to {to}")),
    });
    Running::start(app.worker(brisk("w")))
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Reply {
    client.try_send(client.request(method, path, Some(body))).await.unwrap()
}

async fn keys(client: &Client, query: &str) -> Vec<String> {
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/jobs?queue=mail&{query}{after}")).await.ok(200);
        let items = page["items"].as_array().unwrap();
        keys.extend(items.iter().map(|job| job["key"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return keys,
        }
    }
}

/// HTTP-35, JOB-7.
async fn operators_retry_discard_and_cancel_jobs(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    for (key, to) in [("a", "odd"), ("b", "odd"), ("c", "ada")] {
        let item = json!({ "key": key, "data": { "to": to } });
        operator.post("/v1/queues/mail/items", &item).await.ok(201);
    }
    assert_eq!(keys(&reader, "state=queued&limit=1").await, ["a", "b", "c"]);
    let running = app(&server);
    until("two are blocked", async || keys(&reader, "state=blocked").await == ["a", "b"]).await;
    until("one is done", async || keys(&reader, "state=done").await == ["c"]).await;
    let done = reader.get("/v1/jobs/mail/c").await.ok(200);
    assert_eq!((&done["state"], &done["result"]), (&json!("done"), &json!("sent to ada")));
    running.stop().await;

    let retried =
        operator.post("/v1/jobs/retry", &json!({ "queue": "mail", "key": "a" })).await.ok(200);
    assert_eq!(retried["changed"], 1);
    assert_eq!(keys(&reader, "key=a*").await, ["a"]);
    let why = |key: &str| json!({ "queue": "mail", "key": key, "reason": "closed account" });
    let discarded = operator.post("/v1/jobs/discard", &why("b")).await.ok(200);
    assert_eq!(discarded["changed"], 1);
    assert_eq!(
        operator.post("/v1/jobs/discard", &why("a")).await.ok(200)["changed"],
        0,
        "it is not blocked"
    );
    assert_eq!(operator.post("/v1/jobs/cancel", &why("a")).await.ok(200)["changed"], 1);
    for (key, state) in [("a", "cancelled"), ("b", "discarded")] {
        let job = reader.get(&format!("/v1/jobs/mail/{key}")).await.ok(200);
        assert_eq!((&job["state"], &job["reason"]), (&json!(state), &json!("closed account")));
    }
    assert!(keys(&reader, "").await.is_empty());
    let audited = reader.get("/v1/audit").await.ok(200).to_string();
    assert!(
        audited.contains("/v1/jobs/discard") && audited.contains("closed account"),
        "{audited}"
    );
    assert_eq!(reader.get("/v1/jobs/mail/z").await.status, 404);
    let refused = operator.post("/v1/jobs/retry", &json!({ "queue": "~reaction/x" })).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let missing = json!({ "queue": "male", "reason": "x" });
    operator.post("/v1/jobs/cancel", &missing).await.refused(404, "no-queue");
}

/// HTTP-35, JOB-13.
async fn operators_store_trigger_and_delete_schedules(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    let nightly = json!({
        "pattern": "30 2 * * *", "zone": "Europe/Berlin", "queue": "mail", "input": { "to": "ada" },
        "overlap": "skip",
    });
    let stored = send(&operator, Method::PUT, "/v1/schedules/nightly", &nightly).await.ok(200);
    assert_eq!((&stored["queue"], &stored["overlap"]), (&json!("mail"), &json!("skip")));
    assert_eq!(
        operator.post("/v1/schedules/nightly/pause", &json!({})).await.ok(200)["paused"],
        true
    );
    let triggered = operator.post("/v1/schedules/nightly/trigger", &json!({})).await.ok(200);
    assert_eq!(keys(&reader, "").await, [triggered["last_job"].as_str().unwrap()]);
    let resumed = operator.post("/v1/schedules/nightly/resume", &json!({})).await.ok(200);
    assert_eq!(resumed["next_at"], stored["next_at"]);
    let listed = reader.get("/v1/schedules").await.ok(200);
    let is_ours = |one: &&Value| one["name"] == "nightly";
    assert_eq!(listed["items"].as_array().unwrap().iter().filter(is_ours).count(), 1);
    assert_eq!(reader.get("/v1/schedules/nightly").await.ok(200)["pattern"], "30 2 * * *");
    let both = json!({ "pattern": "30 2 * * *", "queue": "mail", "workflow": "x" });
    assert_eq!(send(&operator, Method::PUT, "/v1/schedules/both", &both).await.status, 400);
    let odd = json!({ "pattern": "61 * * * *", "queue": "mail" });
    assert_eq!(send(&operator, Method::PUT, "/v1/schedules/odd", &odd).await.status, 400);
    assert_eq!(
        send(&operator, Method::DELETE, "/v1/schedules/nightly", &json!({})).await.ok(200)["existed"],
        true
    );
    assert_eq!(reader.get("/v1/schedules/nightly").await.status, 404);
    assert_eq!(operator.post("/v1/schedules/nightly/trigger", &json!({})).await.status, 404);
}

/// HTTP-35, JOB-10.
async fn operators_pause_and_resume(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    operator.post("/v1/queues/mail/items", &json!({ "key": "a" })).await.ok(201);
    let pause = json!({ "queue": "mail", "reason": "the server is down" });
    assert_eq!(operator.post("/v1/pauses", &pause).await.ok(200)["changed"], true);
    assert_eq!(operator.post("/v1/pauses", &pause).await.ok(200)["changed"], false);
    let listed = reader.get("/v1/pauses").await.ok(200);
    assert_eq!(
        (&listed["items"][0]["queue"], &listed["items"][0]["reason"]),
        (&json!("mail"), &json!("the server is down"))
    );
    let lease = json!({ "lease_ms": 30_000 });
    let leased = operator.post("/v1/queues/mail/lease", &lease).await.ok(200);
    assert_eq!(leased["items"], json!([]));
    let resume = json!({ "queue": "mail" });
    assert_eq!(operator.post("/v1/pauses/resume", &resume).await.ok(200)["changed"], true);
    until("it is leased", async || {
        let leased = operator.post("/v1/queues/mail/lease", &lease).await.ok(200);
        !leased["items"].as_array().unwrap().is_empty()
    })
    .await;
    let none = json!({ "reason": "x" });
    assert_eq!(operator.post("/v1/pauses", &none).await.status, 400);
}

over_sockets!(
    operators_retry_discard_and_cancel_jobs,
    operators_store_trigger_and_delete_schedules,
    operators_pause_and_resume,
);
