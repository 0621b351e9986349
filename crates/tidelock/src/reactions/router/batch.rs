//! Routing batches: as much of a page as fits into one commit, with its wakes, links and cursors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidelock_store::{
    Commit, ExpectedVersion, FeedPage, ItemKey, ItemRef, Mark, NewEvent, Position, Result, Store,
    StoredEvent, StreamName, Version, Wake, limits,
};

use super::held_route::{HeldRoute, Routes};
use super::link_heads::Versions;
use crate::reactions::links::Link;
use crate::reactions::reaction::Reaction;
use crate::reactions::route::Route;
use crate::reactions::work::store_failure;
use crate::reactions::{keys, unrouted};
use crate::telemetry;

/// The batches of a page, in order.
#[derive(Debug, Default)]
pub(super) struct RoutingBatches(Vec<RoutingBatch>);

/// The content of one routing commit.
#[derive(Debug)]
pub(super) struct RoutingBatch {
    /// The last position in the batch.
    pub(super) through: Position,
    wakes: BTreeMap<ItemRef, Wake>,
    pub(super) links: BTreeMap<StreamName, Linked>,
    /// The group's routes that it moves, each with the number of routed and unrouted events.
    moved: BTreeMap<usize, (u64, u64)>,
}

/// New links of one target.
#[derive(Debug)]
pub(super) struct Linked {
    route: usize,
    target: ItemKey,
    pub(super) events: Vec<NewEvent>,
}

impl RoutingBatches {
    /// Routes every event of the page, for every reaction of the group.
    pub(super) async fn plan(
        store: &Arc<dyn Store>,
        group: &[HeldRoute],
        page: &FeedPage,
    ) -> Result<Self> {
        let mut batches = Self::default();
        for event in &page.events {
            let batch = batches.room_for(group.len());
            batch.through = event.position;
            for (at, held) in
                group.iter().enumerate().filter(|(_, held)| held.reaction.wants(event))
            {
                batch.route(store, at, &held.reaction, event).await?;
            }
        }
        batches.0.retain(|batch| !batch.moved.is_empty());
        Ok(batches)
    }

    /// The last batch, or a new one if the next event might not fit: a fence, a cursor and at most
    /// two more parts for each reaction.
    fn room_for(&mut self, reactions: usize) -> &mut RoutingBatch {
        let full = |batch: &RoutingBatch| {
            let parts = batch.wakes.len() + 2 * batch.links.len() + 4 * reactions;
            let events: usize = batch.links.values().map(|linked| linked.events.len()).sum();
            parts > limits::PARTS_PER_COMMIT || events + reactions > limits::EVENTS_PER_COMMIT
        };
        if self.0.last().is_none_or(full) {
            self.0.push(RoutingBatch::new());
        }
        self.0.last_mut().expect("a batch was just added")
    }
}

impl IntoIterator for RoutingBatches {
    type Item = RoutingBatch;
    type IntoIter = std::vec::IntoIter<RoutingBatch>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl RoutingBatch {
    fn new() -> Self {
        let (wakes, links, moved) = Default::default();
        Self { through: Position::START, wakes, links, moved }
    }

    async fn route(
        &mut self,
        store: &Arc<dyn Store>,
        at: usize,
        reaction: &Reaction,
        event: &StoredEvent,
    ) -> Result<()> {
        match &reaction.route {
            Route::Own => {
                let target = ItemKey::new(event.stream.as_str())?;
                self.wake(reaction, &target, Mark::from(event.version));
            }
            Route::Computed(compute) => {
                match Route::compute(compute, store, &reaction.name, event).await {
                    Ok(None) => return Ok(()),
                    Ok(Some(target)) => self.link(at, reaction, target, event)?,
                    Err(failure) => {
                        if let Some(error) = store_failure(&failure) {
                            return Err(error.clone());
                        }
                        self.fail(at, reaction, event, &failure);
                        return Ok(());
                    }
                }
            }
        }
        self.moved.entry(at).or_default().0 += 1;
        Ok(())
    }

    fn wake(&mut self, reaction: &Reaction, target: &ItemKey, mark: Mark) {
        let item = reaction.item(target);
        let wake = unrouted::with_options(reaction, Wake::to_mark(item.clone(), mark));
        self.wakes.insert(item, wake);
    }

    fn link(
        &mut self,
        route: usize,
        reaction: &Reaction,
        target: ItemKey,
        event: &StoredEvent,
    ) -> Result<()> {
        let stream = keys::links(&reaction.name, &target)?;
        let linked = self.links.entry(stream).or_insert_with(|| Linked {
            route,
            target,
            events: Vec::new(),
        });
        linked.events.push(Link::to(event)?);
        Ok(())
    }

    /// Turns the event into a work item of its own; routing continues.
    fn fail(
        &mut self,
        at: usize,
        reaction: &Reaction,
        event: &StoredEvent,
        failure: &crate::HandlerError,
    ) {
        tracing::warn!(reaction = %reaction.name, position = %event.position, %failure, "unrouted");
        let wake = unrouted::wake(reaction, event.position);
        self.wakes.insert(wake.item.clone(), wake);
        self.moved.entry(at).or_default().1 += 1;
    }

    /// The routes that it moves, as indexes into the group, in the order of the commit's writes.
    pub(super) fn touched(&self) -> impl Iterator<Item = usize> + '_ {
        self.moved.keys().copied()
    }

    /// The commit, conditional on the leases and the cursors of its routes.
    pub(super) fn commit(
        &self,
        group: &[HeldRoute],
        link_heads: &Versions,
        routes: &Routes,
    ) -> Result<Commit> {
        let mut commit = Commit::new();
        for at in self.touched() {
            let held = routes.get(&group[at].token).unwrap_or(&group[at]);
            let mut next = held.clone();
            next.cursor.position = self.through;
            commit = next.save(commit)?;
        }
        for (stream, linked) in &self.links {
            let head = link_heads.get(stream).copied().flatten();
            let expected = head.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
            commit = commit.append(stream, expected, linked.events.iter().cloned());
            let mark = Mark::new(head.map_or(0, Version::get) + linked.events.len() as u64)?;
            let reaction = &group[linked.route].reaction;
            let wake = Wake::to_mark(reaction.item(&linked.target), mark);
            commit = commit.wake(unrouted::with_options(reaction, wake));
        }
        commit.wakes.extend(self.wakes.values().cloned());
        Ok(commit)
    }

    /// Updates the metrics after the commit.
    pub(super) fn count(&self, group: &[HeldRoute]) {
        for (at, (routed, unrouted)) in &self.moved {
            let reaction = group[*at].reaction.name.to_string();
            metrics::counter!(telemetry::ROUTED, "reaction" => reaction.clone()).increment(*routed);
            metrics::counter!(telemetry::UNROUTED, "reaction" => reaction).increment(*unrouted);
        }
    }

    /// The link streams that it appends to.
    pub(super) fn linked_streams(&self) -> BTreeSet<&StreamName> {
        self.links.keys().collect()
    }
}
