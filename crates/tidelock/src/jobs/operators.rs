//! Operator API: list, look at, retry, discard and cancel jobs.
//!
//! To end a job means to delete its payload, in one commit with the record of why. A worker that
//! handles the job at that moment cannot end it any more, because its commit compares the payload;
//! the item is then leased once more, found without a payload, and finished.

use serde::de::DeserializeOwned;
use tidelock_store::{
    Adjusted, Adjustment, Commit, CommitOutcome, ExpectedRevision, Item, ItemFilter, ItemKey,
    ItemQuery, ItemRef, Mark, NamePattern, QueueName, RecordKey, RecordQuery, RecordWrite, Result,
    StoreExt, Wake, When, limits,
};

use super::info::{JobFilter, JobInfo, JobState};
use super::job_record::{EndedAs, JobEnd, JobRecord, OPERATED};
use super::keys;
use crate::events::submit;
use crate::handle::Tidelock;
use crate::list::{List, Page};
use crate::pauses::{self, PauseSubject};
use crate::queues::keys::data;
use crate::reactions::is_reserved;

/// Jobs that one commit ends: each takes three parts, and the commit has room for one more event.
const ENDED_PER_COMMIT: usize = (limits::PARTS_PER_COMMIT - 1) / 3;

/// The jobs of a store, whichever process handles them.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidelock::Result<()> {
/// use tidelock::jobs::{JobFilter, JobState};
/// use tidelock::prelude::*;
///
/// let tidelock = Tidelock::open("memory:").await?;
/// let dead = JobFilter::queue("mail").state(JobState::Blocked);
/// for job in tidelock.jobs().list(&dead).all().await? {
///     println!("{}: {:?} after {} failures", job.key, job.error, job.failures);
/// }
/// tidelock.jobs().retry(&dead).await?; // after the cause is fixed
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Jobs {
    tidelock: Tidelock,
}

impl Jobs {
    pub(super) fn new(tidelock: Tidelock) -> Self {
        Self { tidelock }
    }

    /// Lists the jobs that match, ordered by queue and key. A page may have fewer than the limit,
    /// or none, although more follow.
    pub fn list(&self, filter: &JobFilter) -> List<JobInfo, ItemRef> {
        let (jobs, filter) = (self.clone(), filter.clone());
        List::new(move |after, limit| {
            let (jobs, filter) = (jobs.clone(), filter.clone());
            async move {
                Ok(match filter.state.is_some_and(JobState::is_ended) {
                    true => jobs.ended(&filter, after, limit).await?,
                    false => jobs.unfinished(&filter, after, limit).await?,
                })
            }
        })
    }

    /// Returns one job, if it is unfinished or something of it is kept.
    ///
    /// # Errors
    /// `Invalid` if a name is none; the store's errors.
    pub async fn get(
        &self,
        queue: impl AsRef<str>,
        key: impl AsRef<str>,
    ) -> crate::Result<Option<JobInfo>> {
        let (item, store) = (named(queue.as_ref(), key.as_ref())?, self.tidelock.store());
        // The record last: a job that ends between the two reads is found there.
        let there = store.item(&item).await?;
        let slot = store.get_one(&keys::job(&item)).await?;
        Ok(JobInfo::of(&item, there.as_ref(), &slot, store.now().await?)?)
    }

    /// Returns the result of a finished job, as long as it is
    /// [kept](super::JobOptions::keep_results).
    ///
    /// # Errors
    /// `Unreadable` if the result is not a `T`; `Invalid` if a name is none; the store's errors.
    pub async fn result<T: DeserializeOwned>(
        &self,
        queue: impl AsRef<str>,
        key: impl AsRef<str>,
    ) -> crate::Result<Option<T>> {
        let item = named(queue.as_ref(), key.as_ref())?;
        let slot = self.tidelock.store().get_one(&keys::job(&item)).await?;
        let result = JobRecord::read(&slot)?.end.and_then(|end| end.result);
        Ok(result.map(|result| result.to()).transpose()?)
    }

    /// Retries blocked jobs that match at once, with all their attempts before them.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn retry(&self, filter: &JobFilter) -> crate::Result<Adjusted> {
        check(filter)?;
        let filter = filter.items().blocked(true);
        let mut adjusted = Adjusted::default();
        for queue in self.queues(filter).await? {
            let one = self.tidelock.store().adjust(queue, Adjustment::Unblock).await?;
            adjusted.matched += one.matched;
            adjusted.changed += one.changed;
        }
        Ok(adjusted)
    }

    /// Ends blocked jobs that match without having done them, for a reason that is kept with them
    /// for 30 days. Returns how many.
    ///
    /// Nothing waits behind a job, so this is also how a job is skipped.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn discard(&self, filter: &JobFilter, reason: &str) -> crate::Result<u64> {
        self.end(&filter.clone().state(JobState::Blocked), EndedAs::Discarded, reason).await
    }

    /// Cancels unfinished jobs that match, for a reason that is kept with them for 30 days. Returns
    /// how many.
    ///
    /// A job that is running has [lost](super::JobCtx::lost) its lease: what its handler has staged
    /// lands no more. The handler is told with the next renewal, within a third of the lease.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn cancel(&self, filter: &JobFilter, reason: &str) -> crate::Result<u64> {
        self.end(filter, EndedAs::Cancelled, reason).await
    }

    /// Pauses a queue: no process leases anything of it until it is [resumed](Self::resume). Jobs
    /// can be enqueued meanwhile, and those that run are not interrupted.
    ///
    /// Every process honors it within two seconds. Returns whether the queue was not paused before.
    ///
    /// # Errors
    /// `Invalid` if the name is none; the store's errors.
    pub async fn pause(&self, queue: impl AsRef<str>, reason: &str) -> crate::Result<bool> {
        let subject = subject(queue.as_ref())?;
        Ok(pauses::pause(&**self.tidelock.store(), subject, reason).await?)
    }

    /// Resumes a queue, and returns whether it was paused.
    ///
    /// # Errors
    /// `Invalid` if the name is none; the store's errors.
    pub async fn resume(&self, queue: impl AsRef<str>) -> crate::Result<bool> {
        let subject = subject(queue.as_ref())?;
        Ok(pauses::resume(&**self.tidelock.store(), &subject).await?)
    }

    async fn end(&self, filter: &JobFilter, outcome: EndedAs, reason: &str) -> crate::Result<u64> {
        check(filter)?;
        if filter.state.is_some_and(JobState::is_ended) {
            return Ok(0);
        }
        let (mut ended, mut after) = (0, None);
        loop {
            let page = self.unfinished(filter, after, ENDED_PER_COMMIT).await?;
            ended += self.end_all(&page.items, outcome, reason).await?;
            match page.next {
                None => return Ok(ended),
                next => after = next,
            }
        }
    }

    /// Ends the jobs together; or, if one of them has ended meanwhile, one by one.
    async fn end_all(&self, jobs: &[JobInfo], outcome: EndedAs, reason: &str) -> Result<u64> {
        if jobs.is_empty() {
            return Ok(0);
        }
        if self.end_in_one(jobs, outcome, reason).await? {
            return Ok(jobs.len() as u64);
        }
        let mut ended = 0;
        for job in jobs {
            ended += u64::from(self.end_in_one(std::slice::from_ref(job), outcome, reason).await?);
        }
        Ok(ended)
    }

    async fn end_in_one(&self, jobs: &[JobInfo], outcome: EndedAs, reason: &str) -> Result<bool> {
        let mut commit = Commit::new();
        let mut by_queue: Vec<(QueueName, Vec<String>)> = Vec::new();
        for job in jobs {
            let item = ItemRef::parse(&job.queue, &job.key)?;
            let end = JobEnd {
                outcome,
                kept: OPERATED,
                result: None,
                reason: Some(reason.to_owned()),
                error: job.error.clone(),
            };
            commit = commit
                .write(RecordWrite::delete(&data(&item), ExpectedRevision::Exists))
                .write(JobRecord::ended(&item, end)?)
                // The item ends at once, however late it was due.
                .wake(Wake::at(item.clone(), When::NOW));
            match by_queue.last_mut().filter(|(queue, _)| *queue == item.queue) {
                Some((_, keys)) => keys.push(job.key.clone()),
                None => by_queue.push((item.queue, vec![job.key.clone()])),
            }
        }
        let (store, commit) = (&**self.tidelock.store(), submit::ensure_retry_id(commit));
        let sent = submit::send(store, &commit, self.tidelock.retry(), self.tidelock.random());
        if let CommitOutcome::Conflict(_) = sent.await? {
            return Ok(false);
        }
        for (queue, keys) in by_queue {
            let filter = ItemFilter::queue(queue.as_str()).key(NamePattern::OneOf(keys));
            store.adjust(filter, Adjustment::Reset { to: Mark::ZERO }).await?;
        }
        Ok(true)
    }

    async fn unfinished(
        &self,
        filter: &JobFilter,
        after: Option<ItemRef>,
        limit: usize,
    ) -> Result<Page<JobInfo, ItemRef>> {
        let store = self.tidelock.store();
        let query = ItemQuery { filter: filter.items(), after, limit };
        let page = store.full_page(query).await?;
        let items: Vec<Item> = page.items.into_iter().filter(is_a_job).collect();
        let records: Vec<RecordKey> = items.iter().map(|item| keys::job(&item.item)).collect();
        let slots = if records.is_empty() { Vec::new() } else { store.get(&records).await? };
        let (now, mut jobs) = (store.now().await?, Vec::new());
        for (item, slot) in items.iter().zip(&slots) {
            let job = JobInfo::of(&item.item, Some(item), slot, now)?;
            jobs.extend(job.filter(|job| filter.selects(job.state)));
        }
        Ok(Page { items: jobs, next: page.next })
    }

    /// Ended jobs are found by their records, because their items are forgotten.
    async fn ended(
        &self,
        filter: &JobFilter,
        after: Option<ItemRef>,
        limit: usize,
    ) -> Result<Page<JobInfo, ItemRef>> {
        let store = self.tidelock.store();
        let prefix = filter.queue.as_deref().map_or_else(|| keys::jobs().to_owned(), keys::jobs_of);
        let after = after.as_ref().map(keys::job);
        let page = store.full_page(RecordQuery { prefix, after, limit }).await?;
        let (now, mut jobs) = (store.now().await?, Vec::new());
        for record in page.records {
            let Some(item) = keys::item_of(&record.key) else { continue };
            let job = JobInfo::of(&item, None, &tidelock_store::Slot::Live(record), now)?;
            let is_meant =
                |job: &JobInfo| filter.selects(job.state) && filter.keys.matches(&job.key);
            jobs.extend(job.filter(is_meant));
        }
        Ok(Page { items: jobs, next: page.next.as_ref().and_then(keys::item_of) })
    }

    /// The filter for each queue of users that has matching items.
    async fn queues(&self, filter: ItemFilter) -> Result<Vec<ItemFilter>> {
        if filter.queue != NamePattern::Any {
            return Ok(vec![filter]);
        }
        let mut rows = self.tidelock.store().rows(ItemQuery::new(filter.clone()));
        let mut queues: Vec<ItemFilter> = Vec::new();
        while let Some(item) = rows.next().await? {
            let queue = NamePattern::is(item.item.queue.as_str());
            if is_a_job(&item) && queues.last().is_none_or(|last| last.queue != queue) {
                queues.push(ItemFilter { queue, ..filter.clone() });
            }
        }
        Ok(queues)
    }
}

/// Whether an item is in a queue of users.
fn is_a_job(item: &Item) -> bool {
    !is_reserved(item.item.queue.as_str())
}

/// Refuses the queues of reactions and runs.
fn check(filter: &JobFilter) -> Result<()> {
    filter.queue.as_deref().map_or(Ok(()), |queue| crate::queues::checked_name(queue).map(drop))
}

fn subject(queue: &str) -> Result<PauseSubject> {
    Ok(PauseSubject::Queue(crate::queues::checked_name(queue)?.as_str().to_owned()))
}

fn named(queue: &str, key: &str) -> Result<ItemRef> {
    Ok(ItemRef::new(&crate::queues::checked_name(queue)?, &ItemKey::new(key)?))
}
