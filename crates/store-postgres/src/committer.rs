//! Commits from many callers travel together.
//!
//! Whoever commits while others do joins a queue; when the way is free, what is queued goes to the server as one batch.
//! Whoever commits while nobody else does goes at once and waits for nobody. No batch is ever held back for a time to make it
//! larger; but those who were just answered have their turn to come back before the next one goes.
//!
//! There are two ways to the server, each a connection. The second is taken only when there is a good load left over: then
//! one batch is packed and unpacked while the other is being written. Smaller loads gain more from travelling together.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// How much travels together, unless a single commit is more: in events, or parts of commits that are none.
const LOAD: usize = 160;

/// How much must be left over for the second way to be taken.
const SECOND_LOAD: usize = 48;

/// How many bytes of JSON travel together, unless a single commit has more.
const BATCH_BYTES: usize = 4 << 20;

/// How often other tasks have their turn before the next batch is taken, so that the last one's callers can join it.
const TURNS: usize = 10;

/// The queue and those who serve it.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    first: Way,
    second: Way,
    wakes: Wakes,
    queue: Mutex<Queue>,
    closed: AtomicBool,
    /// How many commits have been asked for and not answered.
    waiting: AtomicUsize,
}

/// A way to the server.
#[derive(Debug)]
struct Way {
    link: Link,
    /// Wakes the task that serves the queue by this way.
    work: Notify,
    /// Held by whoever uses the connection: the task, or a caller who is alone.
    desk: tokio::sync::Mutex<()>,
    /// How much must be queued for this way to be taken.
    least: usize,
}

impl Way {
    fn new(link: Link, least: usize) -> Self {
        Self { link, work: Notify::new(), desk: tokio::sync::Mutex::default(), least }
    }
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Of all jobs together.
    load: usize,
}

/// A commit that waits its turn.
#[derive(Debug)]
struct Job {
    commit: Commit,
    bytes: usize,
    load: usize,
    reply: oneshot::Sender<Result<CommitOutcome>>,
}

impl Job {
    fn new(commit: Commit, reply: oneshot::Sender<Result<CommitOutcome>>) -> Self {
        let events: usize = commit.appends.iter().map(|append| append.events.len()).sum();
        Self { bytes: commit.bytes(), load: events.max(commit.parts()), commit, reply }
    }
}

impl Committer {
    /// Starts the tasks that serve the queue; they end when the committer is closed or dropped.
    pub(crate) fn start(first: Link, second: Link, wakes: Wakes) -> Self {
        let shared = Arc::new(Shared {
            first: Way::new(first, 1),
            second: Way::new(second, SECOND_LOAD),
            wakes,
            queue: Mutex::default(),
            closed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        });
        let by_first = tokio::spawn(serve(shared.clone(), |shared| &shared.first));
        let by_second = tokio::spawn(serve(shared.clone(), |shared| &shared.second));
        Self { shared, tasks: Mutex::new(vec![by_first, by_second]) }
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let _waiting = Waiting::new(&self.shared.waiting);
        if let Some(outcome) = self.shared.commit_alone(&commit).await {
            return outcome;
        }
        let (reply, answer) = oneshot::channel();
        self.shared.push(Job::new(commit, reply))?;
        answer.await.map_err(|_| closed(Operation::Commit))?
    }

    /// How many commits have been asked for and not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Takes nothing more, and waits until what is queued has gone through.
    pub(crate) async fn close(&self) {
        self.shared.close();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // If it panicked, its callers know.
            let _ = task.await;
        }
        self.shared.first.link.drop_session();
        self.shared.second.link.drop_session();
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
        self.first.work.notify_one();
        self.second.work.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(closed(Operation::Commit));
        }
        let load = self.queue().push(job);
        self.first.work.notify_one();
        if load >= self.second.least {
            self.second.work.notify_one();
        }
        Ok(())
    }

    /// Makes a plain append for a caller who is alone, in its own task: every hop to another costs a good part of the
    /// time that the commit takes. Nothing if the caller has to queue. It is one statement, so a caller that is dropped in
    /// the middle leaves nothing open.
    async fn commit_alone(&self, commit: &Commit) -> Option<Result<CommitOutcome>> {
        let append = append::only_append(commit)?;
        let link = &self.first.link;
        let _desk = self.first.desk.try_lock().ok()?;
        if self.closed.load(Ordering::SeqCst) || !self.queue().jobs.is_empty() {
            return None;
        }
        let appended = match link.session().await {
            Ok(session) => append::append(&session, append).await.map_err(|e| link.place().at(e)),
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
            if calls == 1 || self.queue().jobs.len() >= calls {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Takes what is queued to the server: plain appends the short way, then what is left the long way.
    async fn write(&self, link: &Link, batch: Vec<Job>) {
        let session = match link.session().await {
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
            Err(error) => fail(short, &link.place().at(error)),
        }
        if long.is_empty() {
            return;
        }
        let commits: Vec<&Commit> = long.iter().map(|job| &job.commit).collect();
        match commit::commit(&session, &commits).await {
            Ok(judged) => long.into_iter().zip(judged).for_each(|(job, judged)| self.answer(job, judged)),
            Err(error) => fail(long, &link.place().at(error)),
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

impl Queue {
    /// Gives how much is queued now.
    fn push(&mut self, job: Job) -> usize {
        self.load += job.load;
        self.jobs.push_back(job);
        self.load
    }

    fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.load -= job.load;
        Some(job)
    }

    /// Takes what may travel together, if it is enough. Nobody waits for an answer to what was abandoned, so that stays
    /// behind.
    fn take(&mut self, least: usize) -> Vec<Job> {
        let (mut batch, mut bytes, mut load) = (Vec::new(), 0, 0);
        if self.load < least {
            return batch;
        }
        while let Some(job) = self.jobs.front() {
            // A trim lets event ids be used again, which the others of its batch could not know.
            let alone = !job.commit.trims.is_empty();
            let full =
                batch.len() == BATCH || bytes + job.bytes > BATCH_BYTES || load + job.load > LOAD || alone;
            if full && !batch.is_empty() {
                break;
            }
            let Some(job) = self.pop() else { break };
            if job.reply.is_closed() {
                continue;
            }
            bytes += job.bytes;
            load += job.load;
            batch.push(job);
            if alone {
                break;
            }
        }
        batch
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

async fn serve(shared: Arc<Shared>, by: fn(&Shared) -> &Way) {
    let way = by(&shared);
    loop {
        let desk = way.desk.lock().await;
        let batch = shared.queue().take(way.least);
        if !batch.is_empty() {
            let calls = batch.len();
            shared.write(&way.link, batch).await;
            shared.let_callers_come_back(calls).await;
            continue;
        }
        drop(desk);
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        way.work.notified().await;
    }
}
