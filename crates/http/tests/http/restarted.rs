//! The API on a PostgreSQL server that was restarted: positions continue far above the old ones.

use serde_json::json;
use tidelock::prelude::*;
use tidelock_test_postgres::{Server as Postgres, Stop};
use tidelock_test_stage::{Running, brisk, note, until};

use crate::harness::{READER, Server, WRITER, tokens};

/// Schedule 104; HTTP-17, HTTP-20, HTTP-37, LOG-11. A clean restart, then one commit.
#[tokio::test(flavor = "multi_thread")]
async fn reads_at_the_end_of_the_feed_work_after_a_restart_of_the_server() {
    let postgres = Postgres::start().unwrap();
    let tidelock = Tidelock::open(&postgres.url()).await.unwrap();
    note(&tidelock, "order-1", "x").await;
    let mailing =
        tidelock.app().worker(brisk("w")).reaction("mail", on_any(), |_, _| async { Ok(()) });
    let running = Running::start(mailing);
    until("it is routed", async || !tidelock.reactions().routes().await.unwrap().is_empty()).await;
    running.stop().await;
    drop(tidelock);

    postgres.restart(Stop::Fast).unwrap();
    let tidelock = Tidelock::open(&postgres.url()).await.unwrap();
    let server = Server::start_over(tidelock, |api| api.tokens(tokens())).await;
    let body = json!({ "events": [{ "type": "noted", "data": 1, "metadata": { "correlation": "talk" } }] });
    let appended = server.client(WRITER).post("/v1/streams/a/events", &body).await.ok(201);
    let position = &appended["position"];

    let reader = server.client(READER);
    assert_eq!(reader.get("/v1/doctor").await.ok(200)["healthy"], json!(true));
    assert_eq!(reader.get("/v1/reactions").await.ok(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(reader.get("/v1/overview").await.ok(200)["head_position"], *position);
    let metric = format!("tidelock_feed_position {position}\n");
    until("the end is in the metrics", async || {
        String::from_utf8_lossy(&reader.get("/metrics").await.body).contains(&metric)
    })
    .await;
    let talk = reader.get(&format!("/v1/correlations/talk?around={position}")).await.ok(200);
    assert_eq!(talk["items"][0]["position"], *position, "{talk}");
    let newest = reader.get("/v1/events?last=1").await.ok(200);
    assert_eq!(newest["items"][0]["position"], *position, "{newest}");
    server.stop().await;
}
