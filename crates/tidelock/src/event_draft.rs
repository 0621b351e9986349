//! [`event`]: an event to append to a stream by name, checked when it is appended.

use serde::Serialize;
use tidelock_store::{EventId, NewEvent, StoreError};

use crate::metadata::Metadata;

/// Creates an event of this type from a serializable payload, for a stream without an aggregate.
///
/// It always succeeds: a type or payload that cannot be stored is reported by the call that appends
/// the event. Events of an aggregate are values of its event type and need no draft.
///
/// # Examples
/// ```
/// use serde_json::json;
/// use tidelock::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidelock::Result<()> {
/// # let tidelock = Tidelock::open("memory:").await?;
/// let placed = event("placed", json!({ "units": 2 })).with_metadata(&Metadata::new().by("ada"));
/// tidelock.commit().append("order-7", ExpectedVersion::NoStream, placed).await?;
/// # Ok(())
/// # }
/// ```
pub fn event(event_type: impl AsRef<str>, payload: impl Serialize) -> EventDraft {
    EventDraft(NewEvent::of(event_type.as_ref(), &payload))
}

/// An event that is not checked yet. Made by [`event`].
#[derive(Debug, Clone)]
#[must_use = "nothing is appended until it is given to a commit"]
pub struct EventDraft(Result<NewEvent, StoreError>);

impl EventDraft {
    /// Sets the id. An append of an id that is in the store already is a repetition, and changes
    /// nothing.
    pub fn with_id(self, id: EventId) -> Self {
        Self(self.0.map(|event| event.with_id(id)))
    }

    /// Sets the metadata.
    pub fn with_metadata(self, metadata: &Metadata) -> Self {
        Self(self.0.and_then(|event| Ok(event.with_metadata(metadata.to_json()?))))
    }
}

impl From<NewEvent> for EventDraft {
    fn from(event: NewEvent) -> Self {
        Self(Ok(event))
    }
}

/// One event or several of them, for a stream without an aggregate: [drafts](EventDraft) or
/// [`NewEvent`]s.
pub trait IntoNewEvents {
    /// Checks the events.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if a type or payload cannot be stored.
    fn into_new_events(self) -> Result<Vec<NewEvent>, StoreError>;
}

impl IntoNewEvents for EventDraft {
    fn into_new_events(self) -> Result<Vec<NewEvent>, StoreError> {
        Ok(vec![self.0?])
    }
}

impl IntoNewEvents for NewEvent {
    fn into_new_events(self) -> Result<Vec<NewEvent>, StoreError> {
        Ok(vec![self])
    }
}

impl<T: Into<EventDraft>> IntoNewEvents for Vec<T> {
    fn into_new_events(self) -> Result<Vec<NewEvent>, StoreError> {
        self.into_iter().map(|event| event.into().0).collect()
    }
}

impl<T: Into<EventDraft>, const N: usize> IntoNewEvents for [T; N] {
    fn into_new_events(self) -> Result<Vec<NewEvent>, StoreError> {
        self.into_iter().map(|event| event.into().0).collect()
    }
}
