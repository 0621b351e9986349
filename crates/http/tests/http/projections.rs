//! Projections over HTTP: their rows, and their rebuilds.

use http::Method;
use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::store::StoredEvent;
use tidelock::{AppBuilder, When};
use tidelock_test_stage::{Running, TestStore, brisk, note, until};

use crate::harness::{Client, OPERATOR, READER, Server, WRITER};

/// Counts the events of each stream, by so many.
fn counting(tidelock: &Tidelock, by: u64) -> AppBuilder {
    let count = move |row: &mut u64, _: StoredEvent| *row += by;
    tidelock.app().worker(brisk("w")).projection("counts", on_any(), count)
}

/// All rows, read two at a time.
async fn rows(client: &Client) -> Vec<Value> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/projections/counts/rows?limit=2{after}")).await.ok(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2, "{page}");
        rows.extend(items.iter().map(|item| json!([item["target"], item["row"]])));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('/', "%2F")),
            None => return rows,
        }
    }
}

async fn until_over(client: &Client) {
    until("the rebuild is over", async || {
        let shown = client.get("/v1/projections/counts").await.ok(200);
        shown["rebuild"].is_null() && shown["deleting"] == false
    })
    .await;
}

/// REACT-30. HTTP-10. HTTP-35.
async fn rows_are_read_page_by_page_while_others_are_built(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    let tidelock = stage.tidelock().await;
    for nth in 0..5 {
        note(&tidelock, &format!("a/{nth}"), "x").await;
    }
    let of = |row: u64| (0..5).map(|nth| json!([format!("a/{nth}"), row])).collect::<Vec<_>>();
    let running = Running::start(counting(&tidelock, 1));
    until("it is registered", async || reader.get("/v1/projections/counts").await.status == 200)
        .await;
    until("all is counted", async || rows(&reader).await == of(1)).await;
    running.stop().await;
    assert_eq!(
        reader.get("/v1/projections").await.ok(200)["items"],
        json!([{ "projection": "counts", "rebuild": null, "deleting": false }])
    );
    let one = reader.get("/v1/projections/counts/rows/a%2F3").await.ok(200);
    assert_eq!(one, json!({ "target": "a/3", "row": 1 }));

    let late = ReactionFilter::named("counts").target("a/4");
    let hour = When::In(std::time::Duration::from_secs(3_600));
    assert_eq!(tidelock.reactions().defer(&late, hour).await.unwrap().matched, 1);
    let path = "/v1/projections/counts/rebuild";
    server.client(WRITER).post(path, &json!({})).await.refused(403, "role-too-low");
    let begun = operator.post(path, &json!({})).await.ok(202);
    assert_eq!(begun["rebuild"]["targets"], 5);
    assert_eq!((&begun["rebuild"]["lag"], &begun["rebuild"]["error"]), (&json!(5), &Value::Null));
    assert_eq!(operator.post(path, &json!({})).await.ok(202), begun, "it goes on");
    let running = Running::start(counting(&tidelock, 10));
    note(&tidelock, "b", "x").await;
    until("new events are in the rows", async || rows(&reader).await.len() == 6).await;
    assert_eq!(rows(&reader).await[..5], of(1), "these are the old rows");
    assert_eq!(tidelock.reactions().defer(&late, When::NOW).await.unwrap().matched, 1);
    until_over(&reader).await;
    assert_eq!(rows(&reader).await[..5], of(10));

    assert_eq!(tidelock.reactions().defer(&late, hour).await.unwrap().matched, 1);
    operator.post(path, &json!({ "partial": true })).await.ok(202);
    let shown = reader.get("/v1/projections/counts").await.ok(200);
    assert_eq!(shown["rebuild"]["partial"], true, "{shown}");
    let cancel = async || operator.send_with(Method::DELETE, path, &[], None).await.ok(200);
    assert_eq!(cancel().await, json!({ "existed": true }));
    assert_eq!(cancel().await, json!({ "existed": false }));
    until_over(&reader).await;
    running.stop().await;
}

/// HTTP-39.
async fn what_is_no_projection_is_not_found(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, tidelock) = (server.client(OPERATOR), stage.tidelock().await);
    let nothing = async |_: StoredEvent, _: ReactionCtx| Ok(());
    let running = Running::start(counting(&tidelock, 1).reaction("mail", on_any(), nothing));
    until("both are registered", async || {
        operator.get("/v1/reactions").await.ok(200)["items"].as_array().unwrap().len() == 2
            && operator.get("/v1/projections/counts").await.status == 200
    })
    .await;
    for (name, code) in [("mail", "no-projection"), ("count", "no-reaction")] {
        let path = format!("/v1/projections/{name}");
        for path in [&path, &format!("{path}/rows"), &format!("{path}/rows/a")] {
            operator.get(path).await.refused(404, code);
        }
        let path = format!("{path}/rebuild");
        operator.post(&path, &json!({})).await.refused(404, code);
        operator.send_with(Method::DELETE, &path, &[], None).await.refused(404, code);
    }
    operator.get("/v1/projections/counts/rows/none").await.refused(404, "no-row");
    running.stop().await;
}

over_sockets!(
    rows_are_read_page_by_page_while_others_are_built,
    what_is_no_projection_is_not_found,
);
