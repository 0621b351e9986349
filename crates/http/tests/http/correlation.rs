//! Correlations: cause and effect.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidelock::AppBuilder;
use tidelock::prelude::*;
use tidelock::store::{NewEvent, StoredEvent, limits};
use tidelock_test_stage::{Running, TestStore, brisk, until};

use crate::harness::{READER, Server, WRITER};

/// HTTP-20. Including the event that started it, which does not contain the correlation id.
async fn a_correlation_has_all_its_events(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, reader) = (server.client(WRITER), server.client(READER));
    let first = "0198c5a0-0000-7000-8000-000000000011";
    let (by_id, named) = (
        json!({ "correlation": first, "causation": first }),
        json!({ "correlation": "checkout-1" }),
    );
    let events = json!({ "events": [
        { "type": "placed", "data": 1, "id": first },
        { "type": "other", "data": 1 },
        { "type": "reserved", "data": 1, "metadata": by_id },
        { "type": "paid", "data": 1, "metadata": named },
    ]});
    let position = writer.post("/v1/streams/a/events", &events).await.ok(201)["position"].clone();
    let found = reader.get(&format!("/v1/correlations/{first}?around={position}")).await.ok(200);
    let told: Vec<_> = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (&part["name"], &part["causation"]))
        .collect();
    assert_eq!(told, [(&json!("placed"), &json!(null)), (&json!("reserved"), &json!(first))]);
    assert_eq!((&found["next"], &found["range"]["to"]), (&json!(null), &position));
    let found = reader.get("/v1/correlations/checkout-1").await.ok(200);
    assert_eq!(
        (found["items"].as_array().unwrap().len(), &found["items"][0]["where"]),
        (1, &json!("a"))
    );
    assert_eq!(reader.get("/v1/correlations/unknown").await.ok(200)["items"], json!([]));
}

/// HTTP-20. One that is longer than a response continues where that ended.
async fn a_long_correlation_is_read_in_parts(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, reader) = (server.client(WRITER), server.client(READER));
    let event = json!({ "type": "noted", "data": 1, "metadata": { "correlation": "long" } });
    for _ in 0..3 {
        let events = vec![&event; limits::PAGE_SIZE / 2];
        writer.post("/v1/streams/a/events", &json!({ "events": events })).await.ok(201);
    }
    let (mut ids, mut after) = (BTreeSet::new(), "0".to_owned());
    loop {
        let part = reader.get(&format!("/v1/correlations/long?after={after}")).await.ok(200);
        let items = part["items"].as_array().unwrap();
        ids.extend(items.iter().map(|part| part["id"].as_str().unwrap().to_owned()));
        match part["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(ids.len(), limits::PAGE_SIZE / 2 * 3);
    assert_ne!(after, "0", "it took more than one answer");
}

/// HTTP-20. Across streams, reactions and runs: an order is mailed by one reaction, counted by
/// another, which appends nothing, and checked out by a run that a third one starts.
async fn a_correlation_spans_reactions_and_runs(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (writer, reader) = (server.client(WRITER), server.client(READER));
    let running = Running::start(shop(&stage.tidelock().await));
    let placed = "0198c5a0-0000-7000-8000-000000000021";
    let body = json!({ "events": [{ "type": "placed", "data": 1, "id": placed }] });
    writer.post("/v1/streams/order-1/events", &body).await.ok(201);
    let look =
        async || reader.get(&format!("/v1/correlations/{placed}")).await.ok(200)["items"].clone();
    until("all is done", async || {
        let (items, handled) =
            (look().await, |part: &Value| part["kind"] == "reaction" && part["state"] == "done");
        let done = items.as_array().unwrap().iter().filter(|part| handled(part)).count();
        done == 3 && items.as_array().unwrap().iter().any(|part| part["state"] == "completed")
    })
    .await;
    running.stop().await;
    let items = look().await;
    let find = |kind: &str, name: &str| {
        let found = items
            .as_array()
            .unwrap()
            .iter()
            .find(|part| part["kind"] == kind && part["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name} in {items}"))
    };
    let led_to =
        |kind: &str, name: &str| find(kind, name)["causation"].as_str().unwrap().to_owned();
    assert_eq!(find("event", "placed")["causation"], Value::Null);
    for reaction in ["mail", "count", "checkout"] {
        assert_eq!(led_to("reaction", reaction), placed);
    }
    assert_eq!(led_to("event", "mailed"), format!("mail:{placed}"));
    assert!(find("reaction", "mail")["until"].is_string(), "it is known when it appended");
    let run = find("run", "checkout@1");
    assert_eq!(
        (&run["causation"], &run["run"]),
        (&json!(format!("checkout:{placed}")), &json!("run-1"))
    );
    assert!(run["until"].is_string(), "{run}");
    assert_eq!(find("event", "shipped")["causation"], run["id"]);
}

fn shop(tidelock: &Tidelock) -> AppBuilder {
    let orders = || on_any().in_streams("order-");
    let mail = |_: StoredEvent, ctx: ReactionCtx| async move {
        ctx.append_to("mail-1", ExpectedVersion::Any, [NewEvent::of("mailed", &1)?])?;
        Ok(())
    };
    let checkout = |_: StoredEvent, ctx: ReactionCtx| async move {
        ctx.start("checkout", "run-1", &()).version(1).await?;
        Ok(())
    };
    let ship = async |ctx: RunCtx, (): ()| {
        ctx.transact("ship", async |tx: Tx| {
            let shipped = NewEvent::of("shipped", &1)?;
            tx.append_to("parcel-1", ExpectedVersion::Any, [shipped])
        })
        .await
    };
    let app = tidelock.app().worker(brisk("w")).reaction("mail", orders(), mail);
    let app = app.workflow("checkout", ship);
    app.reaction("checkout", orders(), checkout).reaction(
        "count",
        orders(),
        |_: StoredEvent, _| async { Ok(()) },
    )
}

over_sockets!(
    a_correlation_has_all_its_events,
    a_long_correlation_is_read_in_parts,
    a_correlation_spans_reactions_and_runs,
);
