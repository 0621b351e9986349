//! Reading a history to go on with it: folded, with everything that its next entry needs to know.

use tidelock_store::{Result, Store, StoreExt, StoredEvent, StreamQuery, Version};

use super::Entry;
use crate::metadata::Metadata;
use crate::runs::replay::ReplayState;
use crate::runs::{RunId, keys};

/// A history as it was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) past: ReplayState,
    /// The version up to which it was read; none if there is nothing.
    pub(crate) version: Option<Version>,
    /// What events say that the run leads to.
    pub(crate) metadata: Metadata,
}

/// Reads and folds a run's history, beginning at this version.
pub(crate) async fn load(
    store: &(impl Store + ?Sized),
    run: &RunId,
    begins: Option<Version>,
) -> Result<Loaded> {
    let mut loaded =
        Loaded { past: ReplayState::default(), version: None, metadata: Metadata::new() };
    for event in events(store, run, begins).await? {
        let entry = Entry::decode(&event)?;
        if let Entry::Started(_) = entry {
            loaded.metadata = Metadata::caused_by(event.id, &Metadata::of(&event));
        }
        loaded.past.take(entry)?;
        loaded.version = Some(event.version);
    }
    if let Some(carried) = &loaded.past.metadata {
        loaded.metadata = Metadata::from_json(carried);
    }
    Ok(loaded)
}

/// The events of a run's history from this version on, page after page.
pub(crate) async fn events(
    store: &(impl Store + ?Sized),
    run: &RunId,
    from: Option<Version>,
) -> Result<Vec<StoredEvent>> {
    store.rows(StreamQuery { from, ..StreamQuery::forward(&keys::stream(run)) }).all().await
}
