//! Projections, for operators and readers: their rows, and their rebuilds beside the rows that are
//! read.

mod generations;
mod rebuilding;
mod rebuilt;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{
    Commit, CommitOutcome, Record, RecordKey, RecordQuery, RecordWrite, Result, Slot, Store,
    StoreError, StoreExt, Timestamp, Wake, When,
};

use super::operators::named;
use super::{EventsGone, ReactionFilter, ReactionName, Reactions, ResetError, keys};
use crate::list::{List, Page};

pub(crate) use generations::{Building, Generations};
pub(crate) use rebuilding::Rebuilding;
pub(crate) use rebuilt::Rebuilt;

/// How often a change is tried while the record changes at the same time.
const ATTEMPTS: usize = 20;

/// A projection, and its rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProjectionInfo {
    /// The projection: the name of its reaction.
    pub projection: String,
    /// The rebuild, in progress or failed.
    pub rebuild: Option<RebuildInfo>,
    /// Whether rows of earlier rebuilds are being deleted.
    pub deleting: bool,
}

/// A rebuild beside the rows that are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RebuildInfo {
    /// When it began.
    pub started_at: Timestamp,
    /// Whether it leaves out deleted events.
    pub partial: bool,
    /// The number of targets that there were when it began.
    pub targets: u64,
    /// The number of them that are known to be rebuilt.
    pub rebuilt: u64,
    /// The number of targets that are left.
    pub lag: u64,
    /// Why it stopped; the rows that are read are not affected.
    pub error: Option<String>,
}

/// What became of a request to rebuild a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum RebuildOutcome {
    /// The rebuild began.
    Started,
    /// Another one is in progress, and goes on.
    Underway,
    /// No process has registered such a projection. Nothing was written.
    Unregistered,
}

impl Reactions {
    /// Returns a projection's row of a target, if there is one.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the row is not an `S`.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let sold: Option<i64> = tidelock.reactions().row("sales", "assam").await?;
    /// assert_eq!(sold, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn row<S: DeserializeOwned>(
        &self,
        projection: impl AsRef<str>,
        target: impl AsRef<str>,
    ) -> Result<Option<S>> {
        let (projection, target) = (projection.as_ref(), target.as_ref());
        let name = named(projection)?;
        let mut generation = 0;
        loop {
            // Both of one moment, so that a row is never looked for where it was deleted.
            let keys = [keys::generations(&name), keys::row(projection, generation, target)?];
            let slots = self.store().get(&keys).await?;
            let live = Generations::read(&slots[0])?.live;
            if live == generation {
                return slots[1].live().map(|record| record.value.to()).transpose();
            }
            generation = live;
        }
    }

    /// Lists the rows of a projection with their targets, ordered by target. The cursor is a
    /// target.
    ///
    /// While a rebuild is in progress these are the rows from before it, and once it is complete
    /// those that it made; each page is of one or the other.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// use tidelock::prelude::*;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let page = tidelock.reactions().rows::<i64>("sold").limit(100).await?;
    /// assert!(page.items.is_empty() && page.next.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Reading it fails with `Unreadable` if a row is not an `S`.
    pub fn rows<S>(&self, projection: impl AsRef<str>) -> List<(String, S), String>
    where
        S: DeserializeOwned + 'static,
    {
        let (store, projection) = (self.store().clone(), projection.as_ref().to_owned());
        List::new(move |after, limit| {
            let (store, projection) = (store.clone(), projection.clone());
            async move { Ok(page_of_rows(&*store, &projection, after, limit).await?) }
        })
    }

    /// Lists the projections that processes have registered, ordered by name.
    pub fn projections(&self) -> List<ProjectionInfo, RecordKey> {
        let store = self.store().clone();
        List::new(move |after, limit| {
            let store = store.clone();
            async move {
                let prefix = keys::all_generations().to_owned();
                let page = store.full_page(RecordQuery { prefix, after, limit }).await?;
                let items = page.records.into_iter().map(info).collect::<Result<_>>()?;
                Ok(Page { items, next: page.next })
            }
        })
    }

    /// Returns a projection, if a process has registered it.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the name is not valid.
    pub async fn projection(&self, projection: impl AsRef<str>) -> Result<Option<ProjectionInfo>> {
        let slot = self.store().get_one(&keys::generations(&named(projection.as_ref())?)).await?;
        slot.into_live().map(info).transpose()
    }

    /// Rebuilds a projection beside the rows that are read: from the first event, with the fold
    /// that the processes have registered now.
    ///
    /// Readers go on with the old rows, which follow new events, until every new row is complete;
    /// then all of them change at once, and the old ones are deleted in the background. The work is
    /// shared by the processes that run the projection. If they stop, or die, it goes on with the
    /// next one. A rebuild that failed is begun again from the start.
    ///
    /// Start it when no process runs the earlier fold any more: a process that does would write its
    /// results into the new rows, too.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::reactions::RebuildOutcome;
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let outcome = tidelock.reactions().rebuild("totals").await?;
    /// assert_eq!(outcome, RebuildOutcome::Unregistered);
    /// for projection in tidelock.reactions().projections().all().await? {
    ///     if let Some(rebuild) = projection.rebuild {
    ///         println!("{}: {} targets left", projection.projection, rebuild.lag);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`EventsGone`](ResetError::EventsGone) if events that a target handled were deleted since,
    /// by [closing](crate::closing::Closing) their stream: its new row would be incomplete. Nothing
    /// begins then.
    pub async fn rebuild(&self, projection: impl AsRef<str>) -> Result<RebuildOutcome, ResetError> {
        self.begin(&named(projection.as_ref())?, false).await
    }

    /// Rebuilds a projection even if events are deleted: its rows are built from the remaining
    /// ones, and a target without any has none.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the name is not valid.
    pub async fn rebuild_partial(&self, projection: impl AsRef<str>) -> Result<RebuildOutcome> {
        match self.begin(&named(projection.as_ref())?, true).await {
            Ok(outcome) => Ok(outcome),
            Err(ResetError::Store(error)) => Err(error),
            Err(gone @ ResetError::EventsGone { .. }) => Err(StoreError::invalid(gone.to_string())),
        }
    }

    /// Gives up a rebuild: the rows that are read stay, and those that it made are deleted. Returns
    /// whether there was one.
    ///
    /// # Errors
    /// Returns the store's error, or `Invalid` if the name is not valid.
    pub async fn cancel_rebuild(&self, projection: impl AsRef<str>) -> Result<bool> {
        let name = named(projection.as_ref())?;
        for _ in 0..ATTEMPTS {
            let Some(before) = Generations::find(&**self.store(), &name).await? else {
                return Ok(false);
            };
            if before.building.is_none() {
                return Ok(false);
            }
            if self.change(&name, before.give_up(self.store().now().await?)).await? {
                return Ok(true);
            }
        }
        Err(contended(&name))
    }

    async fn begin(
        &self,
        name: &ReactionName,
        partial: bool,
    ) -> Result<RebuildOutcome, ResetError> {
        for _ in 0..ATTEMPTS {
            let Some(before) = Generations::find(&**self.store(), name).await? else {
                return Ok(RebuildOutcome::Unregistered);
            };
            if before.in_progress().is_some() {
                return Ok(RebuildOutcome::Underway);
            }
            let items = self.resettable(&ReactionFilter::named(name.as_str())).await?;
            if !partial {
                EventsGone::refuse(&**self.store(), &items, &self.cursors().await?).await?;
            }
            let now = self.store().now().await?;
            if self.change(name, before.begin(now, items.len() as u64, partial)).await? {
                return Ok(RebuildOutcome::Started);
            }
        }
        Err(contended(name).into())
    }

    /// Writes the state, if it has not changed, and wakes the work on it.
    async fn change(&self, name: &ReactionName, to: Generations) -> Result<bool> {
        let wake = Wake::at(keys::projection_rebuild(name), When::In(std::time::Duration::ZERO));
        let commit = Commit::new().write(to.write(name)?).wake(wake);
        Ok(matches!(self.store().commit(commit).await?, CommitOutcome::Committed(_)))
    }
}

fn contended(name: &ReactionName) -> StoreError {
    StoreError::invalid(format!(
        "projection {name}: its rebuild changed during every attempt; try again"
    ))
}

fn info(record: Record) -> Result<ProjectionInfo> {
    let projection = keys::projection_of(&record.key).unwrap_or_default().to_owned();
    let generations = Generations::read(&Slot::Live(record))?;
    let rebuild = generations.building.as_ref().map(|building| RebuildInfo {
        started_at: building.since,
        lag: building.targets.saturating_sub(building.rebuilt),
        partial: building.partial,
        targets: building.targets,
        rebuilt: building.rebuilt,
        error: building.error.clone(),
    });
    Ok(ProjectionInfo { projection, rebuild, deleting: !generations.obsolete.is_empty() })
}

/// Reads a page of rows; again, if other rows are read by then: their earlier place may be empty.
async fn page_of_rows<S: DeserializeOwned>(
    store: &dyn Store,
    projection: &str,
    after: Option<String>,
    limit: usize,
) -> Result<Page<(String, S), String>> {
    let record = keys::generations(&named(projection)?);
    let live = async || Ok(Generations::read(&store.get_one(&record).await?)?.live);
    let mut generation = live().await?;
    loop {
        let prefix = keys::rows(projection, generation);
        let after = after.as_deref().map(|it| keys::row(projection, generation, it)).transpose()?;
        let query = RecordQuery { prefix: prefix.clone(), after, limit };
        let page = store.full_page(query).await?;
        let now: u32 = live().await?;
        if now != generation {
            generation = now;
            continue;
        }
        let target = |key: &RecordKey| key.as_str()[prefix.len()..].to_owned();
        let row = |record: Record| Ok((target(&record.key), record.value.to()?));
        let next = page.next.as_ref().map(target);
        let items = page.records.into_iter().map(row).collect::<Result<_>>()?;
        return Ok(Page { items, next });
    }
}

/// Registers a projection, so that it is listed and can be rebuilt.
pub(crate) async fn register(store: &Arc<dyn Store>, name: &ReactionName) -> Result<()> {
    let key = keys::generations(name);
    if store.get_one(&key).await?.live().is_none() {
        // A conflict means that another process has just registered it.
        let write: RecordWrite = Generations::default().write(name)?;
        let _registered = store.commit(Commit::new().write(write)).await?;
    }
    Ok(())
}
