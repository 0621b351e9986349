//! Conversations: what led to what.

use serde_json::json;
use tidelock_test_stage::Stage;

use crate::ground::{READER, Server, WRITER};

/// HTTP-20. And the event that began it, which does not say so itself.
async fn a_conversation_has_all_that_belongs_to_it(stage: Stage) {
    let server = Server::start(&stage).await;
    let (writer, reader) = (server.client(WRITER), server.client(READER));
    let first = "0198c5a0-0000-7000-8000-000000000011";
    let (by_id, named) =
        (json!({ "correlation": first, "causation": first }), json!({ "correlation": "checkout-1" }));
    let events = json!({ "events": [
        { "type": "placed", "data": 1, "id": first },
        { "type": "other", "data": 1 },
        { "type": "reserved", "data": 1, "metadata": by_id },
        { "type": "paid", "data": 1, "metadata": named },
    ]});
    let position = writer.post("/v1/streams/a/events", &events).await.ok(201)["position"].clone();
    let found = reader.get(&format!("/v1/correlations/{first}?around={position}")).await.ok(200);
    let told: Vec<_> =
        found["items"].as_array().unwrap().iter().map(|part| (&part["name"], &part["causation"])).collect();
    assert_eq!(told, [(&json!("placed"), &json!(null)), (&json!("reserved"), &json!(first))]);
    assert_eq!((&found["next"], &found["looked"]["to"]), (&json!(null), &position));
    let found = reader.get("/v1/correlations/checkout-1").await.ok(200);
    assert_eq!((found["items"].as_array().unwrap().len(), &found["items"][0]["where"]), (1, &json!("a")));
    assert_eq!(reader.get("/v1/correlations/nobody").await.ok(200)["items"], json!([]));
}

over_sockets!(a_conversation_has_all_that_belongs_to_it);
