//! Cleanup of reaction state about deleted events.
//!
//! A stream that was closed for good leaves an idle cursor in each reaction that followed it. A
//! stream whose events were deleted leaves links to them in the link streams of computed targets.
//! The cursors are forgotten when the stream is closed. The links are removed by one work item per
//! reaction, which a closing makes due a minute later: many closings in a row cost one pass over
//! the reaction's targets.

use std::time::Duration;

use tidelock_store::{
    Adjustment, AfterTrim, Append, Commit, CommitOutcome, ExpectedVersion, Item, ItemFilter,
    ItemKey, ItemQuery, NamePattern, RecordQuery, Result, Settlement, Store, StoreExt, StoredEvent,
    StreamName, StreamQuery, Version, Wake, When, limits,
};

use super::links::Link;
use super::recent::Recent;
use super::router::Cursor;
use super::{ReactionName, keys};
use crate::worker::{LeasedTask, QueueHandler, TaskFuture, TaskOutcome, each, is_loss};

/// How long the removal of links waits for further closings.
const DELAY: Duration = Duration::from_secs(60);

/// The reactions that follow a stream, and whether their targets are computed.
async fn followers(store: &dyn Store, stream: &StreamName) -> Result<Vec<(ReactionName, bool)>> {
    let mut followers = Vec::new();
    let mut routes = store.rows(RecordQuery::prefix(keys::route_records()));
    while let Some(record) = routes.next().await? {
        let name = keys::routed_reaction(record.key.as_str())
            .and_then(|name| ReactionName::new(name).ok());
        let cursor: Cursor = record.value.to()?;
        if stream.as_str().starts_with(&cursor.streams) {
            followers.extend(name.map(|name| (name, cursor.computed)));
        }
    }
    Ok(followers)
}

/// Wakes of the link removals, for the commit that deletes a stream's events.
pub(crate) async fn link_removals(store: &dyn Store, stream: &StreamName) -> Result<Vec<Wake>> {
    let followers = followers(store, stream).await?.into_iter().filter(|(_, computed)| *computed);
    Ok(followers
        .map(|(reaction, _)| Wake::at(keys::link_removal(&reaction), When::In(DELAY)))
        .collect())
}

/// Lets the store forget the cursors on a stream that was closed for good. Cursors with pending
/// work stay.
pub(crate) async fn forget_cursors(store: &dyn Store, stream: &StreamName) -> Result<()> {
    let Ok(key) = ItemKey::new(stream.as_str()) else { return Ok(()) };
    for (reaction, _) in
        followers(store, stream).await?.into_iter().filter(|(_, computed)| !computed)
    {
        let filter =
            ItemFilter::queue(keys::queue(&reaction).as_str()).key(NamePattern::is(key.as_str()));
        store.adjust(filter, Adjustment::Forget { when: When::In(limits::ITEM_MEMORY) }).await?;
    }
    Ok(())
}

/// Removes links to deleted events, one reaction at a time.
#[derive(Debug)]
pub(crate) struct RemovingLinks;

impl QueueHandler for RemovingLinks {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        each(tasks, remove)
    }
}

async fn remove(task: LeasedTask) -> Result<TaskOutcome> {
    let Ok(reaction) = ReactionName::new(task.lease().item.key.as_str()) else {
        return task.settle(finished(&task)).await;
    };
    let store = task.store().clone();
    let mut targets =
        store.rows(ItemQuery::new(ItemFilter::queue(keys::queue(&reaction).as_str())));
    while let Some(target) = targets.next().await? {
        if task.stopping().is_cancelled() {
            return task.settle(Settlement::release(task.token())).await;
        }
        if !keys::is_unrouted(&target.item.key) && !remove_links(&task, &reaction, &target).await? {
            return Ok(TaskOutcome::Lost);
        }
    }
    task.settle(finished(&task)).await
}

fn finished(task: &LeasedTask) -> Settlement {
    Settlement::finish(task.token(), task.lease().mark, When::In(limits::ITEM_MEMORY))
}

/// Removes the oldest links of one target whose events are handled and deleted. Returns false if
/// the lease is lost.
async fn remove_links(task: &LeasedTask, reaction: &ReactionName, target: &Item) -> Result<bool> {
    let links = keys::links(reaction, &target.item.key)?;
    loop {
        let page =
            task.store().read_stream(StreamQuery::forward(&links).limit(LINKS_PER_PAGE)).await?;
        let Some(through) = gone(&**task.store(), &page.events, target).await? else {
            return Ok(true);
        };
        let close = Append::closing(&links, ExpectedVersion::Exists);
        let commit = Commit::new()
            .with_append(close)
            .trim(&links, through, AfterTrim::Reopen)
            .fenced_by(task.token());
        if let CommitOutcome::Conflict(conflict) = task.commit(commit).await? {
            return Ok(!is_loss(&conflict));
        }
        if page.events.last().is_none_or(|last| last.version > through) {
            return Ok(true);
        }
    }
}

/// Links read per page.
const LINKS_PER_PAGE: usize = 100;

/// The last link of the leading run of handled links whose events are deleted.
async fn gone(store: &dyn Store, links: &[StoredEvent], target: &Item) -> Result<Option<Version>> {
    let found = Link::follow(store, &Recent::default(), links).await?;
    let dead = links
        .iter()
        .zip(found)
        .take_while(|(link, event)| event.is_none() && link.version.get() <= target.at.get());
    Ok(dead.last().map(|(link, _)| link.version))
}
