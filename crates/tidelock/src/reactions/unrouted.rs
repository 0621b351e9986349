//! Unrouted events: each event whose route failed is a work item, retried with the reaction's
//! backoff and then blocked for an operator. Once its route succeeds, the event is linked to its
//! target.

use std::sync::Arc;

use tidelock_store::{
    Commit, CommitOutcome, ExpectedVersion, ItemKey, Mark, Position, Result, Settlement, Store,
    StoreExt, StoredEvent, Version, Wake, When, limits,
};

use super::keys;
use super::links::Link;
use super::reaction::Reaction;
use super::rebuild::Rebuild;
use super::route::Route;
use super::work::{failed, store_failure};
use crate::handler_error::HandlerError;
use crate::worker::{LeasedTask, TaskOutcome};

/// The item of an event whose route failed. Its mark is the event's position; it is done when that
/// is acknowledged.
pub(crate) fn wake(reaction: &Reaction, position: Position) -> Wake {
    let wake = Wake::to_mark(reaction.item(&keys::unrouted(position)), Mark::from(position));
    with_options(reaction, wake)
}

/// Applies the reaction's lane and priority to a wake.
pub(crate) fn with_options(reaction: &Reaction, wake: Wake) -> Wake {
    let wake = wake.with_priority(reaction.options.priority);
    match &reaction.options.lane {
        Some(lane) => wake.in_lane(lane.clone()),
        None => wake,
    }
}

/// Retries the route of one event, or leaves the event out.
pub(crate) async fn route_again(
    store: &Arc<dyn Store>,
    reaction: &Reaction,
    task: &LeasedTask,
    rebuild: Option<Rebuild>,
) -> Result<TaskOutcome> {
    let Some(event) = find(&**store, task.lease().mark).await? else {
        return ack(task, None).await;
    };
    if let Some(rebuild) = rebuild
        && let Some(skip) = rebuild.skip(task.lease().at)
    {
        let now = store.now().await?;
        let record = skip.record(&reaction.name, &task.lease().item, &event, now)?;
        let over = rebuild.after(task.lease().mark)?;
        return ack(task, Some(over.into_iter().fold(Commit::new().write(record), Commit::write)))
            .await;
    }
    match target(store, reaction, &event).await {
        Ok(target) => join(&**store, reaction, task, &event, target).await,
        Err(failure) => match store_failure(&failure) {
            Some(error) => Err(error.clone()),
            None => task.settle(failed(reaction, task, task.lease().failures, &failure)).await,
        },
    }
}

/// The event at this position, unless it was deleted.
async fn find(store: &dyn Store, mark: Mark) -> Result<Option<StoredEvent>> {
    store.event_at(Position::new(mark.get())?).await
}

async fn target(
    store: &Arc<dyn Store>,
    reaction: &Reaction,
    event: &StoredEvent,
) -> Result<Option<ItemKey>, HandlerError> {
    match &reaction.route {
        // The reaction had computed targets when the item was created.
        Route::Own => Ok(None),
        Route::Computed(compute) => Route::compute(compute, store, &reaction.name, event).await,
    }
}

async fn ack(task: &LeasedTask, joining: Option<Commit>) -> Result<TaskOutcome> {
    let forget = When::In(limits::ITEM_MEMORY);
    let settlement = Settlement::finish(task.token(), task.lease().mark, forget);
    match task.commit(joining.unwrap_or_default().settle(settlement)).await? {
        CommitOutcome::Committed(_) => Ok(TaskOutcome::Acked),
        CommitOutcome::Conflict(conflict) if crate::worker::is_loss(&conflict) => {
            Ok(TaskOutcome::Lost)
        }
        // The router linked to the same target meanwhile.
        CommitOutcome::Conflict(_) => task.settle(Settlement::release(task.token())).await,
    }
}

/// Links the event to its target, wakes the target and finishes the item, in one commit.
async fn join(
    store: &dyn Store,
    reaction: &Reaction,
    task: &LeasedTask,
    event: &StoredEvent,
    target: Option<ItemKey>,
) -> Result<TaskOutcome> {
    let Some(target) = target else { return ack(task, None).await };
    let links = keys::links(&reaction.name, &target)?;
    let head = store.head(&links).await?.state.version();
    let expected = head.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
    let next = head.map_or(Version::FIRST, |head| head.plus(1));
    let wake = with_options(reaction, Wake::to_mark(reaction.item(&target), Mark::from(next)));
    ack(task, Some(Commit::new().append(&links, expected, [Link::to(event)?]).wake(wake))).await
}
