//! The router: reads the feed once for all reactions that this process routes, and wakes their
//! targets.
//!
//! Each reaction has one route item; whoever leases it routes that reaction's events, and keeps the
//! lease for as long as it lives. How far it has come is a record that moves in the same commit as
//! the wakes, under the fence of the lease: whoever takes over goes on exactly there, and an
//! earlier holder writes nothing more.
//!
//! It never runs a handler and never waits for one.

mod batch;
mod cursor;
mod held_route;
mod link_heads;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_store::{
    Commit, EventType, FeedPage, FeedQuery, LeaseToken, Position, Result, RetryAdvice, Settlement,
    Store, StoreError, StoreErrorKind, Topic, limits,
};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::reaction::Reaction;
use super::recent::Recent;
use crate::worker::{self, LeasedTask, QueueHandler, TaskFuture, TaskOutcome};
use batch::RoutingBatches;
use held_route::HeldRoute;
use link_heads::LinkHeads;

pub use cursor::Rerouted;
pub(crate) use cursor::{Cursor, cursor_of, register, reroute};

/// How often the feed is looked at without a signal, and how often cursors that moved past nothing
/// of interest are saved.
const POLL: Duration = Duration::from_secs(1);

/// Reactions that share a page at most: one event that all of them want takes four parts for each,
/// and must fit into a commit.
const TOGETHER: usize = limits::PARTS_PER_COMMIT / 8;

/// Routes events for the reactions whose route items this process holds.
#[derive(Debug)]
pub(crate) struct Router {
    store: Arc<dyn Store>,
    recent: Arc<Recent>,
    tips: Mutex<LinkHeads>,
    routes: Mutex<HashMap<LeaseToken, HeldRoute>>,
    changed: Notify,
}

/// The work of a route item: to hold it while the router routes.
#[derive(Debug)]
pub(crate) struct Routing {
    pub(crate) router: Arc<Router>,
    pub(crate) reaction: Arc<Reaction>,
}

impl QueueHandler for Routing {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        worker::each(tasks, |task| self.router.clone().hold(self.reaction.clone(), task))
    }
}

impl Router {
    pub(crate) fn new(store: &Arc<dyn Store>, recent: &Arc<Recent>) -> Self {
        Self {
            store: store.clone(),
            recent: recent.clone(),
            tips: Mutex::default(),
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
            () = task.lost().cancelled() => {}
            () = task.stopping().cancelled() => {}
            () = failed.told() => {}
        }
        let held = self.lock().remove(&task.token());
        match failed.error() {
            Some(error) => task.settle(Settlement::block(task.token(), error)).await,
            None if task.lost().is_cancelled() => Ok(TaskOutcome::Lost),
            None => give_back(&task, held).await,
        }
    }

    /// Routes until it is told to stop.
    pub(crate) async fn run(self: Arc<Self>, stopping: CancellationToken) {
        // Taken before the first look, so nothing is missed.
        let mut signal = self.store.signal(Topic::Log);
        let mut saved = Instant::now();
        while !stopping.is_cancelled() {
            self.catch_up(&stopping).await;
            if saved.elapsed() >= POLL {
                self.save().await;
                saved = Instant::now();
            }
            tokio::select! {
                () = stopping.cancelled() => {}
                () = self.changed.notified() => {}
                _ = tokio::time::timeout(POLL, signal.wait()) => {}
            }
        }
    }

    async fn catch_up(&self, stopping: &CancellationToken) {
        while !stopping.is_cancelled() && self.pass().await {}
    }

    /// One page for everybody; tells whether there is more. Reactions that are at the same place
    /// share the page, and one that has far to go holds back nobody who has not.
    async fn pass(&self) -> bool {
        let mut more = false;
        for group in self.groups() {
            match self.advance(&group).await {
                Ok(at_end) => more |= !at_end,
                Err(error) => self.met(&group, &error).await,
            }
        }
        more
    }

    fn groups(&self) -> Vec<Vec<HeldRoute>> {
        let mut groups: BTreeMap<Position, Vec<HeldRoute>> = BTreeMap::new();
        for held in self.lock().values() {
            groups.entry(held.cursor.position).or_default().push(held.clone());
        }
        groups
            .values()
            .flat_map(|group| group.chunks(TOGETHER))
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
        let portions = RoutingBatches::plan(&self.store, group, &page).await?;
        for portion in portions {
            if !self.write(group, portion).await? {
                return Ok(false);
            }
        }
        self.moved(group, &page);
        Ok(page.at_end)
    }

    /// Writes a portion; tells whether it held. If not, the page is read anew by whoever still
    /// holds its route.
    async fn write(&self, group: &[HeldRoute], portion: batch::RoutingBatch) -> Result<bool> {
        let versions = self.tips().known(&portion);
        let versions = link_heads::complete(&*self.store, versions, &portion).await?;
        let commit = portion.commit(group, &versions, &self.lock())?;
        match self.store.commit(commit).await?.committed() {
            Ok(committed) => {
                self.tips().moved(&portion, &versions);
                portion.count(group);
                let mut routes = self.lock();
                for (at, written) in portion.touched().zip(&committed.writes) {
                    if let Some(held) = routes.get_mut(&group[at].token) {
                        held.saved_at(portion.through, written.revision);
                    }
                }
                Ok(true)
            }
            Err(conflict) => {
                tracing::debug!(%conflict, "a route moved under the router; it looks again");
                self.tips().forget(&portion);
                self.look_again(group).await?;
                Ok(false)
            }
        }
    }

    /// Somebody else may have routed meanwhile: what is in the store counts.
    async fn look_again(&self, group: &[HeldRoute]) -> Result<()> {
        for held in group {
            let cursor = cursor_of(&*self.store, &held.reaction.name).await?;
            if let Some(route) = self.lock().get_mut(&held.token) {
                route.saved = cursor.position;
                route.cursor = cursor;
            }
        }
        // A lease that was lost is found out by its heartbeat; until then, not too fast.
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

    /// Saves cursors that moved past nothing of interest, so that whoever takes over has little to
    /// look at again.
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
            Err(_) => self.look_again(unsaved).await,
        }
    }

    /// What a store could not do now it may do later. What it refuses for good stops these routes,
    /// where operators see it.
    async fn met(&self, group: &[HeldRoute], error: &StoreError) {
        if error.advice() == RetryAdvice::Never {
            group.iter().for_each(|held| held.failed.tell(advice_on(error)));
        }
        tracing::warn!(%error, "events could not be routed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseToken, HeldRoute>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tips(&self) -> MutexGuard<'_, LinkHeads> {
        self.tips.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn advice_on(error: &StoreError) -> String {
    match error.kind() {
        StoreErrorKind::Rewound => format!(
            "{error}; to go on, say where from: reroute this reaction from the beginning, or from now, and unblock its route"
        ),
        _ => error.to_string(),
    }
}

/// Everything that any of them wants. The store leaves out the rest, if they all say what they
/// want.
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

/// Gives the route back with its newest cursor; somebody else may take it at once.
async fn give_back(task: &LeasedTask, held: Option<HeldRoute>) -> Result<TaskOutcome> {
    let release = Settlement::release(task.token());
    if let Some(held) = held.filter(HeldRoute::is_unsaved) {
        let commit = held.save_unfenced(Commit::new().settle(release.clone()))?;
        if task.commit(commit).await?.committed().is_ok() {
            return Ok(TaskOutcome::Released);
        }
    }
    task.settle(release).await
}
