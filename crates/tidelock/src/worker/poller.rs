//! Serves one queue: leases as many items as there are free slots, and has each of them worked on.

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
use super::slots::Slot;
use super::{Crew, LeasedTask, QueueOptions, TaskFuture, TaskOutcome, timed_out};
use crate::telemetry::{self, Running};

/// How long an item is put off whose work could not even fail in order.
const REQUEUE_DELAY: Duration = Duration::from_secs(1);

/// The least time between two looks that find nothing.
const MIN_POLL: Duration = Duration::from_millis(5);

/// One queue, as a worker serves it.
#[derive(Debug)]
pub(super) struct Poller {
    crew: Arc<Crew>,
    served: QueueOptions,
    poll: Duration,
}

impl Poller {
    pub(super) fn new(crew: &Arc<Crew>, served: QueueOptions, poll: Duration) -> Self {
        Self { crew: crew.clone(), served, poll }
    }

    pub(super) async fn serve(self) {
        // Taken before the first look, so nothing is missed.
        let mut signal = self.crew.store.signal(Topic::Queue(self.served.queue.clone()));
        let stopping = self.crew.stopping.clone();
        while let Some(slots) =
            stopping.run_until_cancelled(self.crew.slots.take(&self.served)).await
        {
            let Some(wait) = self.fill(slots).await else { continue };
            let rest = rest(&mut signal, wait);
            if stopping.run_until_cancelled(rest).await.is_none() {
                break;
            }
        }
    }

    /// Leases for these slots; tells how long to rest, or nothing if there may be more at once.
    async fn fill(&self, slots: Vec<Slot>) -> Option<Duration> {
        let request = self.served.request(&self.crew.name, slots.len());
        match self.crew.store.lease(request).await {
            Ok(leased) => {
                let wait = self.wait_after(&leased);
                self.take_on(leased.leases, slots).await;
                wait
            }
            Err(error) => {
                tracing::warn!(queue = %self.served.queue, %error, "nothing could be leased");
                Some(self.poll)
            }
        }
    }

    fn wait_after(&self, leased: &Leased) -> Option<Duration> {
        let wait = leased.next_due.map_or(self.poll, |due| due.since(leased.at).min(self.poll));
        match leased.leases.is_empty() {
            // What is due and not to be had is in somebody else's hands; asking at once would ask
            // in vain.
            true => Some(wait.max(MIN_POLL)),
            false => (!wait.is_zero()).then_some(wait),
        }
    }

    async fn take_on(&self, leases: Vec<Lease>, slots: Vec<Slot>) {
        if self.crew.stopping.is_cancelled() {
            return self.give_back(leases).await;
        }
        let tasks: Vec<LeasedTask> = leases.into_iter().map(|lease| self.task(lease)).collect();
        let (spent, sound): (Vec<LeasedTask>, Vec<LeasedTask>) =
            tasks.into_iter().partition(|task| self.served.is_spent(task.lease()));
        let mut slots = slots.into_iter();
        let handlings = self.begin(&sound);
        for (task, handling) in sound.into_iter().zip(handlings) {
            self.start(task, handling, slots.next());
        }
        for task in spent {
            let handling = block_spent(task.clone()).boxed();
            self.start(task, handling, slots.next());
        }
    }

    /// A panic before there is anything to drive is a failure of what was to be begun, and of
    /// nothing else.
    fn begin(&self, tasks: &[LeasedTask]) -> Vec<TaskFuture> {
        let begun = catch_unwind(AssertUnwindSafe(|| self.served.work.begin(tasks.to_vec())));
        begun.unwrap_or_else(|panic| {
            let message = panic_message(&*panic);
            tasks.iter().map(|task| fail_as_panicked(task.clone(), message).boxed()).collect()
        })
    }

    fn task(&self, lease: Lease) -> LeasedTask {
        telemetry::leased(&lease);
        LeasedTask::new(&self.crew.store, lease, &self.served, &self.crew.stopping)
    }

    fn start(&self, task: LeasedTask, handling: TaskFuture, slot: Option<Slot>) {
        let effort = TaskRun {
            beating: self.crew.heartbeat.keep(&task),
            grace: self.crew.grace,
            timeout: self.served.cuts.then_some(self.served.timeout),
            task,
            slot,
            running: Running::begin(),
        };
        let lease = effort.task.lease();
        let span = tracing::info_span!(
            "work",
            queue = %lease.item.queue,
            key = %lease.item.key,
            fence = %lease.fence,
        );
        let made = effort.make(handling).instrument(span);
        self.crew.tasks.spawn(self.crew.dropped.clone().run_until_cancelled_owned(made));
    }

    /// What was leased after the shutdown began was not begun, and goes back at once.
    async fn give_back(&self, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        let release =
            |commit: Commit, lease: &Lease| commit.settle(Settlement::release(lease.token()));
        let commit = leases.iter().fold(Commit::new(), release);
        if let Err(error) = self.crew.store.commit(commit).await {
            tracing::warn!(%error, "leases could not be given back; they will run out");
        }
    }
}

/// Until something may have happened to the queue, and no longer than this.
async fn rest(signal: &mut ChangeHint, wait: Duration) {
    let _hint = tokio::time::timeout(wait, signal.wait()).await;
}

/// An item whose holders keep dying is not tried on yet another one.
async fn block_spent(task: LeasedTask) -> Result<TaskOutcome> {
    let expiries = task.lease().expiries;
    let error = format!(
        "the lease ran out {expiries} times without progress: the process died or hung each time; find out why, then unblock"
    );
    task.settle(Settlement::block(task.token(), error)).await
}

/// Work that panicked is tried again, later.
pub(super) fn fail_as_panicked(
    task: LeasedTask,
    message: &str,
) -> impl Future<Output = Result<TaskOutcome>> + Send + 'static {
    let error = format!("panicked: {message}");
    async move { task.settle(Settlement::retry(task.token(), REQUEUE_DELAY, error)).await }
}

/// One item being worked on, and everything that is held meanwhile.
#[derive(Debug)]
struct TaskRun {
    task: LeasedTask,
    grace: Duration,
    /// How long the worker lets it go on; nothing if the work sees to that itself.
    timeout: Option<Duration>,
    beating: RenewalGuard,
    slot: Option<Slot>,
    running: Running,
}

impl TaskRun {
    async fn make(self, handling: TaskFuture) {
        let begun = Instant::now();
        let settled = self.settled(handling).await;
        telemetry::worked(&self.task.lease().item.queue, begun.elapsed());
        match settled {
            Ok(settled) => telemetry::settled(&self.task.token(), settled.name(), settled.error()),
            Err(error) => {
                tracing::warn!(item = %self.task.lease().item, %error, "not settled; the lease will run out");
            }
        }
        // In this order: nothing is renewed any more when the slot is free.
        drop(self.beating);
        drop(self.slot);
        drop(self.running);
    }

    async fn settled(&self, handling: TaskFuture) -> Result<TaskOutcome> {
        let outcome = tokio::select! {
            biased;
            outcome = AssertUnwindSafe(self.task.noting_polls(handling)).catch_unwind() => outcome,
            () = self.lost_for_good() => return Ok(TaskOutcome::Lost),
            timeout = self.out_of_time() => {
                let late = Settlement::retry(self.task.token(), REQUEUE_DELAY, timed_out(timeout));
                return self.task.settle(late).await;
            }
        };
        match outcome {
            Ok(Ok(settled)) => Ok(settled),
            Ok(Err(error)) => self.put_off(&error).await,
            Err(panic) => fail_as_panicked(self.task.clone(), panic_message(&*panic)).await,
        }
    }

    /// The handler was told, and has had its time to end by itself.
    async fn lost_for_good(&self) {
        self.task.lost().cancelled().await;
        tokio::time::sleep(self.grace).await;
    }

    async fn out_of_time(&self) -> Duration {
        match self.timeout {
            Some(timeout) => tokio::time::sleep(timeout).map(|()| timeout).await,
            None => std::future::pending().await,
        }
    }

    /// A store that could not be reached is no fault of the item; one that refuses for good needs
    /// somebody to look.
    async fn put_off(&self, error: &StoreError) -> Result<TaskOutcome> {
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

/// What a panic said, if it said it in words.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}
