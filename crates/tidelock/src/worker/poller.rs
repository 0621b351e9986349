//! Poller: serves one queue. It leases as many items as there are free slots and starts a task for
//! each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidelock_store::{
    ChangeHint, Commit, Lease, Leased, Result, RetryAdvice, Settlement, StoreError, Topic, When,
};
use tokio::time::Instant;
use tracing::Instrument;

use super::heartbeat::RenewalGuard;
use super::pace::Pace;
use super::permits::{Permit, Permits};
use super::slots::Slot;
use super::{LeasedTask, QueueOptions, TaskFuture, TaskOutcome, WorkerShared, timed_out};
use crate::pauses::PauseSubject;
use crate::telemetry::{self, Running};

/// The delay of an item whose work panicked, timed out, or could not be settled.
const REQUEUE_DELAY: Duration = Duration::from_secs(1);

/// The minimum time between two polls that find nothing.
const MIN_POLL: Duration = Duration::from_millis(5);

/// The lease loop of one queue.
#[derive(Debug)]
pub(super) struct Poller {
    shared: Arc<WorkerShared>,
    options: QueueOptions,
    poll: Duration,
    error_pause: Duration,
    /// What pauses the queue.
    subject: Option<PauseSubject>,
    /// The permits of the queue's global limit, if it has one.
    permits: Option<Arc<Permits>>,
    /// Whether more is due than there are permits: then permits come first.
    is_saturated: bool,
    /// The pace of the queue's global rate, if it has one.
    pace: Option<Pace>,
}

/// What to wait for.
#[derive(Debug)]
struct Hints {
    items: ChangeHint,
    permits: Option<ChangeHint>,
}

impl Poller {
    pub(super) fn new(
        shared: &Arc<WorkerShared>,
        options: QueueOptions,
        poll: Duration,
        error_pause: Duration,
    ) -> Self {
        let permits = options.global.as_ref();
        Self {
            shared: shared.clone(),
            subject: PauseSubject::of(&options.queue),
            permits: permits.map(|limit| Permits::new(shared, limit, &options)),
            is_saturated: false,
            pace: options.rate.as_ref().map(|rate| Pace::new(&shared.store, rate)),
            options,
            poll,
            error_pause,
        }
    }

    pub(super) async fn serve(mut self) {
        // Subscribed before the first poll, so that no hint is missed.
        let mut hints = self.hints();
        let stopping = self.shared.stopping.clone();
        if stopping.run_until_cancelled(self.prepare()).await.is_none() {
            return;
        }
        while let Some(slots) =
            stopping.run_until_cancelled(self.shared.slots.take(&self.options)).await
        {
            let Some(wait) = self.fill(slots).await else { continue };
            let wait = self.wait(&mut hints, wait);
            if stopping.run_until_cancelled(wait).await.is_none() {
                break;
            }
        }
        if let Some(permits) = &self.permits {
            permits.give_back(Vec::new()).await;
        }
    }

    fn hints(&self) -> Hints {
        let store = &self.shared.store;
        Hints {
            items: store.signal(Topic::Queue(self.options.queue.clone())),
            permits: self.permits.as_ref().map(|permits| store.signal(permits.topic())),
        }
    }

    /// Creates the permits of a global limit.
    async fn prepare(&self) {
        let Some(permits) = &self.permits else { return };
        while let Err(error) = permits.prepare().await {
            tracing::warn!(queue = %self.options.queue, %error, "permits could not be created");
            tokio::time::sleep(self.poll).await;
        }
    }

    /// Waits for a change hint, for at most `wait`. Without a permit, it is one about permits; at a
    /// pace that allows nothing, there is none to wait for.
    async fn wait(&self, hints: &mut Hints, wait: Duration) {
        if let Some(closed) = self.pace.as_ref().and_then(Pace::closed_for) {
            return tokio::time::sleep(closed).await;
        }
        match (&self.permits, &mut hints.permits) {
            (Some(permits), Some(hint)) if self.is_saturated => tokio::select! {
                biased;
                () = wait_for_hint(hint, wait) => {}
                () = permits.returned.notified() => {}
            },
            _ => wait_for_hint(&mut hints.items, wait).await,
        }
    }

    async fn is_paused(&self) -> Result<bool> {
        match &self.subject {
            Some(subject) => self.shared.pauses.has(subject).await,
            None => Ok(false),
        }
    }

    /// Leases items for these slots. Returns how long to wait, or `None` if more may be due at
    /// once.
    async fn fill(&mut self, slots: Vec<Slot>) -> Option<Duration> {
        match self.lease_and_start(slots).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(queue = %self.options.queue, %error, "could not lease");
                Some(self.error_pause)
            }
        }
    }

    async fn lease_and_start(&mut self, slots: Vec<Slot>) -> Result<Option<Duration>> {
        if self.is_paused().await? {
            return Ok(Some(self.poll));
        }
        let allowed = match &mut self.pace {
            Some(pace) => pace.allow(slots.len()).await?,
            None => slots.len(),
        };
        if allowed == 0 {
            return Ok(Some(self.poll));
        }
        let (mut leased, mut held) = match self.permits.clone() {
            None => (self.lease(allowed).await?, Vec::new()),
            Some(permits) => match self.lease_limited(&permits, allowed).await? {
                Some(limited) => limited,
                None => {
                    self.pace.iter_mut().for_each(Pace::held_up);
                    return Ok(Some(self.poll));
                }
            },
        };
        self.keep_pace(&mut leased, &mut held, allowed).await?;
        let more_is_due = self.is_saturated || self.pace.as_ref().is_some_and(Pace::is_saturated);
        let wait = if more_is_due { None } else { self.wait_after(&leased) };
        self.start_all(leased.leases, slots, held).await;
        Ok(wait)
    }

    /// Gives back the items that may not begin yet, with their permits.
    async fn keep_pace(
        &mut self,
        leased: &mut Leased,
        held: &mut Vec<Permit>,
        allowed: usize,
    ) -> Result<()> {
        let Some(pace) = &mut self.pace else { return Ok(()) };
        let granted = pace.grant(leased.leases.len(), allowed).await;
        let early = leased.leases.split_off(granted.as_ref().map_or(0, |granted| *granted));
        held.truncate(leased.leases.len());
        self.release(early).await;
        granted.map(drop)
    }

    async fn lease(&self, most: usize) -> Result<Leased> {
        self.shared.store.lease(self.options.request(&self.shared.name, most)).await
    }

    /// Leases items and a permit for each. None, if there is no permit.
    async fn lease_limited(
        &mut self,
        permits: &Arc<Permits>,
        most: usize,
    ) -> Result<Option<(Leased, Vec<Permit>)>> {
        let mut held = permits.take_idle(most);
        if self.is_saturated && held.is_empty() {
            held = permits.lease(most).await?;
            if held.is_empty() {
                return Ok(None);
            }
        }
        let wanted = if self.is_saturated { held.len() } else { most };
        let mut leased = self.lease(wanted).await?;
        let is_drained = leased.leases.len() < wanted;
        match permits.lease(leased.leases.len().saturating_sub(held.len())).await {
            Ok(more) => held.extend(more),
            Err(error) => {
                self.release(leased.leases).await;
                return Err(error);
            }
        }
        let unpermitted = leased.leases.split_off(leased.leases.len().min(held.len()));
        self.is_saturated = !unpermitted.is_empty() || (self.is_saturated && !is_drained);
        self.release(unpermitted).await;
        let unused = held.split_off(leased.leases.len());
        if is_drained && !unused.is_empty() {
            permits.give_back(unused).await;
        }
        Ok(Some((leased, held)))
    }

    fn wait_after(&self, leased: &Leased) -> Option<Duration> {
        let wait = leased.next_due.map_or(self.poll, |due| due.since(leased.at).min(self.poll));
        match leased.leases.is_empty() {
            // Due items that could not be leased are held by other workers; an immediate retry
            // would find nothing either.
            true => Some(wait.max(MIN_POLL)),
            false => (!wait.is_zero()).then_some(wait),
        }
    }

    async fn start_all(&self, leases: Vec<Lease>, slots: Vec<Slot>, permits: Vec<Permit>) {
        if self.shared.stopping.is_cancelled() {
            return self.release(leases).await;
        }
        let (mut slots, mut permits) = (slots.into_iter(), permits.into_iter());
        let held = |lease| {
            let permit = permits.next();
            (self.task(lease, permit.as_ref()), (slots.next(), permit))
        };
        let (exhausted, runnable): (Vec<_>, Vec<_>) = leases
            .into_iter()
            .map(held)
            .partition(|(task, _)| self.options.is_exhausted(task.lease()));
        let tasks: Vec<LeasedTask> = runnable.iter().map(|(task, _)| task.clone()).collect();
        let works = self.begin(&tasks);
        for ((task, held), work) in runnable.into_iter().zip(works) {
            self.start(task, work, held);
        }
        for (task, held) in exhausted {
            let work = block_exhausted(task.clone()).boxed();
            self.start(task, work, held);
        }
    }

    /// Calls the handler. A panic here fails these tasks and nothing else.
    fn begin(&self, tasks: &[LeasedTask]) -> Vec<TaskFuture> {
        let started = catch_unwind(AssertUnwindSafe(|| self.options.work.begin(tasks.to_vec())));
        started.unwrap_or_else(|panic| {
            let message = panic_message(&*panic);
            tasks.iter().map(|task| fail_as_panicked(task.clone(), message).boxed()).collect()
        })
    }

    fn task(&self, lease: Lease, permit: Option<&Permit>) -> LeasedTask {
        telemetry::leased(&lease);
        let (store, stopping) = (&self.shared.store, &self.shared.stopping);
        let permit = permit.and_then(Permit::task).map(LeasedTask::token);
        LeasedTask::new(store, lease, &self.options, stopping, permit)
    }

    fn start(
        &self,
        task: LeasedTask,
        work: TaskFuture,
        (slot, permit): (Option<Slot>, Option<Permit>),
    ) {
        let run = TaskRun {
            renewal: self.shared.heartbeat.register(&task),
            grace: self.shared.grace,
            timeout: self.options.enforce_timeout.then_some(self.options.timeout),
            task,
            permit,
            slot,
            running: Running::begin(),
        };
        let lease = run.task.lease();
        let span = tracing::info_span!(
            "work",
            queue = %lease.item.queue,
            key = %lease.item.key,
            fence = %lease.fence,
        );
        let run = run.finish(work).instrument(span);
        self.shared.tasks.spawn(self.shared.dropped.clone().run_until_cancelled_owned(run));
    }

    /// Releases leases that arrived after the shutdown started; their work was not started.
    async fn release(&self, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        let release =
            |commit: Commit, lease: &Lease| commit.settle(Settlement::release(lease.token()));
        let commit = leases.iter().fold(Commit::new(), release);
        if let Err(error) = self.shared.store.commit(commit).await {
            tracing::warn!(%error, "leases could not be released; they will expire");
        }
    }
}

/// Waits for a change hint, for at most `wait`.
async fn wait_for_hint(signal: &mut ChangeHint, wait: Duration) {
    let _hint = tokio::time::timeout(wait, signal.wait()).await;
}

/// Blocks an item whose workers keep crashing, instead of trying it on another one.
async fn block_exhausted(task: LeasedTask) -> Result<TaskOutcome> {
    let expiries = task.lease().expiries;
    let error = format!(
        "the lease expired {expiries} times without progress: the process died or hung each time; find out why, then unblock"
    );
    task.settle(Settlement::block(task.token(), error)).await
}

/// Settles panicked work for a later retry.
pub(super) fn fail_as_panicked(
    task: LeasedTask,
    message: &str,
) -> impl Future<Output = Result<TaskOutcome>> + Send + 'static {
    let error = format!("panicked: {message}");
    async move { task.settle(Settlement::retry(task.token(), REQUEUE_DELAY, error)).await }
}

/// One running task with the resources it holds.
#[derive(Debug)]
struct TaskRun {
    task: LeasedTask,
    grace: Duration,
    /// The limit that the worker enforces; `None` if the handler enforces its own.
    timeout: Option<Duration>,
    renewal: RenewalGuard,
    permit: Option<Permit>,
    slot: Option<Slot>,
    running: Running,
}

impl TaskRun {
    async fn finish(self, work: TaskFuture) {
        let started = Instant::now();
        let settled = self.settled(work).await;
        telemetry::worked(&self.task.lease().item.queue, started.elapsed());
        match settled {
            Ok(settled) => telemetry::settled(&self.task.token(), settled.name(), settled.error()),
            Err(error) => {
                tracing::warn!(item = %self.task.lease().item, %error, "not settled; the lease will expire");
            }
        }
        // The order matters: renewal ends before the permit and the slot are free.
        drop(self.renewal);
        drop(self.permit);
        drop(self.slot);
        drop(self.running);
    }

    async fn settled(&self, work: TaskFuture) -> Result<TaskOutcome> {
        let outcome = tokio::select! {
            biased;
            outcome = AssertUnwindSafe(self.task.tracking_polls(work)).catch_unwind() => outcome,
            () = self.lost_and_grace_over() => return Ok(TaskOutcome::Lost),
            timeout = self.out_of_time() => {
                let late = Settlement::retry(self.task.token(), REQUEUE_DELAY, timed_out(timeout));
                return self.task.settle(late).await;
            }
        };
        match outcome {
            Ok(Ok(settled)) => Ok(settled),
            Ok(Err(error)) => self.settle_failed(&error).await,
            Err(panic) => fail_as_panicked(self.task.clone(), panic_message(&*panic)).await,
        }
    }

    /// Waits until the lease is lost and the handler's grace is over.
    async fn lost_and_grace_over(&self) {
        tokio::select! {
            biased;
            () = self.task.lost().cancelled() => {}
            () = self.permit_lost() => self.task.lost().cancel(),
        }
        tokio::time::sleep(self.grace).await;
    }

    async fn permit_lost(&self) {
        match self.permit.as_ref().and_then(Permit::task) {
            Some(permit) => permit.lost().cancelled().await,
            None => std::future::pending().await,
        }
    }

    async fn out_of_time(&self) -> Duration {
        match self.timeout {
            Some(timeout) => tokio::time::sleep(timeout).map(|()| timeout).await,
            None => std::future::pending().await,
        }
    }

    /// Settles an item whose handler could not. A store that is unreachable is not the item's
    /// fault, so the item is deferred; a permanent refusal blocks it for an operator.
    async fn settle_failed(&self, error: &StoreError) -> Result<TaskOutcome> {
        tracing::warn!(item = %self.task.lease().item, %error, "the work could not be settled");
        let token = self.task.token();
        let settlement = match error.advice() {
            RetryAdvice::Never => Settlement::block(token, error.to_string()),
            RetryAdvice::Later | RetryAdvice::Unknown => {
                Settlement::defer(token, When::In(REQUEUE_DELAY))
            }
        };
        self.task.settle(settlement).await
    }
}

/// Returns the message of a panic, if its payload is a string.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("non-string payload")
}
