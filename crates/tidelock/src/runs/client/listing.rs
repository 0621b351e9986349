//! Runs by state, workflow, time of start and attributes, newest first, page by page.
//!
//! Everything goes through the index that moves with each run's summary: one range of it for each
//! state and workflow that is meant, or the range of one attribute. All ranges are in the same
//! order, so one place in it is where a page ends in every one of them. What it costs depends on
//! the page and on how many workflows there are, never on how many runs.

mod filter;
mod range;

use serde::{Deserialize, Serialize};
use tidelock_store::{RecordKey, Result, Store, StoreError, Timestamp};

use crate::runs::summary::Summarized;
use crate::runs::{RunId, RunInfo, keys};
use range::Range;

pub use filter::RunFilter;

/// Runs, newest first, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunPage {
    /// The runs. May be fewer than asked for though more follow, when some of those looked at did
    /// not pass.
    pub runs: Vec<RunInfo>,
    /// List on after this, if there may be more.
    pub next: Option<RunCursor>,
}

/// A place in a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunCursor {
    /// Newest first, so that the order of places is that of the listing.
    pub(super) age: std::cmp::Reverse<Timestamp>,
    pub(super) run: RunId,
}

impl RunCursor {
    fn new(started_at: Timestamp, run: RunId) -> Self {
        Self { age: std::cmp::Reverse(started_at), run }
    }
}

/// The page of runs that pass this filter.
pub(crate) async fn list(store: &dyn Store, filter: &RunFilter) -> Result<RunPage> {
    if filter.limit == 0 {
        return Err(StoreError::invalid("a page of 0 runs; it has at least 1"));
    }
    let mut found = Vec::new();
    for range in Range::all(store, filter).await? {
        found.extend(range.scan(store, filter).await?);
    }
    found.sort();
    let more = found.len() >= filter.limit;
    found.truncate(filter.limit);
    let next = found.last().cloned().filter(|_| more);
    Ok(RunPage { runs: summaries(store, filter, found).await?, next })
}

/// What the runs at these places are. One that has moved on since the index was read is shown if it
/// still passes.
async fn summaries(
    store: &dyn Store,
    filter: &RunFilter,
    found: Vec<RunCursor>,
) -> Result<Vec<RunInfo>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<RecordKey> = found.iter().map(|place| keys::summary(&place.run)).collect();
    let mut runs = Vec::new();
    for (place, slot) in found.iter().zip(store.get(&keys).await?) {
        let there = Summarized::of(&place.run, &slot)?;
        runs.extend(there.map(RunInfo::of).filter(|run| filter.passes(run)));
    }
    Ok(runs)
}
