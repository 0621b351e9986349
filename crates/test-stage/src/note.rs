//! Simple events for test cases.

use serde_json::json;
use tidelock::prelude::*;
use tidelock::store::{NewEvent, StoreExt, StoredEvent, StreamName, StreamQuery};

/// An event of type `noted` in a stream.
pub async fn note(tidelock: &Tidelock, stream: &str, text: &str) -> StoredEvent {
    append(tidelock, stream, "noted", &json!({ "text": text })).await
}

/// An event of this type in a stream.
pub async fn append(
    tidelock: &Tidelock,
    stream: &str,
    event_type: &str,
    payload: &serde_json::Value,
) -> StoredEvent {
    let stream = StreamName::new(stream).unwrap();
    let event = NewEvent::of(event_type, payload).unwrap();
    let store = tidelock.store();
    let outcome = store.append(&stream, ExpectedVersion::Any, vec![event]).await.unwrap();
    let version = outcome.committed().unwrap().appends[0].version;
    let page =
        store.read_stream(StreamQuery::forward(&stream).from(version).limit(1)).await.unwrap();
    page.events.into_iter().next().unwrap()
}

/// The text of an event of type `noted`.
pub fn text(event: &StoredEvent) -> String {
    event.payload.to::<serde_json::Value>().unwrap()["text"].as_str().unwrap_or("?").to_owned()
}
