//! The rebuild of a projection: one work item, which has the targets filled their next rows, makes
//! these the rows that are read when all are complete, and deletes the rows that are read no more.
//!
//! It folds nothing itself: it wakes the targets, a page at a time, and whichever worker leases one
//! catches up under that lease. A target that has begun to keep its next row keeps it in every turn
//! from then on, because leases exclude each other; so a page that was complete stays complete, and
//! the work can go on in another process after the last page that was.

use std::collections::BTreeMap;
use std::time::Duration;

use tidelock_store::{
    Adjustment, Commit, ExpectedRevision, Item, ItemFilter, ItemKey, ItemPage, ItemQuery, ItemRef,
    NamePattern, RecordQuery, RecordWrite, Result, Settlement, StoreExt, Wake, When, limits,
};

use tokio::time::Instant;

use super::generations::{Building, Generations, Obsolete};
use super::rebuilt::Rebuilt;
use crate::reactions::{ReactionName, keys};
use crate::worker::{LeasedTask, QueueHandler, TaskFuture, TaskOutcome, each};

/// The targets that are woken together.
const TARGETS: usize = 100;

/// The rows that one commit deletes.
const DELETED: usize = limits::PARTS_PER_COMMIT / 2;

/// How long one lease lasts. A holder that is not seen again for longer than this hangs.
const MAX_TURN: Duration = Duration::from_secs(60);

/// The pauses between two looks at what has not changed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Rebuilds projections.
#[derive(Debug)]
pub(crate) struct Rebuilding;

impl QueueHandler for Rebuilding {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        each(tasks, run)
    }
}

/// What one step did.
enum Step {
    Moved,
    /// It waits for the work of others.
    Waiting,
    Lost,
}

async fn run(task: LeasedTask) -> Result<TaskOutcome> {
    let Ok(name) = ReactionName::new(task.lease().item.key.as_str()) else {
        return task.settle(finished(&task)).await;
    };
    let (task, mut pause, started) = (&task, PAUSES.0, Instant::now());
    loop {
        if task.stopping().is_cancelled() || started.elapsed() >= MAX_TURN {
            return task.settle(Settlement::release(task.token())).await;
        }
        let found = Generations::find(&**task.store(), &name).await?.unwrap_or_default();
        let of = Of { task, name: &name, generations: &found };
        let step = match (found.in_progress(), found.obsolete.first()) {
            (Some(building), _) => of.build(building).await?,
            (None, Some(obsolete)) => of.delete(obsolete).await?,
            (None, None) => return task.settle(finished(task)).await,
        };
        pause = match step {
            Step::Lost => return Ok(TaskOutcome::Lost),
            Step::Moved => PAUSES.0,
            Step::Waiting => {
                tokio::select! {
                    biased;
                    () = task.lost().cancelled() => return Ok(TaskOutcome::Lost),
                    () = task.stopping().cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                }
                (pause * 2).min(PAUSES.1)
            }
        };
    }
}

fn finished(task: &LeasedTask) -> Settlement {
    Settlement::finish(task.token(), task.lease().mark, When::In(limits::ITEM_MEMORY))
}

/// A step of one projection's rebuild.
struct Of<'a> {
    task: &'a LeasedTask,
    name: &'a ReactionName,
    generations: &'a Generations,
}

impl Of<'_> {
    /// Goes on after the targets that are rebuilt, or makes the new rows the ones that are read.
    async fn build(&self, building: &Building) -> Result<Step> {
        let page = self.targets(building).await?;
        let rebuilt = self.rebuilt(building, &page.items).await?;
        let place = |item: &Item| rebuilt.get(&item.item.key);
        if let Some((key, error)) =
            rebuilt.iter().find_map(|(key, it)| Some((key, it.error.as_ref()?)))
        {
            let error = format!("target {:?}: {error}", key.as_str());
            tracing::warn!(projection = %self.name, %error, "a rebuild stopped");
            return self.move_to(self.generations.clone().failed(error)).await;
        }
        let behind: Vec<&Item> =
            page.items.iter().filter(|item| is_behind(item, place(item))).collect();
        if !behind.is_empty() {
            self.wake(&behind).await?;
            return Ok(Step::Waiting);
        }
        let now = self.task.store().now().await?;
        let generations = self.generations.clone();
        match page.next {
            Some(next) => {
                let through = next.key.as_str().to_owned();
                self.move_to(generations.advanced(page.items.len() as u64, through)).await
            }
            None => {
                tracing::info!(projection = %self.name, "rebuilt; its new rows are read from now on");
                self.move_to(generations.swap(now)).await
            }
        }
    }

    async fn targets(&self, building: &Building) -> Result<ItemPage> {
        let queue = keys::queue(self.name);
        let query = ItemQuery::new(ItemFilter::queue(queue.as_str())).limit(TARGETS);
        let query = match &building.through {
            Some(key) => query.after(ItemRef::new(&queue, &ItemKey::new(key.as_str())?)),
            None => query,
        };
        let mut page = self.task.store().full_page(query).await?;
        page.items.retain(|item| !keys::is_unrouted(&item.item.key));
        Ok(page)
    }

    /// How far the next rows of these targets are.
    async fn rebuilt(
        &self,
        building: &Building,
        targets: &[Item],
    ) -> Result<BTreeMap<ItemKey, Rebuilt>> {
        let key = |item: &Item| keys::rebuilt(self.name, building.generation, &item.item.key);
        let keys: Vec<_> = targets.iter().map(key).collect::<Result<_>>()?;
        let slots = self.task.store().get(&keys).await?;
        let mut rebuilt = BTreeMap::new();
        for (item, slot) in targets.iter().zip(&slots) {
            if let Some(there) = Rebuilt::read(slot)? {
                rebuilt.insert(item.item.key.clone(), there);
            }
        }
        Ok(rebuilt)
    }

    /// Makes these targets due. Those that are blocked are tried again: the fold may be another one
    /// now, and it has no effects elsewhere.
    async fn wake(&self, targets: &[&Item]) -> Result<()> {
        let queue = keys::queue(self.name);
        let blocked: Vec<_> = targets.iter().filter(|item| item.blocked).collect();
        if !blocked.is_empty() {
            let keys = blocked.iter().map(|item| item.item.key.as_str().to_owned()).collect();
            let filter = ItemFilter::queue(queue.as_str()).key(NamePattern::OneOf(keys));
            self.task.store().adjust(filter.blocked(true), Adjustment::Unblock).await?;
        }
        let idle = targets.iter().filter(|item| item.is_idle());
        let due = |item: &&&Item| Wake::at(item.item.clone(), When::In(Duration::ZERO));
        let commit = idle.map(|item| due(&item)).fold(Commit::new(), Commit::wake);
        if commit.parts() > 0 {
            let _woken = self.task.store().commit(commit).await?;
        }
        Ok(())
    }

    /// Deletes some of the rows, once no turn from before can write another one.
    async fn delete(&self, obsolete: &Obsolete) -> Result<Step> {
        let store = self.task.store();
        let held = ItemFilter::queue(keys::queue(self.name).as_str()).held(true);
        let mut held = store.rows(ItemQuery::new(held));
        while let Some(item) = held.next().await? {
            if item.holder.is_some_and(|holder| holder.since <= obsolete.since) {
                return Ok(Step::Waiting);
            }
        }
        let rows = keys::rows(self.name.as_str(), obsolete.generation);
        let progress = [Some(obsolete.generation), obsolete.built].into_iter().flatten();
        let progress = progress.map(|generation| keys::all_rebuilt(self.name, generation));
        for prefix in [rows].into_iter().chain(progress) {
            let page = store.full_page(RecordQuery::prefix(prefix).limit(DELETED)).await?;
            if !page.records.is_empty() {
                let any = ExpectedRevision::Any;
                let keys = page.records.iter().map(|record| &record.key);
                return self.write(keys.map(|key| RecordWrite::delete(key, any))).await;
            }
        }
        self.move_to(self.generations.clone().cleared(obsolete.generation)).await
    }

    /// Writes the state. If it has changed meanwhile, the next step sees that.
    async fn move_to(&self, generations: Generations) -> Result<Step> {
        self.write([generations.write(self.name)?]).await
    }

    async fn write(&self, writes: impl IntoIterator<Item = RecordWrite>) -> Result<Step> {
        let commit = writes.into_iter().fold(Commit::new(), Commit::write);
        let outcome = self.task.commit(commit.fenced_by(self.task.token())).await?;
        Ok(match outcome.committed() {
            Ok(_) => Step::Moved,
            Err(conflict) if crate::worker::is_loss(&conflict) => Step::Lost,
            Err(_) => Step::Moved,
        })
    }
}

/// Whether a target has to catch up. One that nothing has handled, and nothing handles now, begins
/// with its next row.
fn is_behind(item: &Item, rebuilt: Option<&Rebuilt>) -> bool {
    match rebuilt {
        Some(rebuilt) => rebuilt.at < item.at,
        None => item.at.get() > 0 || item.holder.is_some(),
    }
}
