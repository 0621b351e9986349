//! Commits from many callers travel together.
//!
//! Whoever commits while others do joins a queue; when the way is free, all that is queued goes to the server as one
//! batch. Whoever commits while nobody else does goes at once and waits for nobody. No batch is ever held back for a time to
//! make it larger; but those who were just answered have their turn to come back before the next one goes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_store::{Advice, Append, Commit, CommitOutcome, Operation, Result, StoreError};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::append;
use crate::commit::{self, Judged};
use crate::error::closed;
use crate::link::Link;
use crate::session::Session;
use crate::wake::Wakes;

/// How many commits travel together at most.
const BATCH: usize = 256;

/// How many bytes of JSON travel together, unless a single commit has more.
const BATCH_BYTES: usize = 4 << 20;

/// How often other tasks have their turn before the next batch is taken, so that the last one's callers can join it.
const TURNS: usize = 10;

/// The queue and those who serve it.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    link: Link,
    wakes: Wakes,
    queue: Mutex<VecDeque<Job>>,
    /// Wakes the task that serves the queue.
    work: Notify,
    /// Held by whoever uses the connection: the task, or a caller who is alone.
    desk: tokio::sync::Mutex<()>,
    closed: AtomicBool,
    /// How many commits have been asked for and not answered.
    waiting: AtomicUsize,
}

/// A commit that waits its turn.
#[derive(Debug)]
struct Job {
    commit: Commit,
    bytes: usize,
    reply: oneshot::Sender<Result<CommitOutcome>>,
}

impl Committer {
    /// Starts the task that serves the queue; it ends when the committer is closed or dropped.
    pub(crate) fn start(link: Link, wakes: Wakes) -> Self {
        let shared = Arc::new(Shared {
            link,
            wakes,
            queue: Mutex::default(),
            work: Notify::new(),
            desk: tokio::sync::Mutex::default(),
            closed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        });
        let task = tokio::spawn(serve(shared.clone()));
        Self { shared, task: Mutex::new(Some(task)) }
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let _waiting = Waiting::new(&self.shared.waiting);
        if let Some(outcome) = self.shared.commit_alone(&commit).await {
            return outcome;
        }
        let (reply, answer) = oneshot::channel();
        self.shared.push(Job { bytes: commit.bytes(), commit, reply })?;
        answer.await.map_err(|_| closed(Operation::Commit))?
    }

    /// How many commits have been asked for and not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Takes nothing more, and waits until what is queued has gone through.
    pub(crate) async fn close(&self) {
        self.shared.close();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // If it panicked, its callers know.
            let _ = task.await;
        }
        self.shared.link.drop_session();
    }
}

/// One more who waits, until it is dropped.
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
        self.closed.store(true, Ordering::SeqCst);
        self.work.notify_one();
    }

    fn push(&self, job: Job) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(closed(Operation::Commit));
        }
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.work.notify_one();
        Ok(())
    }

    /// Takes what may travel together. Nobody waits for an answer to what was abandoned, so that stays behind.
    fn take(&self) -> Vec<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(job) = queue.front() {
            // A trim lets event ids be used again, which the others of its batch could not know.
            let alone = !job.commit.trims.is_empty();
            let full = batch.len() == BATCH || bytes + job.bytes > BATCH_BYTES || alone;
            if full && !batch.is_empty() {
                break;
            }
            let Some(job) = queue.pop_front() else { break };
            if job.reply.is_closed() {
                continue;
            }
            bytes += job.bytes;
            batch.push(job);
            if alone {
                break;
            }
        }
        batch
    }

    /// Makes a plain append for a caller who is alone, in its own task: every hop to another costs a good part of the
    /// time that the commit takes. Nothing if the caller has to queue. It is one statement, so a caller that is dropped in
    /// the middle leaves nothing open.
    async fn commit_alone(&self, commit: &Commit) -> Option<Result<CommitOutcome>> {
        let append = append::only_append(commit)?;
        let _desk = self.desk.try_lock().ok()?;
        if self.closed.load(Ordering::SeqCst) || !self.is_idle() {
            return None;
        }
        let appended = match self.link.session().await {
            Ok(session) => append::append(&session, append).await.map_err(|e| self.link.place().at(e)),
            Err(error) => Err(error),
        };
        match appended {
            Ok(judged) => judged.map(|judged| self.tell(judged)),
            Err(error) => Some(Err(error)),
        }
    }

    /// Lets the callers of a batch that has just been answered have their turn, so that they share the next one too.
    /// Otherwise the first to come back would travel alone, and the rest wait for its flush. No time passes on purpose.
    async fn let_callers_come_back(&self, calls: usize) {
        for _ in 0..TURNS {
            if calls == 1 || self.queue.lock().unwrap_or_else(PoisonError::into_inner).len() >= calls {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes what is queued to the server: plain appends the short way, then what is left the long way.
    async fn write(&self, batch: Vec<Job>) {
        let session = match self.link.session().await {
            Ok(session) => session,
            Err(error) => return fail(batch, &error),
        };
        let (short, mut long) = sort(batch);
        match append_all(&session, &short).await {
            Ok(judged) => {
                for (job, judged) in short.into_iter().zip(judged) {
                    match judged {
                        Some(judged) => self.answer(job, judged),
                        None => long.push(job),
                    }
                }
            }
            Err(error) => fail(short, &self.link.place().at(error)),
        }
        if long.is_empty() {
            return;
        }
        let commits: Vec<&Commit> = long.iter().map(|job| &job.commit).collect();
        match commit::commit(&session, &commits).await {
            Ok(judged) => long.into_iter().zip(judged).for_each(|(job, judged)| self.answer(job, judged)),
            Err(error) => fail(long, &self.link.place().at(error)),
        }
    }

    fn answer(&self, job: Job, judged: Judged) {
        // A caller that does not wait any more need not be told.
        let _ = job.reply.send(self.tell(judged));
    }

    /// Tells those who wait for what was written.
    fn tell(&self, judged: Judged) -> Result<CommitOutcome> {
        self.wakes.written(judged.topics);
        judged.outcome
    }
}

/// Parts those that can go the short way, together, from the rest.
fn sort(batch: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    let commits: Vec<&Commit> = batch.iter().map(|job| &job.commit).collect();
    let mut fits = append::can_go_together(&commits).into_iter();
    batch.into_iter().partition(|_| fits.next().unwrap_or(false))
}

async fn append_all(session: &Session, jobs: &[Job]) -> Result<Vec<Option<Judged>>> {
    let appends: Vec<&Append> = jobs.iter().filter_map(|job| append::only_append(&job.commit)).collect();
    match appends[..] {
        [] => Ok(Vec::new()),
        [one] => Ok(vec![append::append(session, one).await?]),
        _ => append::append_together(session, &appends).await,
    }
}

/// Tells every caller of the batch what became of it.
fn fail(batch: Vec<Job>, error: &StoreError) {
    let calls = batch.len();
    if error.advice() != Advice::Never {
        tracing::warn!(%error, calls, "a batch of commits failed");
    }
    for job in batch {
        let error = error.clone();
        let error = if calls == 1 { error } else { error.about(format_args!("a batch of {calls} commits")) };
        let _ = job.reply.send(Err(error.during(Operation::Commit)));
    }
}

async fn serve(shared: Arc<Shared>) {
    loop {
        let desk = shared.desk.lock().await;
        let batch = shared.take();
        if !batch.is_empty() {
            let calls = batch.len();
            shared.write(batch).await;
            shared.let_callers_come_back(calls).await;
            continue;
        }
        drop(desk);
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        shared.work.notified().await;
    }
}
