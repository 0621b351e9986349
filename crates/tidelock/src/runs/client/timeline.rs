//! Timeline: a run's history, page by page.
//!
//! It is the stored history, including earlier generations as long as they exist. Nothing is
//! folded, so a long history is never read at once.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    RawJson, Result, Store, StoreExt, StoredEvent, StreamQuery, Timestamp, Version,
};

use crate::runs::{RunId, keys};

/// One entry of a run's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Its version in the history.
    pub version: Version,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Its kind: `started`, `step`, `attempt-failed`, `timer`, `fired`, `waiting`, `received`,
    /// `signalled`, `completed`…
    pub kind: String,
    /// The name of the step, sleep, wait or child that it belongs to, if any.
    pub name: Option<String>,
    /// The recorded data.
    pub data: RawJson,
}

/// A page of a run's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// The entries, in order.
    pub entries: Vec<HistoryEntry>,
    /// The version to continue after, if there is more.
    pub next: Option<Version>,
}

/// The name field of entries that belong to an operation.
#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}

/// Reads the entries after this version.
pub(super) async fn page(
    store: &dyn Store,
    run: &RunId,
    after: Option<Version>,
    limit: usize,
) -> Result<Timeline> {
    let whole = StreamQuery::forward(&keys::stream(run)).limit(limit);
    let query = match after.map(|after| Version::new(after.get().saturating_add(1))) {
        None => whole,
        Some(Ok(next)) => whole.from(next),
        // Nothing follows the largest version.
        Some(Err(_)) => return Ok(Timeline { entries: Vec::new(), next: None }),
    };
    let page = store.full_page(query).await?;
    let next = page.next.and_then(|_| page.events.last().map(|event| event.version));
    Ok(Timeline { entries: page.events.iter().map(HistoryEntry::of).collect(), next })
}

impl HistoryEntry {
    fn of(event: &StoredEvent) -> Self {
        Self {
            version: event.version,
            recorded_at: event.recorded_at,
            kind: keys::entry_kind(&event.event_type).to_owned(),
            name: event.payload.to::<Named>().ok().and_then(|named| named.name),
            data: event.payload.clone(),
        }
    }
}
