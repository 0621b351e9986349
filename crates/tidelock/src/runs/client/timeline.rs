//! What happened in a run, page by page, for whoever draws it.
//!
//! It is the run's history as it is stored, earlier generations included for as long as they are
//! there. Nothing is folded here: a long history is never read whole.

use serde::{Deserialize, Serialize};
use tidelock_store::{
    RawJson, Result, Store, StoreExt, StoredEvent, StreamQuery, Timestamp, Version,
};

use crate::runs::{RunId, keys};

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Its place in the run's history.
    pub version: Version,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// What it was: `started`, `step`, `attempt-failed`, `timer`, `fired`, `waiting`, `received`,
    /// `signalled`, `completed`…
    pub kind: String,
    /// What the run calls the step, the sleep, the wait or the child that it belongs to, if it
    /// does.
    pub name: Option<String>,
    /// All that was recorded.
    pub data: RawJson,
}

/// What happened, in order, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// In the order in which it happened.
    pub entries: Vec<HistoryEntry>,
    /// Read on after this, if there is more.
    pub next: Option<Version>,
}

/// Entries that belong to an operation say its name.
#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}

/// The entries after this one.
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
        // There is nothing after the last number there is.
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
            kind: event.event_type.as_str().trim_start_matches('~').to_owned(),
            name: event.payload.to::<Named>().ok().and_then(|named| named.name),
            data: event.payload.clone(),
        }
    }
}
