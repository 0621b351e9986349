//! Reads a history: folded for a replay, or entry by entry.

use tidelock_store::{EventId, Result, Store, StoreExt, StoredEvent, StreamQuery, Version};

use super::{Entry, RunOutcome};
use crate::metadata::Metadata;
use crate::runs::replay::Replay;
use crate::runs::summary::Summarized;
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
            let started = Metadata::of(&event);
            loaded.metadata = Metadata {
                trace: started.trace.clone(),
                ..Metadata::caused_by(event.id, &started)
            };
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

/// How many events are searched for the end of a run. It is last, except for later entries of other
/// processes.
const TAIL: usize = 10;

/// Visits every entry of the run's generation, in order.
pub(crate) async fn each(
    store: &dyn Store,
    run: &Summarized,
    mut visit: impl FnMut(&StoredEvent, Entry),
) -> Result<()> {
    let whole = StreamQuery::forward(&keys::stream(&run.run));
    let mut events = store.rows(StreamQuery { from: run.summary.begins, ..whole });
    while let Some(event) = events.next().await? {
        visit(&event, Entry::decode(&event)?);
    }
    Ok(())
}

/// Whether this event is in the run's generation; `None` never is.
pub(crate) async fn has(store: &dyn Store, run: &Summarized, id: Option<EventId>) -> Result<bool> {
    let Some(id) = id else { return Ok(false) };
    Ok(find(store, run, id).await?.is_some())
}

/// The entry of the run's generation with this event id.
pub(crate) async fn find(
    store: &dyn Store,
    run: &Summarized,
    id: EventId,
) -> Result<Option<Entry>> {
    let mut found = None;
    each(store, run, |event, entry| {
        if event.id == id {
            found = Some(entry);
        }
    })
    .await?;
    Ok(found)
}

/// The newest entry of the run's generation for which `f` returns a value.
pub(crate) async fn newest<T>(
    store: &dyn Store,
    run: &Summarized,
    make: impl Fn(Entry) -> Option<T>,
) -> Result<Option<T>> {
    let mut events = store.rows(StreamQuery::backward(&keys::stream(&run.run)));
    let is_of_it =
        |event: &StoredEvent| run.summary.begins.is_none_or(|begins| begins <= event.version);
    while let Some(event) = events.next().await?.filter(is_of_it) {
        if let Some(made) = make(Entry::decode(&event)?) {
            return Ok(Some(made));
        }
    }
    Ok(None)
}

/// How the run ended; `None` if it is open.
pub(crate) async fn outcome(store: &dyn Store, run: &Summarized) -> Result<Option<RunOutcome>> {
    let query = StreamQuery::backward(&keys::stream(&run.run)).limit(TAIL);
    for event in store.full_page(query).await?.events {
        match Entry::decode(&event)? {
            Entry::Retried(_) => return Ok(None),
            entry => {
                if let Some(outcome) = entry.outcome() {
                    return Ok(Some(outcome));
                }
            }
        }
    }
    Ok(None)
}
