//! Loads a history and folds it into the replay state.

use tidelock_store::{Result, Store, StoreExt, StoredEvent, StreamQuery, Version};

use super::Entry;
use crate::metadata::Metadata;
use crate::runs::replay::Replay;
use crate::runs::{RunId, keys};

/// A loaded history.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) replay: Replay,
    /// The last version that was read; `None` if the history is empty.
    pub(crate) version: Option<Version>,
    /// Metadata of the events that the run causes.
    pub(crate) metadata: Metadata,
}

/// Reads and folds a run's history, from this version on.
pub(crate) async fn load(
    store: &(impl Store + ?Sized),
    run: &RunId,
    begins: Option<Version>,
) -> Result<Loaded> {
    let mut loaded = Loaded { replay: Replay::default(), version: None, metadata: Metadata::new() };
    for event in events(store, run, begins).await? {
        let entry = Entry::decode(&event)?;
        if let Entry::Started(_) = entry {
            loaded.metadata = Metadata::caused_by(event.id, &Metadata::of(&event));
        }
        loaded.replay.fold(entry)?;
        loaded.version = Some(event.version);
    }
    if let Some(carried) = loaded.replay.metadata() {
        loaded.metadata = Metadata::from_json(carried);
    }
    Ok(loaded)
}

/// Reads all events of a run's history from this version on.
pub(crate) async fn events(
    store: &(impl Store + ?Sized),
    run: &RunId,
    from: Option<Version>,
) -> Result<Vec<StoredEvent>> {
    store.rows(StreamQuery { from, ..StreamQuery::forward(&keys::stream(run)) }).all().await
}
