//! An event, as JSON.

use serde::Serialize;
use tidelock::Timestamp;
use tidelock::store::{EventId, EventType, Position, RawJson, StoredEvent, StreamName, Version};
use utoipa::ToSchema;

/// An event in the store.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventDto {
    /// Its position in the feed.
    #[schema(value_type = u64, example = 4711)]
    position: Position,
    /// The stream it is in.
    #[schema(value_type = String, example = "order-7")]
    stream: StreamName,
    /// Its version in the stream.
    #[schema(value_type = u64, minimum = 1, example = 3)]
    version: Version,
    /// Its id, unique in the store.
    #[schema(value_type = String, format = "uuid")]
    id: EventId,
    /// Its type.
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "placed")]
    event_type: EventType,
    /// The payload.
    #[schema(value_type = Value)]
    data: RawJson,
    /// The metadata.
    #[schema(value_type = Object)]
    metadata: RawJson,
    /// When it was appended, by the store's clock.
    #[schema(value_type = String, format = DateTime)]
    recorded_at: Timestamp,
}

impl From<StoredEvent> for EventDto {
    fn from(event: StoredEvent) -> Self {
        Self {
            position: event.position,
            stream: event.stream,
            version: event.version,
            id: event.id,
            event_type: event.event_type,
            data: event.payload,
            metadata: event.metadata,
            recorded_at: event.recorded_at,
        }
    }
}
