//! Router: reads the feed once for all reactions that this process routes, and wakes their targets.
//!
//! Each reaction has one route item. The process that leases it routes the reaction's events for as
//! long as it lives. The cursor is a record that moves in the same commit as the wakes, under the
//! fence of the lease: the next holder continues exactly there, and writes of an earlier holder are
//! refused.
//!
//! The router never runs a handler and never waits for one.

mod batch;
mod cursor;
mod held_route;
mod link_heads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{
    Commit, EventType, FeedPage, FeedQuery, LeaseToken, Position, Result, RetryAdvice, Settlement,
    Store, StoreError, StoreErrorKind, Topic, limits,
};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::reaction::Reaction;
use super::recent::Recent;
use crate::telemetry;
use crate::worker::{self, LeasedTask, QueueHandler, TaskFuture, TaskOutcome};
use batch::RoutingBatches;
use held_route::HeldRoute;
use link_heads::LinkHeads;

pub use cursor::Rerouted;
pub(crate) use cursor::{
    Cursor, cursor_of, find_cursor, free_routes, is_behind, register, reroute,
};

/// The maximum number of reactions that share a page: an event that all of them handle takes four
/// parts for each, and must fit into a commit.
const GROUP_SIZE: usize = limits::PARTS_PER_COMMIT / 8;

/// Routes events for the reactions whose route items this process holds.
#[derive(Debug)]
pub(crate) struct Router {
    store: Arc<dyn Store>,
    recent: Arc<Recent>,
    polls: FeedPolls,
    link_heads: Mutex<LinkHeads>,
    /// Ordered, so that one history of the store gives one order of routing.
    routes: Mutex<BTreeMap<LeaseToken, HeldRoute>>,
    changed: Notify,
}

/// How often the feed is polled without a hint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FeedPolls {
    /// When all was well; also how often cursors are saved that passed no relevant event.
    pub(crate) idle: Duration,
    /// After a failure.
    pub(crate) failed: Duration,
}

/// The handler of route items: it holds the lease while the router routes.
#[derive(Debug)]
pub(crate) struct Routing {
    pub(crate) router: Arc<Router>,
    pub(crate) reaction: Arc<Reaction>,
}

/// The result of a pass over the groups.
struct Pass {
    more: bool,
    failed: bool,
}

impl QueueHandler for Routing {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        worker::each(tasks, |task| self.router.clone().hold(self.reaction.clone(), task))
    }
}

impl Router {
    pub(crate) fn new(store: &Arc<dyn Store>, recent: &Arc<Recent>, polls: FeedPolls) -> Self {
        Self {
            store: store.clone(),
            recent: recent.clone(),
            polls,
            link_heads: Mutex::default(),
            routes: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Routes this reaction's events until the lease is lost, the route fails, or the worker stops.
    async fn hold(
        self: Arc<Self>,
        reaction: Arc<Reaction>,
        task: LeasedTask,
    ) -> Result<TaskOutcome> {
        let cursor = cursor_of(&*self.store, &reaction.name).await?;
        let held = HeldRoute::new(reaction, task.token(), cursor);
        let failed = held.failed.clone();
        self.lock().insert(task.token(), held);
        self.changed.notify_one();
        tokio::select! {
            biased;
            () = task.lost().cancelled() => {}
            () = task.stopping().cancelled() => {}
            () = failed.signalled() => {}
        }
        let held = self.lock().remove(&task.token());
        match failed.error() {
            Some(error) => task.settle(Settlement::block(task.token(), error)).await,
            None if task.lost().is_cancelled() => Ok(TaskOutcome::Lost),
            None => release(&task, held).await,
        }
    }

    /// Routes until `stopping` is cancelled.
    pub(crate) async fn run(self: Arc<Self>, stopping: CancellationToken) {
        // Subscribed before the first read, so that no hint is missed.
        let mut signal = self.store.signal(Topic::Log);
        let mut saved = Instant::now();
        while !stopping.is_cancelled() {
            let failed = self.catch_up(&stopping).await;
            if saved.elapsed() >= self.polls.idle {
                self.save().await;
                saved = Instant::now();
            }
            let poll = if failed { self.polls.failed } else { self.polls.idle };
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.changed.notified() => {}
                _ = tokio::time::timeout(poll, signal.wait()) => {}
            }
        }
    }

    /// Routes to the end of the feed, and returns whether the last pass failed.
    async fn catch_up(&self, stopping: &CancellationToken) -> bool {
        let mut last = Pass { more: true, failed: false };
        while !stopping.is_cancelled() && last.more {
            last = self.pass().await;
        }
        last.failed
    }

    /// Routes one page for each group of reactions. Reactions at the same position share a page, so
    /// that a reaction that is far behind does not delay the others.
    async fn pass(&self) -> Pass {
        let mut pass = Pass { more: false, failed: false };
        for group in self.groups() {
            match self.advance(&group).await {
                Ok(at_end) => pass.more |= !at_end,
                Err(error) => {
                    pass.failed = true;
                    self.handle_error(&group, &error).await;
                }
            }
        }
        pass
    }

    fn groups(&self) -> Vec<Vec<HeldRoute>> {
        let mut groups: BTreeMap<Position, Vec<HeldRoute>> = BTreeMap::new();
        for held in self.lock().values() {
            groups.entry(held.cursor.position).or_default().push(held.clone());
        }
        groups
            .values()
            .flat_map(|group| group.chunks(GROUP_SIZE))
            .map(<[HeldRoute]>::to_vec)
            .collect()
    }

    async fn advance(&self, group: &[HeldRoute]) -> Result<bool> {
        let Some(first) = group.first() else { return Ok(true) };
        let page = self.store.read_feed(query(first.cursor.position, group)).await?;
        if page.next == first.cursor.position {
            return Ok(page.at_end);
        }
        self.recent.keep(
            page.events.iter().filter(|event| group.iter().any(|held| held.reaction.wants(event))),
        );
        let routed = self.route(group, &page).instrument(telemetry::route_span(page.events.len()));
        if !routed.await? {
            return Ok(false);
        }
        self.moved(group, &page);
        Ok(page.at_end)
    }

    /// Writes the batches of a page, and returns whether all succeeded.
    async fn route(&self, group: &[HeldRoute], page: &FeedPage) -> Result<bool> {
        for batch in RoutingBatches::plan(&self.store, group, page).await? {
            if !self.write(group, batch).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Commits a batch and returns whether it succeeded. After a conflict, the page is read again.
    async fn write(&self, group: &[HeldRoute], batch: batch::RoutingBatch) -> Result<bool> {
        let versions = self.link_heads().known(&batch);
        let versions = link_heads::complete(&*self.store, versions, &batch).await?;
        let commit = batch.commit(group, &versions, &self.lock())?;
        match self.store.commit(commit).await?.committed() {
            Ok(committed) => {
                self.link_heads().moved(&batch, &versions);
                batch.count(group);
                let mut routes = self.lock();
                for (at, written) in batch.touched().zip(&committed.writes) {
                    if let Some(held) = routes.get_mut(&group[at].token) {
                        held.saved_at(batch.through, written.revision);
                    }
                }
                Ok(true)
            }
            Err(conflict) => {
                tracing::debug!(%conflict, "a route moved under the router; reading its cursor again");
                self.link_heads().forget(&batch);
                self.reload_cursors(group).await?;
                Ok(false)
            }
        }
    }

    /// Reads the cursors again, because another process may have routed meanwhile.
    async fn reload_cursors(&self, group: &[HeldRoute]) -> Result<()> {
        for held in group {
            let cursor = cursor_of(&*self.store, &held.reaction.name).await?;
            if let Some(route) = self.lock().get_mut(&held.token) {
                route.saved = cursor.position;
                route.cursor = cursor;
            }
        }
        // The heartbeat detects a lost lease; until then, retry slowly.
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(())
    }

    fn moved(&self, group: &[HeldRoute], page: &FeedPage) {
        let mut routes = self.lock();
        for held in group {
            if let Some(route) = routes.get_mut(&held.token) {
                route.cursor.position = route.cursor.position.max(page.next);
            }
        }
    }

    /// Saves cursors that passed no relevant event, so that the next holder has little to read
    /// again.
    async fn save(&self) {
        let unsaved: Vec<HeldRoute> =
            self.lock().values().filter(|held| held.is_unsaved()).cloned().collect();
        for unsaved in unsaved.chunks(limits::PARTS_PER_COMMIT / 2) {
            if let Err(error) = self.save_all(unsaved).await {
                tracing::warn!(%error, "routes could not be saved");
            }
        }
    }

    async fn save_all(&self, unsaved: &[HeldRoute]) -> Result<()> {
        let commit = unsaved.iter().try_fold(Commit::new(), |commit, held| held.save(commit))?;
        match self.store.commit(commit).await?.committed() {
            Ok(committed) => {
                let mut routes = self.lock();
                for (held, written) in unsaved.iter().zip(&committed.writes) {
                    if let Some(route) = routes.get_mut(&held.token) {
                        route.saved_at(held.cursor.position, written.revision);
                    }
                }
                Ok(())
            }
            Err(_) => self.reload_cursors(unsaved).await,
        }
    }

    /// Handles an error of the store: temporary errors are retried; permanent ones block these
    /// routes for an operator.
    async fn handle_error(&self, group: &[HeldRoute], error: &StoreError) {
        if error.advice() == RetryAdvice::Never {
            group.iter().for_each(|held| held.failed.set(advice_on(error)));
        }
        tracing::warn!(%error, "events could not be routed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseToken, HeldRoute>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link_heads(&self) -> MutexGuard<'_, LinkHeads> {
        self.link_heads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn advice_on(error: &StoreError) -> String {
    match error.kind() {
        StoreErrorKind::Rewound => format!(
            "{error}; to continue, reroute this reaction from the beginning or from now, and unblock its route"
        ),
        _ => error.to_string(),
    }
}

/// A query for the events of the whole group. It filters by type if all reactions do.
fn query(after: Position, group: &[HeldRoute]) -> FeedQuery {
    let query = FeedQuery::after(after);
    let mut types: Vec<EventType> =
        group.iter().flat_map(|held| held.reaction.types.iter().cloned()).collect();
    types.sort();
    types.dedup();
    let all =
        group.iter().any(|held| held.reaction.types.is_empty()) || types.len() > limits::PAGE_SIZE;
    match (all, group) {
        (true, [only]) => query.stream_prefix(only.reaction.streams.clone()),
        (true, _) => query,
        (false, [only]) => query.stream_prefix(only.reaction.streams.clone()).types(types),
        (false, _) => query.types(types),
    }
}

/// Saves the cursor and releases the route, so that another process can take it at once.
async fn release(task: &LeasedTask, held: Option<HeldRoute>) -> Result<TaskOutcome> {
    let release = Settlement::release(task.token());
    if let Some(held) = held.filter(HeldRoute::is_unsaved) {
        let commit = held.save_unfenced(Commit::new().settle(release.clone()))?;
        if task.commit(commit).await?.committed().is_ok() {
            return Ok(TaskOutcome::Released);
        }
    }
    task.settle(release).await
}
