//! The phase of the storm: a record that the test writes and every process reads.

use tidelock_store::{ExpectedRevision, RawJson, RecordKey, StoreExt};
use tidelock_store_sqlite::SqliteStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Every process works.
    Begun,
    /// All scripts are done: writers may end.
    EnoughWritten,
    /// Nothing is written any more: lessees end when nothing is left to do.
    Drain,
    /// The reader ends when it has read everything.
    Over,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Begun, Self::EnoughWritten, Self::Drain, Self::Over];

    pub(super) async fn begin(self, store: &SqliteStore) {
        let value = RawJson::new(&(self as usize)).unwrap();
        let _ = store.put(&key(), ExpectedRevision::Any, value).await.unwrap();
    }

    pub(super) async fn read(store: &SqliteStore) -> Self {
        let slot = store.get_one(&key()).await.unwrap();
        slot.live().map_or(Self::Begun, |record| Self::ALL[record.value.to::<usize>().unwrap()])
    }
}

fn key() -> RecordKey {
    RecordKey::new("phase").unwrap()
}
