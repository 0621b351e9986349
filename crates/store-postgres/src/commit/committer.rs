//! Group commit: concurrent commits are coalesced into one batch per round trip.
//!
//! A commit that arrives while others are in flight joins a queue. When the connection is free, the
//! queue goes to the server as one batch. A single commit goes immediately. No batch is held back
//! for a time to make it larger; but the callers that were just answered get a chance to return
//! before the next batch is sent.
//!
//! There are two lanes to the server, each with a connection. The second lane is used only when a
//! large load is left over: then one batch is encoded and decoded while the other is being written.
//! Smaller loads gain more from sharing a batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join;
use tidelock_store::{
    Commit, CommitOutcome, Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation,
};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::queue::{Job, Next, Queue};
use super::{BatchPlan, CommitPath, FastVerdicts, Verdict, general};
use crate::connect::LazyConnection;
use crate::error::closed;
use crate::wake::Wakes;

/// The load left over from which on the second lane is used.
const SECOND_LOAD: usize = 48;

/// How often other tasks run before the next batch is taken, so that the last batch's callers can
/// join it.
const YIELDS: usize = 10;

/// The queue and its lanes.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    /// The tasks that have not ended yet.
    tasks: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    first: CommitLane,
    second: CommitLane,
    wakes: Wakes,
    queue: Mutex<Queue>,
    /// Commits in flight.
    waiting: AtomicUsize,
}

/// A connection for commits.
#[derive(Debug)]
struct CommitLane {
    connection: LazyConnection,
    /// Wakes the task that serves the queue on this lane.
    work: Notify,
    /// Held by the user of the connection: the task, or a caller that commits inline.
    conn_lock: tokio::sync::Mutex<()>,
    /// The least load for this lane to be used.
    least: usize,
    /// Since when something has been in flight on it.
    busy: Mutex<Option<Instant>>,
}

/// Marks the lane as busy until dropped.
struct Busy<'a>(&'a CommitLane);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl CommitLane {
    fn new(connection: LazyConnection, least: usize) -> Self {
        Self {
            connection,
            work: Notify::new(),
            conn_lock: tokio::sync::Mutex::default(),
            least,
            busy: Mutex::default(),
        }
    }

    /// The caller holds `conn_lock`.
    fn begin(&self) -> Busy<'_> {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Busy(self)
    }

    fn busy_for(&self) -> Duration {
        let since = *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Makes one commit on its fast path; none if it must take the general path.
    async fn make(&self, path: CommitPath, commit: &Commit) -> Result<Option<Verdict>> {
        let session = self.connection.session().await?;
        let made = path.try_fast(&session, &[commit]).await;
        made.map(|mut one| one.pop().flatten()).map_err(|e| self.connection.connector().at(e))
    }
}

/// The result of an inline commit.
enum Inline {
    Done(Result<CommitOutcome>),
    /// It has to be queued for this path.
    Queue(CommitPath),
}

impl Committer {
    /// Starts the tasks that serve the queue; they end when the committer is closed or dropped.
    pub(crate) fn start(first: LazyConnection, second: LazyConnection, wakes: Wakes) -> Self {
        let shared = Arc::new(Shared {
            first: CommitLane::new(first, 1),
            second: CommitLane::new(second, SECOND_LOAD),
            wakes,
            queue: Mutex::default(),
            waiting: AtomicUsize::new(0),
        });
        let by_first = tokio::spawn(keep_serving(shared.clone(), |shared| &shared.first));
        let by_second = tokio::spawn(keep_serving(shared.clone(), |shared| &shared.second));
        Self { shared, tasks: tokio::sync::Mutex::new(vec![by_first, by_second]) }
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let _waiting = Waiting::new(&self.shared.waiting);
        let path = match self.shared.commit_inline(&commit, CommitPath::of(&commit)).await {
            Inline::Done(outcome) => return outcome,
            Inline::Queue(path) => path,
        };
        let (reply, answer) = oneshot::channel();
        self.shared.push(Job::new(commit, path, reply))?;
        answer.await.map_err(|_| cut_off())?
    }

    /// The number of commits in flight.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// How long the current commits have been in flight.
    pub(crate) fn busy_for(&self) -> Duration {
        self.shared.first.busy_for().max(self.shared.second.busy_for())
    }

    /// Accepts no more commits, and waits until the queue is empty.
    pub(crate) async fn close(&self) {
        self.shared.close();
        let mut tasks = self.tasks.lock().await;
        // A task leaves the list when it has ended: a concurrent close, or one after a close that
        // was dropped, waits for the rest.
        while let Some(task) = tasks.last_mut() {
            // It can only have been cancelled, and its callers know.
            let _ = task.await;
            tasks.pop();
        }
        self.shared.first.connection.drop_session();
        self.shared.second.connection.drop_session();
    }
}

/// Counts a commit in flight until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    fn close(&self) {
        self.queue().close();
        self.first.work.notify_one();
        self.second.work.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) -> Result<()> {
        let load = self.queue().push(job).ok_or_else(|| closed(StoreOperation::Commit))?;
        self.first.work.notify_one();
        if load >= self.second.least {
            self.second.work.notify_one();
        }
        Ok(())
    }

    /// Commits inline, in the caller's own task, if a fast path allows it and the connection is
    /// free: every hop to another task costs a good part of the time of a commit. It is one
    /// statement, so a caller that is dropped in the middle leaves nothing open.
    async fn commit_inline(&self, commit: &Commit, path: CommitPath) -> Inline {
        if path == CommitPath::General {
            return Inline::Queue(path);
        }
        let Ok(_conn_lock) = self.first.conn_lock.try_lock() else { return Inline::Queue(path) };
        // Behind abandoned requests it is better to wait in the queue, where a dropped caller
        // leaves nothing behind.
        if !self.queue().is_free() || self.first.connection.is_behind() {
            return Inline::Queue(path);
        }
        let _busy = self.first.begin();
        // Boxed, because callers that find the connection busy would otherwise carry its size for
        // nothing.
        match Box::pin(self.first.make(path, commit)).await {
            Ok(Some(verdict)) => Inline::Done(self.notify(verdict)),
            Ok(None) => Inline::Queue(CommitPath::General),
            Err(error) => Inline::Done(Err(error)),
        }
    }

    /// Lets the callers of the answered batch run, so that they share the next batch with those
    /// already queued. Otherwise the first to return would be committed alone while the rest wait
    /// for its flush; or two halves would alternate indefinitely, each waiting for the other's.
    /// This waits for no time, only yields.
    async fn yield_to_callers(&self, calls: usize) {
        let queued = self.queue().len();
        if calls + queued == 1 {
            return;
        }
        for _ in 0..YIELDS {
            if self.queue().len() >= queued + calls {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Sends a batch to the server: the fast-path commits in one round trip, then the rest.
    async fn write(&self, connection: &LazyConnection, batch: Vec<Job>) {
        let session = match connection.session().await {
            Ok(session) => session,
            Err(error) => return fail(batch, &error),
        };
        let BatchPlan { appends, records, mut general } = BatchPlan::of(batch);
        let (to_append, to_write) = (commits(&appends), commits(&records));
        let (appended, written) = join(
            CommitPath::Append.try_fast(&session, &to_append),
            CommitPath::Records.try_fast(&session, &to_write),
        )
        .await;
        for (fast, verdicts) in [(appends, appended), (records, written)] {
            match verdicts {
                Ok(verdicts) => self.answer_fast(fast, verdicts, &mut general),
                Err(error) => fail(fast, &connection.connector().at(error)),
            }
        }
        if general.is_empty() {
            return;
        }
        match general::commit(&session, &commits(&general)).await {
            Ok(verdicts) => general
                .into_iter()
                .zip(verdicts)
                .for_each(|(job, verdict)| self.answer(job, verdict)),
            Err(error) => fail(general, &connection.connector().at(error)),
        }
    }

    /// Answers what was judged on a fast path, and leaves the rest to the general path.
    fn answer_fast(&self, fast: Vec<Job>, verdicts: FastVerdicts, general: &mut Vec<Job>) {
        for (job, verdict) in fast.into_iter().zip(verdicts) {
            match verdict {
                Some(verdict) => self.answer(job, verdict),
                None => general.push(job),
            }
        }
    }

    fn answer(&self, job: Job, verdict: Verdict) {
        // The caller may be gone.
        let _ = job.reply.send(self.notify(verdict));
    }

    /// Notifies the waiters of what was written.
    fn notify(&self, verdict: Verdict) -> Result<CommitOutcome> {
        self.wakes.written(verdict.topics);
        verdict.outcome
    }
}

fn commits(jobs: &[Job]) -> Vec<&Commit> {
    jobs.iter().map(|job| &job.commit).collect()
}

/// Answers every caller of the batch with the error.
fn fail(batch: Vec<Job>, error: &StoreError) {
    let calls = batch.len();
    if error.advice() != RetryAdvice::Never {
        tracing::warn!(%error, calls, "a batch of commits failed");
    }
    for job in batch {
        let error = error.clone();
        let error = if calls == 1 {
            error
        } else {
            error.about(format_args!("a batch of {calls} commits"))
        };
        let _ = job.reply.send(Err(error.during(StoreOperation::Commit)));
    }
}

/// The task that served the commit ended in the middle of it: a panic, or the end of the runtime.
fn cut_off() -> StoreError {
    let context = "the task that made the commit was cut off in the middle of it";
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Unknown,
        StoreOperation::Commit,
        context,
    )
}

/// A panic fails the batch in which it happened, and none that comes later.
async fn keep_serving(shared: Arc<Shared>, by: fn(&Shared) -> &CommitLane) {
    while tokio::spawn(serve(shared.clone(), by)).await.is_err_and(|ended| ended.is_panic()) {
        // A transaction may be open on it.
        by(&shared).connection.drop_session();
    }
}

async fn serve(shared: Arc<Shared>, by: fn(&Shared) -> &CommitLane) {
    let lane = by(&shared);
    loop {
        let conn_lock = lane.conn_lock.lock().await;
        let next = shared.queue().next(lane.least);
        match next {
            Next::Batch(batch) => {
                let calls = batch.len();
                let busy = lane.begin();
                shared.write(&lane.connection, batch).await;
                drop(busy);
                shared.yield_to_callers(calls).await;
            }
            Next::Wait => {
                drop(conn_lock);
                lane.work.notified().await;
            }
            Next::End => return,
        }
    }
}
