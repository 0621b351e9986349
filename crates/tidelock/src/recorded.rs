//! A typed event with its stream, version, position and metadata.

use tidelock_store::{
    EventId, Position, Store, StoreError, StoredEvent, StreamName, Timestamp, Version,
};

use crate::event::{DecodeError, Event};
use crate::events::personal;
use crate::metadata::Metadata;

/// An event read from the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded<E> {
    /// The event.
    pub event: E,
    /// Its id, unique in the store.
    pub id: EventId,
    /// The stream it belongs to.
    pub stream: StreamName,
    /// Its version in the stream.
    pub version: Version,
    /// Its position in the feed.
    pub position: Position,
    /// When it was appended, by the store's clock.
    pub recorded_at: Timestamp,
    /// Its metadata.
    pub metadata: Metadata,
}

/// A stored event that cannot be decoded.
#[derive(Debug, Clone, thiserror::Error)]
#[error("stream {stream:?}: version {version} cannot be read: {source}")]
pub struct Unreadable {
    /// The stream it belongs to.
    pub stream: StreamName,
    /// Its version in the stream.
    pub version: Version,
    /// The reason.
    pub source: DecodeError,
}

/// Why events could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// An event cannot be decoded.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<E: Event> Recorded<E> {
    /// Decodes stored events, with their personal data (which is fetched in one read, if there is
    /// any).
    ///
    /// # Errors
    /// [`ReadError`] if an event cannot be decoded, or the store failed.
    pub async fn read(
        store: &(impl Store + ?Sized),
        mut events: Vec<StoredEvent>,
    ) -> Result<Vec<Self>, ReadError> {
        personal::join(store, &mut events).await?;
        Ok(events.iter().map(Self::from_joined).collect::<Result<_, _>>()?)
    }

    /// Decodes an event whose personal data is joined already.
    fn from_joined(stored: &StoredEvent) -> Result<Self, Unreadable> {
        Ok(Self {
            event: decode(stored)?,
            id: stored.id,
            stream: stored.stream.clone(),
            version: stored.version,
            position: stored.position,
            recorded_at: stored.recorded_at,
            metadata: Metadata::of(stored),
        })
    }
}

impl<E> Recorded<E> {
    /// Returns the metadata for an event that this one causes.
    pub fn consequence(&self) -> Metadata {
        Metadata::caused_by(self.id, &self.metadata)
    }
}

/// Decodes the event alone; its personal data is joined already.
pub(crate) fn decode<E: Event>(stored: &StoredEvent) -> Result<E, Unreadable> {
    E::decode(stored.event_type.as_str(), &stored.payload).map_err(|source| Unreadable {
        stream: stored.stream.clone(),
        version: stored.version,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_derive::Event;
    use tidelock_store::{ExpectedVersion, MemoryStore, NewEvent, StoreExt};

    #[derive(Debug, PartialEq, Event)]
    struct Placed {
        units: i64,
    }

    async fn stored(
        event_type: &str,
        payload: &serde_json::Value,
    ) -> (MemoryStore, Vec<StoredEvent>) {
        let (store, stream) = (MemoryStore::new(), StreamName::new("order-7").unwrap());
        let metadata = Metadata::new().correlated("request-1").to_json().unwrap();
        let event = NewEvent::of(event_type, payload).unwrap().with_metadata(metadata);
        store
            .append(&stream, ExpectedVersion::Any, vec![event])
            .await
            .unwrap()
            .committed()
            .unwrap();
        let events = store.read_whole_stream(&stream).await.unwrap();
        (store, events)
    }

    #[tokio::test]
    async fn a_recorded_event_has_its_version_and_metadata() {
        let (store, events) = stored("placed", &serde_json::json!({ "units": 2 })).await;
        let id = events[0].id;
        let read = Recorded::<Placed>::read(&store, events).await.unwrap();
        assert_eq!((&read[0].event, read[0].version), (&Placed { units: 2 }, Version::FIRST));
        let next = read[0].consequence();
        assert_eq!((next.correlation.as_deref(), next.causation), (Some("request-1"), Some(id)));
    }

    #[tokio::test]
    async fn an_unknown_event_is_named_with_stream_version_and_type() {
        let (store, events) = stored("cancelled", &serde_json::json!({})).await;
        let refused = Recorded::<Placed>::read(&store, events).await.unwrap_err().to_string();
        assert!(refused.starts_with(r#"stream "order-7": version 1 cannot be read"#), "{refused}");
        assert!(refused.contains(r#"type "cancelled" is not known to Placed"#), "{refused}");
    }
}
