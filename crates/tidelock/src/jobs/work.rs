//! The work on one job: read its payload, call the handler, and settle the lease.
//!
//! The commit that ends a job deletes the payload's record, as it was when the handler got it. So a
//! job that was cancelled meanwhile cannot end as if it had not been, and a payload that was
//! replaced meanwhile is not lost: the job runs again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tidelock_store::{
    Commit, ExpectedRevision, RawJson, Record, RecordKey, RecordWrite, Result, Settlement, Slot,
    Store, StoreExt, When, limits,
};

use super::job_record::{EndedAs, JobEnd, JobRecord};
use super::key_limit::{Admission, Candidate, KeyLimit};
use super::line::Caller;
use super::{Definition, JobCtx, JobOptions, keys};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::queues::keys::data;
use crate::reactions::OnExhausted;
use crate::staging::{DECISION_ATTEMPTS, Sender, Staged, Tried, too_slow};
use crate::worker::{
    LeasedTask, QueueHandler, QueueOptions, TaskFuture, TaskOutcome, panic_message, timed_out,
    within,
};

/// The payloads and records of all jobs that were leased together.
type Slots = Shared<BoxFuture<'static, Result<Arc<Vec<Slot>>>>>;

/// The concurrency keys of jobs that were leased together, and whether they are admitted.
type Admissions = Shared<BoxFuture<'static, Result<Arc<Vec<Option<(String, Admission)>>>>>>;

/// The queue handler of one job type. Clones share the same state.
#[derive(Debug, Clone)]
pub(crate) struct JobWork {
    tidelock: Tidelock,
    job: Arc<Definition>,
    key_limit: Option<Arc<KeyLimit>>,
}

impl QueueHandler for JobWork {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        let slots = self.slots(&tasks);
        let admissions = self.admissions(&tasks, &slots);
        let handle = |(nth, task): (usize, LeasedTask)| {
            let (work, slots, admissions) = (self.clone(), slots.clone(), admissions.clone());
            async move { work.work(task, nth, slots, admissions).await }.boxed()
        };
        tasks.into_iter().enumerate().map(handle).collect()
    }
}

impl JobWork {
    /// The worker's options for the queue of a job type.
    pub(crate) fn served(tidelock: &Tidelock, job: &Arc<Definition>) -> QueueOptions {
        let key_limit = job.key_limit().ok().flatten().map(Arc::new);
        let work = Self { tidelock: tidelock.clone(), job: job.clone(), key_limit };
        let options = &job.options;
        let served = QueueOptions::new(job.known_queue(), Arc::new(work))
            .lease(options.lease)
            .max_crashes(options.max_crashes);
        let served = served.timeout(options.timeout).minding_its_time();
        let served = served
            .limited(job.global_limit().ok().flatten())
            .paced(job.global_rate().ok().flatten());
        options.limit.map_or(served.clone(), |limit| served.max_concurrency(limit))
    }

    /// The worker's options for the callers of a job type with a limit per key.
    pub(crate) fn callers(job: &Definition) -> Option<QueueOptions> {
        Caller::served(&job.key_limit().ok()??).ok()
    }

    /// Admits the jobs that have a concurrency key.
    fn admissions(&self, tasks: &[LeasedTask], slots: &Slots) -> Option<Admissions> {
        let limit = self.key_limit.clone()?;
        let (work, slots, tasks) = (self.clone(), slots.clone(), tasks.to_vec());
        let admit = async move {
            let slots = slots.await?;
            let key = |nth: usize| work.concurrency_key(slots[2 * nth].live()?);
            let keys: Vec<Option<String>> = (0..tasks.len()).map(key).collect();
            let candidates = tasks
                .into_iter()
                .zip(&keys)
                .filter_map(|(task, key)| Some(Candidate { task, key: key.clone()? }));
            let candidates: Vec<Candidate> = candidates.collect();
            let mut admitted =
                limit.admit(&**work.tidelock.store(), &candidates).await?.into_iter();
            let admission = |key: Option<String>| {
                let key = key?;
                Some((key, admitted.next().expect("each candidate is decided about")))
            };
            Ok(Arc::new(keys.into_iter().map(admission).collect()))
        };
        Some(admit.boxed().shared())
    }

    /// The concurrency key as it is stored. The code that tells it is the user's, and may panic.
    fn concurrency_key(&self, payload: &Record) -> Option<String> {
        let told = || self.job.handler.concurrency_key(&payload.value);
        match catch_unwind(AssertUnwindSafe(told)) {
            Ok(key) => key.as_deref().map(keys::stored),
            Err(panic) => {
                let (queue, error) = (self.job.name(), panic_message(&*panic));
                tracing::warn!(queue, error, "a concurrency key panicked; the job is not limited");
                None
            }
        }
    }

    /// Read after the leases were granted: a later change is found by the commit that ends the job.
    fn slots(&self, tasks: &[LeasedTask]) -> Slots {
        let of = |task: &LeasedTask| [data(&task.lease().item), keys::job(&task.lease().item)];
        let keys: Vec<RecordKey> = tasks.iter().flat_map(of).collect();
        let store = self.tidelock.store().clone();
        async move { Ok(Arc::new(get_all(&*store, &keys).await?)) }.boxed().shared()
    }

    async fn work(
        self,
        task: LeasedTask,
        nth: usize,
        slots: Slots,
        admissions: Option<Admissions>,
    ) -> Result<TaskOutcome> {
        let slots = slots.await?;
        let Some(payload) = slots[2 * nth].live().cloned() else { return finish(&task).await };
        let admission = match admissions {
            Some(admissions) => admissions.await?[nth].clone(),
            None => None,
        };
        match admission {
            Some((_, Admission::Waits)) => return Ok(TaskOutcome::Deferred),
            Some((_, Admission::Lost)) => return Ok(TaskOutcome::Lost),
            Some((_, Admission::Admitted)) | None => {}
        }
        let record = JobRecord::read(&slots[2 * nth + 1])?;
        let has_record = slots[2 * nth + 1].live().is_some();
        let turn = JobTurn { work: &self, task: task.clone(), payload, has_record };
        let outcome = turn.run(record).await;
        if let Some((key, _)) = admission {
            self.leave(&key, &task).await;
        }
        outcome
    }

    /// Makes room for the next job of a key. If that fails, the caller of the key finds the room.
    async fn leave(&self, key: &str, task: &LeasedTask) {
        let Some(limit) = &self.key_limit else { return };
        if let Err(error) = limit.leave(&**self.tidelock.store(), key, &task.token()).await {
            let item = &task.lease().item;
            tracing::warn!(%item, %error, "the room of a job is free when its lease has expired");
        }
    }
}

/// Reads records, as many at a time as a store allows.
async fn get_all(store: &dyn Store, keys: &[RecordKey]) -> Result<Vec<Slot>> {
    let mut slots = Vec::with_capacity(keys.len());
    for keys in keys.chunks(limits::PAGE_SIZE) {
        slots.extend(store.get(keys).await?);
    }
    Ok(slots)
}

/// Ends an item without a payload: its job was cancelled or discarded, and its record says so.
async fn finish(task: &LeasedTask) -> Result<TaskOutcome> {
    task.settle(finished(task)).await
}

fn finished(task: &LeasedTask) -> Settlement {
    Settlement::finish(task.token(), task.lease().mark, When::In(limits::ITEM_MEMORY))
}

/// One lease of one job.
struct JobTurn<'a> {
    work: &'a JobWork,
    task: LeasedTask,
    payload: Record,
    has_record: bool,
}

impl JobTurn<'_> {
    async fn run(self, record: JobRecord) -> Result<TaskOutcome> {
        let tidelock = &self.work.tidelock;
        let ctx = JobCtx::new(tidelock, &self.task, self.payload.revision, record.clone());
        let handled = tokio::select! {
            biased;
            handled = self.handle(ctx.clone()) => handled,
            () = self.drained() => {
                drop(ctx.take());
                return self.task.settle(Settlement::release(self.task.token())).await;
            }
        };
        let staged = ctx.take();
        match handled {
            Err(failure) => self.fail(failure).await,
            Ok(result) => {
                let has_record = self.has_record || ctx.record() != record;
                self.land(staged, &result, has_record).await
            }
        }
    }

    /// Calls the handler. A panic, or a timeout, is a failure.
    async fn handle(&self, ctx: JobCtx) -> Result<RawJson, HandlerError> {
        let timeout = self.options().timeout;
        let call = AssertUnwindSafe(async {
            let handling = async { self.work.job.handler.handle(&self.payload.value, ctx).await };
            let late = || Err(HandlerError::again(format!("the handler {}", timed_out(timeout))));
            within(timeout, handling).await.unwrap_or_else(late)
        });
        call.catch_unwind().await.unwrap_or_else(|panic| {
            Err(HandlerError::again(format!("the handler panicked: {}", panic_message(&*panic))))
        })
    }

    /// Waits until the worker gives up its leases, because its process ends. A job that was
    /// interrupted like this has neither failed nor crashed: another process begins it again.
    async fn drained(&self) {
        self.task.lost().cancelled().await;
        if !self.task.stopping().is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// Lands what was staged with the end of the job.
    async fn land(
        &self,
        mut staged: Staged,
        result: &RawJson,
        has_record: bool,
    ) -> Result<TaskOutcome> {
        let mut own = self.end(result, has_record)?;
        for attempts in 1..=DECISION_ATTEMPTS {
            match staged.attempt(Sender::Task(&self.task), &own, attempts).await? {
                Tried::Landed(_) => return Ok(TaskOutcome::Acked),
                Tried::Lost(_) => return Ok(TaskOutcome::Lost),
                Tried::Refused(failure) => return self.fail(failure).await,
                Tried::Stale => {}
                Tried::Moved(conflict) => match self.again_after().await? {
                    None => return finish(&self.task).await,
                    Some(_) if !staged.can_be_tried_again() => {
                        return self.fail(HandlerError::again(conflict)).await;
                    }
                    Some(again) => own = again,
                },
            }
        }
        self.fail(too_slow()).await
    }

    /// The end of the job: the payload is deleted, unless it was replaced meanwhile.
    fn end(&self, result: &RawJson, has_record: bool) -> Result<Commit> {
        let expected = ExpectedRevision::Revision(self.payload.revision);
        let commit = Commit::new()
            .settle(finished(&self.task))
            .write(RecordWrite::delete(&self.payload.key, expected));
        let item = &self.task.lease().item;
        let record = match self.options().kept() {
            Some(kept) => {
                let result = self.options().keep_results.map(|_| result.clone());
                let outcome = EndedAs::Done;
                Some(JobRecord::ended(
                    item,
                    JobEnd { outcome, kept, result, reason: None, error: None },
                )?)
            }
            None if has_record => {
                Some(RecordWrite::delete(&keys::job(item), ExpectedRevision::Any))
            }
            None => None,
        };
        Ok(record.into_iter().fold(commit, Commit::write))
    }

    /// The end of this lease of a job whose payload was replaced meanwhile: the item is due again.
    /// None, if the job was cancelled.
    async fn again_after(&self) -> Result<Option<Commit>> {
        let slot = self.task.store().get_one(&self.payload.key).await?;
        Ok(slot.live().map(|replaced| {
            let expected = ExpectedRevision::Revision(replaced.revision);
            Commit::new().settle(finished(&self.task)).guard_record(&self.payload.key, expected)
        }))
    }

    async fn fail(&self, failure: HandlerError) -> Result<TaskOutcome> {
        let (options, failures) = (self.options(), self.task.lease().failures);
        let is_last = failures.saturating_add(1) >= options.retry.attempts;
        let exhausted = is_last && options.on_exhausted == OnExhausted::Block;
        let settlement = match failure.is_retryable() && !exhausted {
            true => {
                let after = options.retry.backoff.after(failures, fastrand::f64());
                Settlement::retry(self.task.token(), after, failure.to_string())
            }
            false => Settlement::block(self.task.token(), failure.to_string()),
        };
        self.task.settle(settlement).await
    }

    fn options(&self) -> &JobOptions {
        &self.work.job.options
    }
}
