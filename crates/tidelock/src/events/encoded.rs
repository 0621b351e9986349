//! Encoding of typed events for a commit.

use std::collections::BTreeMap;

use serde_json::Value;
use tidelock_store::{
    Commit, EventId, EventType, ExpectedRevision, ExpectedVersion, NewEvent, RawJson, RecordWrite,
    Result, StreamName, limits,
};

use super::{keys, personal};
use crate::event::Event;
use crate::metadata::Metadata;

/// Encoded events, and the personal data stored separately from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Encoded {
    /// The events of one append, in order.
    pub(crate) events: Vec<NewEvent>,
    /// Writes of personal data, for the same commit.
    writes: Vec<RecordWrite>,
    /// Subjects of the personal data.
    subjects: Vec<String>,
}

impl Encoded {
    /// Encodes events; `id` returns the id for each index.
    pub(crate) fn with_ids<'a, E: Event>(
        events: impl IntoIterator<Item = &'a E>,
        metadata: &Metadata,
        id: impl Fn(usize) -> EventId,
    ) -> Result<Self> {
        let metadata = metadata.traced().to_json()?;
        let mut encoded = Self::default();
        for (at, event) in events.into_iter().enumerate() {
            let pushed = encoded.push(event, id(at), &metadata);
            pushed.map_err(|e| e.about(format_args!("event {:?}", event.event_type())))?;
        }
        Ok(encoded)
    }

    /// Whether any of the events contains personal data.
    pub(crate) fn is_personal(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Whether the events may exceed a limit of the store and need a full check.
    pub(crate) fn is_large(&self) -> bool {
        let bytes =
            self.events.iter().map(|e| e.payload.as_str().len() + e.metadata.as_str().len());
        self.events.len() > limits::EVENTS_PER_COMMIT
            || bytes.sum::<usize>() > limits::METADATA_BYTES
    }

    /// Adds an append of these events to a commit.
    pub(crate) fn add_to(
        self,
        commit: Commit,
        stream: &StreamName,
        expected: ExpectedVersion,
    ) -> Result<Commit> {
        let commit = self.writes.into_iter().fold(commit, Commit::write);
        let guarded = self
            .subjects
            .iter()
            .try_fold(commit, |commit, subject| personal::guard(commit, subject));
        Ok(guarded?.append(stream, expected, self.events))
    }

    fn push<E: Event>(&mut self, event: &E, id: EventId, metadata: &RawJson) -> Result<()> {
        let split = personal::split(event.encode()?)?;
        let event_type = EventType::new(event.event_type())?;
        let new = NewEvent::new(event_type, split.payload);
        self.events.push(new.with_id(id).with_metadata(metadata.clone()));
        self.add_personal(id, split.values)
    }

    fn add_personal(&mut self, id: EventId, values: BTreeMap<String, Vec<Value>>) -> Result<()> {
        for (subject, values) in values {
            let key = keys::personal(&subject, id)?;
            // The same event sent again writes the same value; the guard rejects an erased subject.
            self.writes.push(RecordWrite::put(&key, ExpectedRevision::Any, RawJson::new(&values)?));
            if !self.subjects.contains(&subject) {
                self.subjects.push(subject);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Personal;
    use crate::recorded::Recorded;
    use tidelock_derive::Event;
    use tidelock_store::{MemoryStore, Store, StoreExt};

    #[derive(Debug, PartialEq, Event)]
    struct Joined {
        name: Personal<String>,
        club: String,
    }

    fn joined(subject: &str, name: &str) -> Joined {
        Joined { name: Personal::new(subject, name.to_owned()), club: "chess".into() }
    }

    async fn append(store: &MemoryStore, event: &Joined) -> bool {
        let club = StreamName::new("club-chess").unwrap();
        let encoded = Encoded::with_ids([event], &Metadata::new(), |_| EventId::fresh()).unwrap();
        let commit = encoded.add_to(Commit::new(), &club, ExpectedVersion::Any).unwrap();
        store.commit(commit).await.unwrap().committed().is_ok()
    }

    async fn read(store: &MemoryStore) -> Vec<Joined> {
        let events =
            store.read_whole_stream(&StreamName::new("club-chess").unwrap()).await.unwrap();
        let recorded = Recorded::read(store, events).await.unwrap();
        recorded.into_iter().map(|recorded| recorded.event).collect()
    }

    #[tokio::test]
    async fn personal_data_is_joined_on_read_until_its_subject_is_erased() {
        let store = MemoryStore::new();
        assert!(append(&store, &joined("ada", "Ada")).await);
        assert!(append(&store, &joined("bob", "Bob")).await);
        assert_eq!(read(&store).await, [joined("ada", "Ada"), joined("bob", "Bob")]);

        assert_eq!(personal::erase(&store, "ada").await.unwrap(), 1);
        let erased = Joined { name: Personal::erased("ada"), club: "chess".into() };
        assert_eq!(read(&store).await, [erased, joined("bob", "Bob")]);
        assert!(!append(&store, &joined("ada", "Ada")).await, "an erased subject takes no more");
        assert!(append(&store, &joined("eve", "Eve")).await);
    }
}
