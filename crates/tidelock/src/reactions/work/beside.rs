//! Rebuilds beside the live row: the part of a target's turn that fills the row of the next
//! generation.
//!
//! It runs under the target's lease, so there is one writer of both rows. First the new row catches
//! up with the cursor, in commits of its own; from then on both rows move in the commit of the ack.
//! A new row that fails holds up nothing but the rebuild.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidelock_store::{
    Commit, ExpectedRevision, Lease, Mark, RawJson, RecordKey, RecordWrite, Result, StoredEvent,
};
use tokio::time::Instant;

use super::ReactionWork;
use super::page::Page;
use crate::handler_error::HandlerError;
use crate::reactions::handler::Projection;
use crate::reactions::projections::{Building, Rebuilt};
use crate::reactions::rebuild::StoredRebuild;
use crate::reactions::{EventsGone, keys};
use crate::worker::{LeasedTask, panic_message, timed_out, within};

/// How long one turn may catch up before the target's new events are handled.
const MAX_CATCH_UP: Duration = Duration::from_secs(5);

/// The next row of a target.
pub(super) struct Beside<'a> {
    work: &'a ReactionWork,
    projection: &'a dyn Projection,
    /// The lease, whose cursor the row follows.
    lease: Lease,
    partial: bool,
    keys: Keys,
    /// Whether the store has a row.
    stored: bool,
    row: Option<RawJson>,
    rebuilt: Rebuilt,
}

/// The records of the row and of its progress.
struct Keys {
    row: RecordKey,
    rebuilt: RecordKey,
}

/// Why a row cannot be rebuilt.
enum Failure {
    /// The store failed; nothing is wrong with the row.
    Store(tidelock_store::StoreError),
    Row(String),
}

impl<'a> Beside<'a> {
    /// Reads where the row is. A row that is ahead of the cursor is from before a reset.
    pub(super) async fn begin(
        work: &'a ReactionWork,
        projection: &'a dyn Projection,
        lease: &Lease,
        building: &Building,
    ) -> Result<Self> {
        let (name, target) = (&work.reaction.name, &lease.item.key);
        let keys = Keys {
            row: keys::row(name.as_str(), building.generation, target.as_str())?,
            rebuilt: keys::rebuilt(name, building.generation, target)?,
        };
        let slots = work.store.get(&[keys.row.clone(), keys.rebuilt.clone()]).await?;
        let row = slots[0].live().map(|record| record.value.clone());
        let stored = row.is_some();
        let there = Rebuilt::read(&slots[1])?.filter(|there| there.at <= lease.at);
        let row = row.filter(|_| there.is_some());
        let rebuilt = there.unwrap_or(Rebuilt { at: Mark::ZERO, error: None });
        let (lease, partial) = (lease.clone(), building.partial);
        Ok(Self { work, projection, lease, partial, keys, stored, row, rebuilt })
    }

    /// Catches up with the cursor. Returns false if the lease is lost.
    pub(super) async fn catch_up(&mut self, task: &LeasedTask) -> Result<bool> {
        let started = Instant::now();
        while self.rebuilt.at < self.lease.at && self.rebuilt.error.is_none() {
            if task.stopping().is_cancelled() || started.elapsed() >= MAX_CATCH_UP {
                return Ok(true);
            }
            self.advance(self.lease.at).await?;
            let commit = self.writes()?.into_iter().fold(Commit::new(), Commit::write);
            if task.commit(commit.fenced_by(task.token())).await?.committed().is_err() {
                return Ok(false);
            }
            self.stored = self.row.is_some();
        }
        Ok(true)
    }

    /// What the commit of the ack writes: the row through the mark that the ack reaches; nothing
    /// while the row is behind.
    pub(super) async fn through(&mut self, done: Mark) -> Result<Vec<RecordWrite>> {
        if self.rebuilt.at < self.lease.at || self.rebuilt.error.is_some() {
            return Ok(Vec::new());
        }
        while self.rebuilt.at < done && self.rebuilt.error.is_none() {
            self.advance(done).await?;
        }
        self.writes()
    }

    fn writes(&self) -> Result<Vec<RecordWrite>> {
        let expected = ExpectedRevision::Any;
        let row = match &self.row {
            Some(row) => Some(RecordWrite::put(&self.keys.row, expected, row.clone())),
            None if self.stored => Some(RecordWrite::delete(&self.keys.row, expected)),
            None => None,
        };
        let rebuilt = self.rebuilt.write(&self.keys.rebuilt)?;
        Ok(row.into_iter().chain([rebuilt]).collect())
    }

    /// Folds the next page of events up to a mark.
    async fn advance(&mut self, through: Mark) -> Result<()> {
        match self.next_page(through).await {
            Ok(()) => Ok(()),
            Err(Failure::Store(error)) => Err(error),
            Err(Failure::Row(error)) => {
                self.rebuilt.error = Some(error);
                Ok(())
            }
        }
    }

    async fn next_page(&mut self, through: Mark) -> Result<(), Failure> {
        let lease = Lease { at: self.rebuilt.at, mark: through, ..self.lease.clone() };
        let again = StoredRebuild { through, partial: self.partial, ..StoredRebuild::none() };
        let page = Page::read(self.work, &lease, Some(&again)).await?;
        if let Some(gone) = self.gone(&page).await? {
            return Err(Failure::Row(gone.to_string()));
        }
        let mut page = page.up_to(through);
        let reached = page.through;
        if let Some((events, _)) = page.next_batch(usize::MAX) {
            self.row = Some(self.fold(events).await?);
        }
        self.rebuilt.at = reached;
        Ok(())
    }

    /// Deleted events that have to be in the row: anywhere when it begins, and in its next page
    /// after that. Checked after the page was read, so that concurrent deletions are found.
    async fn gone(&self, page: &Page) -> Result<Option<EventsGone>> {
        let (name, target) = (&self.work.reaction.name, &self.lease.item.key);
        if self.partial {
            return Ok(None);
        }
        if self.rebuilt.at > Mark::ZERO {
            return Ok(page.gone.clone().map(|gone| EventsGone::of(name, target, gone)));
        }
        let store = &*self.work.store;
        let cursor = crate::reactions::router::cursor_of(store, name).await?;
        EventsGone::find(store, name, &cursor, target).await
    }

    /// Folds events. Where that fails, the events that an operator had the target skip are left
    /// out.
    async fn fold(&self, events: Vec<StoredEvent>) -> Result<RawJson, Failure> {
        let failure = match self.call(events.clone()).await {
            Ok(row) => return Ok(row),
            Err(failure) => failure,
        };
        let name = &self.work.reaction.name;
        let keys: Vec<_> = events.iter().map(|it| keys::skipped(name, it.position)).collect();
        let skipped = self.work.store.get(&keys).await?;
        if skipped.iter().all(|slot| slot.live().is_none()) {
            return Err(failure);
        }
        let left = events.into_iter().zip(&skipped).filter(|(_, slot)| slot.live().is_none());
        self.call(left.map(|(event, _)| event).collect()).await
    }

    async fn call(&self, events: Vec<StoredEvent>) -> Result<RawJson, Failure> {
        let timeout = self.work.reaction.options.timeout;
        let store = Arc::clone(&self.work.store);
        let folding = AssertUnwindSafe(async {
            within(timeout, self.projection.fold(store, self.row.clone(), events)).await
        });
        match folding.catch_unwind().await {
            Ok(Some(folded)) => folded.map_err(|failure| Failure::of(&failure)),
            Ok(None) => Err(Failure::Row(format!("the fold {}", timed_out(timeout)))),
            Err(panic) => {
                Err(Failure::Row(format!("the fold panicked: {}", panic_message(&*panic))))
            }
        }
    }
}

impl Failure {
    fn of(failure: &HandlerError) -> Self {
        match super::store_failure(failure) {
            Some(error) => Self::Store(error.clone()),
            None => Self::Row(failure.to_string()),
        }
    }
}

impl From<tidelock_store::StoreError> for Failure {
    fn from(error: tidelock_store::StoreError) -> Self {
        Self::Store(error)
    }
}
