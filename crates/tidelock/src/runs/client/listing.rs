//! Listing of runs by state, workflow, start time and attributes, newest first, with pages.
//!
//! Every query uses the index that moves with each run's summary: one range for each state and
//! workflow, or the range of one attribute. All ranges have the same order, so one cursor marks the
//! end of a page in all of them. The cost depends on the page and on the number of workflows, never
//! on the number of runs.

mod filter;
mod range;

use serde::{Deserialize, Serialize};
use tidelock_store::{RecordKey, Result, Store, StoreError, Timestamp, limits};

use crate::list::Page;
use crate::runs::summary::Summarized;
use crate::runs::{RunId, RunInfo, keys};
use range::Range;

pub use filter::RunFilter;

/// A position in a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunCursor {
    /// Reversed, so that the order of cursors is that of the listing.
    pub(super) age: std::cmp::Reverse<Timestamp>,
    pub(super) run: RunId,
}

impl RunCursor {
    fn new(started_at: Timestamp, run: RunId) -> Self {
        Self { age: std::cmp::Reverse(started_at), run }
    }
}

/// Lists one page. It may have fewer runs than the limit although more follow, if some did not
/// match.
pub(crate) async fn list(
    store: &dyn Store,
    filter: &RunFilter,
    after: Option<RunCursor>,
    limit: usize,
) -> Result<Page<RunInfo, RunCursor>> {
    if limit == 0 {
        return Err(StoreError::invalid("a page of 0 runs; it has at least 1"));
    }
    let (mut found, limit) = (Vec::new(), limit.min(limits::PAGE_SIZE));
    for range in Range::all(store, filter).await? {
        found.extend(range.scan(store, filter, after.as_ref(), limit).await?);
    }
    found.sort();
    let more = found.len() >= limit;
    found.truncate(limit);
    let next = found.last().cloned().filter(|_| more);
    Ok(Page { items: summaries(store, filter, found).await?, next })
}

/// Reads the summaries at these cursors. A run that changed since the index was read is included if
/// it still matches.
async fn summaries(
    store: &dyn Store,
    filter: &RunFilter,
    found: Vec<RunCursor>,
) -> Result<Vec<RunInfo>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<RecordKey> = found.iter().map(|cursor| keys::summary(&cursor.run)).collect();
    let mut runs = Vec::new();
    for (cursor, slot) in found.iter().zip(store.get(&keys).await?) {
        let there = Summarized::of(&cursor.run, &slot)?;
        runs.extend(there.map(RunInfo::of).filter(|run| filter.passes(run)));
    }
    Ok(runs)
}
