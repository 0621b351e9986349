//! The states of aggregates, current and past.

use serde::Serialize;
use serde_json::json;
use tidelock::prelude::*;
use tidelock_test_stage::TestStore;

use crate::harness::{READER, Server, tokens};

#[derive(Debug, Default, Clone, Serialize)]
struct Stock {
    left: i64,
}

#[derive(Debug, Event)]
enum StockEvent {
    Received { units: i64 },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, StockEvent::Received { units }: &StockEvent) {
        self.left += units;
    }
}

/// HTTP-19.
async fn current_and_past_states_are_shown(stage: TestStore) {
    let server = Server::start_with(&stage, |api| api.tokens(tokens()).aggregate::<Stock>()).await;
    for units in [2, 3] {
        let stock = server.tidelock.aggregate::<Stock>("sku-7");
        stock.execute(|_| Ok::<_, String>(StockEvent::Received { units })).await.unwrap();
    }
    let reader = server.client(READER);
    let now = reader.get("/v1/states/stock/sku-7").await.ok(200);
    assert_eq!(
        now,
        json!({ "kind": "stock", "id": "sku-7", "version": 2, "state": { "left": 5 } })
    );
    let then = reader.get("/v1/states/stock/sku-7?version=1").await.ok(200);
    assert_eq!((&then["version"], &then["state"]), (&json!(1), &json!({ "left": 2 })));
    reader.get("/v1/states/stock/sku-7?version=3").await.refused(404, "not-reached");
    reader.get("/v1/states/stock/sku-8").await.refused(404, "no-aggregate");
    let unknown = reader.get("/v1/states/order/7").await;
    assert_eq!(
        (unknown.problem(), &unknown.json()["kinds"]),
        ((404, "kind-unknown".into()), &json!(["stock"]))
    );
}

over_sockets!(current_and_past_states_are_shown);
