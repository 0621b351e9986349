//! Lets a parked run go on at once, and tells where a run stands.

use tidelock_store::{Adjustment, ItemFilter, ItemRef, NamePattern, Result, Store, When};

use super::look::look;
use super::status;
use crate::handle::Tidelock;
use crate::runs::{RunError, RunId, RunStatus};

pub(super) async fn resume(tidelock: &Tidelock, run: &RunId) -> Result<RunStatus, RunError> {
    let (there, store) = (look(tidelock, run).await?, &**tidelock.store());
    let found = status::of(store, &there).await?;
    if !matches!(found, RunStatus::Parked { .. }) {
        return Ok(found);
    }
    release(store, &there.item()).await?;
    Ok(status::of(store, &there).await?)
}

/// Takes the item's hold and block away. Neither touches a lease that stands, nor does it need to
/// know who was quicker.
async fn release(store: &dyn Store, item: &ItemRef) -> Result<()> {
    let filter =
        ItemFilter::queue(item.queue.as_str()).key(NamePattern::is(item.key.as_str())).held(false);
    store.adjust(filter.clone().blocked(true), Adjustment::Unblock).await?;
    store.adjust(filter, Adjustment::Defer { until: When::NOW }).await?;
    Ok(())
}
