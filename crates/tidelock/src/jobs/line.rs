//! Lines: jobs that wait because their concurrency key has no room, in the order of their priority
//! and arrival.
//!
//! A place in line is a record. A work item for each key, its *caller*, is woken when a job joins
//! the line and when one makes room, and otherwise looks again when a lease of an admitted job
//! could have expired. It calls as many jobs as there is room for: the record of the key keeps the
//! room for them from then on, and their items are due again. If its process dies, another one
//! repeats what it did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tidelock_store::{
    Adjustment, Commit, ExpectedRevision, Item, ItemFilter, ItemKey, ItemRef, NamePattern,
    RecordKey, RecordQuery, RecordWrite, Result, Settlement, Store, StoreExt, Timestamp, Wake,
    When, limits,
};

use super::key_limit::{ATTEMPTS, KeyLimit, KeyRecord, busy};
use super::keys;
use crate::worker::{
    LeasedTask, QueueHandler, QueueOptions, TaskFuture, TaskOutcome, each, is_loss,
};

/// How long there is room for a job that was called. It is leased by then, unless all workers are
/// busy or the queue is paused; later it asks again.
const ROOM: Duration = Duration::from_secs(60);

/// Callers at work at once in a process.
const CALLERS: usize = 8;

/// The handler of the callers of one job type.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    limit: KeyLimit,
}

/// What the caller of a key found, and what it does about it.
struct Calls {
    record: KeyRecord,
    /// Places in line that are given up: of jobs that are called, and of those that are gone.
    left: Vec<RecordKey>,
    /// When a lease or a call could have expired.
    next: Option<Timestamp>,
}

impl QueueHandler for Caller {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        let caller = self.clone();
        each(tasks, move |task| {
            let caller = caller.clone();
            async move { caller.call(&task).await }
        })
    }
}

impl Caller {
    /// The worker's options for the callers of a job type.
    pub(super) fn served(limit: &KeyLimit) -> Result<QueueOptions> {
        let work = Arc::new(Self { limit: limit.clone() });
        let served = QueueOptions::new(&keys::line(&limit.queue)?, work);
        // That a process died over a caller says nothing about it.
        Ok(served.max_crashes(u32::MAX).max_concurrency(CALLERS).outside_the_pool())
    }

    async fn call(&self, task: &LeasedTask) -> Result<TaskOutcome> {
        let (store, key) = (&**task.store(), task.lease().item.key.as_str());
        for _ in 0..ATTEMPTS {
            let slot = store.get_one(&keys::concurrency(&self.limit.queue, key)).await?;
            let before = KeyRecord::read(&slot)?;
            let calls = self.calls(store, key, before.clone()).await?;
            let mut commit = Commit::new().fenced_by(task.token());
            if calls.record != before {
                commit = commit.write(self.limit.write(key, &calls.record, &slot)?);
            }
            let leave = |place| RecordWrite::delete(place, ExpectedRevision::Any);
            commit = calls.left.iter().map(leave).fold(commit, Commit::write);
            if let Err(conflict) = task.commit(commit).await?.committed() {
                if is_loss(&conflict) {
                    return Ok(TaskOutcome::Lost);
                }
                continue;
            }
            self.make_due(store, &calls.record).await?;
            return settle(task, calls.next).await;
        }
        Err(busy(&self.limit.queue))
    }

    /// Decides which jobs are called: those that were admitted and are gone make room.
    async fn calls(&self, store: &dyn Store, key: &str, mut record: KeyRecord) -> Result<Calls> {
        let now = store.now().await?;
        let mut next: Option<Timestamp> = None;
        let mut until =
            |moment: Timestamp| next = Some(next.map_or(moment, |next| next.min(moment)));
        let there = self.items(store, record.admitted.keys()).await?;
        record.admitted.retain(|job, fence| {
            let held = there.get(job).filter(|item| item.is_held_under(*fence));
            let deadline = held.and_then(|item| item.holder.as_ref()).map(|holder| holder.deadline);
            deadline.filter(|deadline| *deadline > now).is_some_and(|deadline| {
                until(deadline);
                true
            })
        });
        record.called.retain(|_, room| *room > now);
        let room = (self.limit.jobs as usize).saturating_sub(record.taken());
        let (line, has_more) = self.line(store, key, room + 1).await?;
        let named: BTreeSet<String> = line.iter().filter_map(keys::job_of_place).collect();
        let there = self.items(store, named.iter()).await?;
        let mut left = Vec::new();
        record.has_line = has_more;
        for place in line {
            let job = keys::job_of_place(&place);
            match job.filter(|job| there.get(job).is_some_and(|item| waits(item, now))) {
                Some(_) if record.taken() >= self.limit.jobs as usize => record.has_line = true,
                Some(job) => {
                    record.called.insert(job, now.plus(ROOM));
                    left.push(place);
                }
                None => left.push(place),
            }
        }
        record.called.values().for_each(|room| until(*room));
        if record.has_line && record.taken() < self.limit.jobs as usize {
            until(now);
        }
        let next = next.filter(|_| record.has_line || !record.called.is_empty());
        Ok(Calls { record, left, next })
    }

    /// The first places in line, and whether there may be more.
    async fn line(
        &self,
        store: &dyn Store,
        key: &str,
        most: usize,
    ) -> Result<(Vec<RecordKey>, bool)> {
        let query = RecordQuery::prefix(keys::places(&self.limit.queue, key)).limit(most);
        let page = store.full_page(query).await?;
        let has_more = page.next.is_some() || page.records.len() >= most;
        Ok((page.records.into_iter().map(|record| record.key).collect(), has_more))
    }

    /// The items of jobs, by their keys: each is found by its name, however long the line is.
    async fn items(
        &self,
        store: &dyn Store,
        jobs: impl Iterator<Item = &String>,
    ) -> Result<BTreeMap<String, Item>> {
        let item = async |job: &String| -> Result<Option<(String, Item)>> {
            let there =
                store.item(&ItemRef::new(&self.limit.queue, &ItemKey::new(job.as_str())?)).await?;
            Ok(there.map(|there| (job.clone(), there)))
        };
        let items = try_join_all(jobs.map(item)).await?;
        Ok(items.into_iter().flatten().collect())
    }

    /// Makes the jobs due that were called.
    async fn make_due(&self, store: &dyn Store, record: &KeyRecord) -> Result<()> {
        for job in record.called.keys() {
            let job = NamePattern::is(job.as_str());
            let called = ItemFilter::queue(self.limit.queue.as_str()).key(job).held(false);
            store.adjust(called, Adjustment::Defer { until: When::NOW }).await?;
        }
        Ok(())
    }
}

/// Whether a job waits in line: it has not been leased, blocked or ended otherwise.
fn waits(item: &Item, now: Timestamp) -> bool {
    item.holder.is_none() && !item.blocked && item.ready_at().is_some_and(|ready| ready > now)
}

/// Ends the lease of a caller, until it has to look again.
async fn settle(task: &LeasedTask, next: Option<Timestamp>) -> Result<TaskOutcome> {
    let lease = task.lease();
    let over = Settlement::finish(task.token(), lease.mark, When::In(limits::ITEM_MEMORY));
    let commit = Commit::new().settle(over);
    let commit = match next {
        Some(next) => commit.wake(Wake::at(lease.item.clone(), When::At(next))),
        None => commit,
    };
    let outcome = task.commit(commit).await?;
    Ok(outcome.committed().map_or(TaskOutcome::Lost, |_| TaskOutcome::Acked))
}
