//! Resumes parked runs, and reads the status of a run.

use tidelock_store::{Adjustment, ItemFilter, ItemRef, NamePattern, Result, Store, When};

use super::info::load_summary;
use super::status;
use crate::handle::Tidelock;
use crate::runs::{RunError, RunId, RunStatus};

pub(super) async fn resume(tidelock: &Tidelock, run: &RunId) -> Result<RunStatus, RunError> {
    let (there, store) = (load_summary(tidelock, run).await?, &**tidelock.store());
    let found = status::of(store, &there).await?;
    if !matches!(found, RunStatus::Parked { .. }) {
        return Ok(found);
    }
    release(store, &there.item()).await?;
    Ok(status::of(store, &there).await?)
}

/// Clears the item's hold and block. Neither affects a current lease, so no conflict is possible.
async fn release(store: &dyn Store, item: &ItemRef) -> Result<()> {
    let filter =
        ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str())).held(false);
    store.adjust(filter.clone().blocked(true), Adjustment::Unblock).await?;
    store.adjust(filter, Adjustment::Defer { until: When::NOW }).await?;
    Ok(())
}
