//! Commits from many callers travel together.
//!
//! Whoever commits while others do joins a queue; when the way is free, what is queued goes to the
//! server as one batch. Whoever commits while nobody else does goes at once and waits for nobody.
//! No batch is ever held back for a time to make it larger; but those who were just answered have
//! their turn to come back before the next one goes.
//!
//! There are two ways to the server, each a connection. The second is taken only when there is a
//! good load left over: then one batch is packed and unpacked while the other is being written.
//! Smaller loads gain more from travelling together.

mod queue;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join;
use tidelock_store::{
    Commit, CommitOutcome, Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation,
};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::append;
use crate::commit::{self, Judged};
use crate::error::closed;
use crate::lazy_connection::LazyConnection;
use crate::session::Session;
use crate::wake::Wakes;
use crate::write;
use queue::{Job, Next, Queue};

/// How much must be left over for the second way to be taken.
const SECOND_LOAD: usize = 48;

/// Those who could go the short way go with the rest if there are fewer of them than one in so
/// many.
const FEW: usize = 8;

/// How often other tasks have their turn before the next batch is taken, so that the last one's
/// callers can join it.
const TURNS: usize = 10;

/// The queue and those who serve it.
#[derive(Debug)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
    /// Those that have not ended yet.
    tasks: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    first: CommitLane,
    second: CommitLane,
    wakes: Wakes,
    queue: Mutex<Queue>,
    /// How many commits have been asked for and not answered.
    waiting: AtomicUsize,
}

/// A way to the server.
#[derive(Debug)]
struct CommitLane {
    link: LazyConnection,
    /// Wakes the task that serves the queue by this way.
    work: Notify,
    /// Held by whoever uses the connection: the task, or a caller who is alone.
    desk: tokio::sync::Mutex<()>,
    /// How much must be queued for this way to be taken.
    least: usize,
    /// Since when something has been under way on it.
    busy: Mutex<Option<Instant>>,
}

/// Something is under way, until this is dropped.
struct Busy<'a>(&'a CommitLane);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *self.0.busy.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl CommitLane {
    fn new(link: LazyConnection, least: usize) -> Self {
        Self {
            link,
            work: Notify::new(),
            desk: tokio::sync::Mutex::default(),
            least,
            busy: Mutex::default(),
        }
    }

    /// To be called by whoever has the desk.
    fn begin(&self) -> Busy<'_> {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Busy(self)
    }

    fn busy_for(&self) -> Duration {
        let since = *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Makes one commit; nothing if it must go the long way.
    async fn make(&self, short: FastPath<'_>, commit: &Commit) -> Result<Option<Judged>> {
        let session = self.link.session().await?;
        let made = match short {
            FastPath::Append(append) => append::append(&session, append).await,
            FastPath::Writes => {
                write::write_together(&session, &[commit]).await.map(|mut one| one.pop().flatten())
            }
        };
        made.map_err(|e| self.link.place().at(e))
    }
}

/// What became of a commit whose caller may be alone.
enum Inline {
    /// It has its answer.
    Done(Result<CommitOutcome>),
    /// It must go the long way.
    Refused,
    /// It has to queue.
    Not,
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
        let refused = match self.shared.commit_alone(&commit).await {
            Inline::Done(outcome) => return outcome,
            Inline::Refused => true,
            Inline::Not => false,
        };
        let (reply, answer) = oneshot::channel();
        self.shared.push(Job::new(commit, refused, reply))?;
        answer.await.map_err(|_| cut_off())?
    }

    /// How many commits have been asked for and not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// For how long the commits that are under way have been.
    pub(crate) fn busy_for(&self) -> Duration {
        self.shared.first.busy_for().max(self.shared.second.busy_for())
    }

    /// Takes nothing more, and waits until what is queued has gone through.
    pub(crate) async fn close(&self) {
        self.shared.close();
        let mut tasks = self.tasks.lock().await;
        // One leaves the list when it has ended: whoever closes at the same time, or after one who
        // gave up, waits for the rest.
        while let Some(task) = tasks.last_mut() {
            // It can only have been cut off, and its callers know.
            let _ = task.await;
            tasks.pop();
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

    /// Makes a commit that can go the short way for a caller who is alone, in its own task: every
    /// hop to another costs a good part of the time that the commit takes. It is one statement, so
    /// a caller that is dropped in the middle leaves nothing open.
    async fn commit_alone(&self, commit: &Commit) -> Inline {
        let Some(short) = FastPath::of(commit) else { return Inline::Not };
        let Ok(_desk) = self.first.desk.try_lock() else { return Inline::Not };
        // Behind what was given up, everybody had better wait where those who give up leave nothing
        // behind.
        if !self.queue().is_free() || self.first.link.is_behind() {
            return Inline::Not;
        }
        let _busy = self.first.begin();
        // In a box, because those who find somebody else there would carry room for it to no
        // purpose.
        match Box::pin(self.first.make(short, commit)).await {
            Ok(Some(judged)) => Inline::Done(self.tell(judged)),
            Ok(None) => Inline::Refused,
            Err(error) => Inline::Done(Err(error)),
        }
    }

    /// Lets the callers of a batch that has just been answered have their turn, so that they share
    /// the next one too, with those who queue already. Otherwise the first to come back would
    /// travel alone, and the rest wait for its flush; or two halves would take turns for ever, each
    /// waiting for the other's. No time passes on purpose.
    async fn let_callers_come_back(&self, calls: usize) {
        let queued = self.queue().len();
        if calls + queued == 1 {
            return;
        }
        for _ in 0..TURNS {
            if self.queue().len() >= queued + calls {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Takes what is queued to the server: what can go the short way in one trip, then what is
    /// left.
    async fn write(&self, link: &LazyConnection, batch: Vec<Job>) {
        let session = match link.session().await {
            Ok(session) => session,
            Err(error) => return fail(batch, &error),
        };
        let Sorted { appends, writes, mut long } = Sorted::of(batch);
        let (appended, written) =
            join(append_all(&session, &appends), write_all(&session, &writes)).await;
        for (short, judged) in [(appends, appended), (writes, written)] {
            match judged {
                Ok(judged) => self.answer_short(short, judged, &mut long),
                Err(error) => fail(short, &link.place().at(error)),
            }
        }
        if long.is_empty() {
            return;
        }
        let commits: Vec<&Commit> = long.iter().map(|job| &job.commit).collect();
        match commit::commit(&session, &commits).await {
            Ok(judged) => {
                long.into_iter().zip(judged).for_each(|(job, judged)| self.answer(job, judged));
            }
            Err(error) => fail(long, &link.place().at(error)),
        }
    }

    /// Answers what was judged on the short way, and leaves the rest to the long one.
    fn answer_short(&self, short: Vec<Job>, judged: Vec<Option<Judged>>, long: &mut Vec<Job>) {
        for (job, judged) in short.into_iter().zip(judged) {
            match judged {
                Some(judged) => self.answer(job, judged),
                None => long.push(job),
            }
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

/// How a commit can go the short way.
enum FastPath<'a> {
    Append(append::Plain<'a>),
    Writes,
}

impl<'a> FastPath<'a> {
    fn of(commit: &'a Commit) -> Option<Self> {
        match append::only_append(commit) {
            Some(append) => Some(Self::Append(append)),
            None => write::only_writes(commit).then_some(Self::Writes),
        }
    }
}

/// A batch, by the ways that its commits can go. Those that go together name different rows.
#[derive(Default)]
struct Sorted {
    appends: Vec<Job>,
    writes: Vec<Job>,
    long: Vec<Job>,
}

impl Sorted {
    fn of(batch: Vec<Job>) -> Self {
        let commits: Vec<&Commit> = batch.iter().map(|job| &job.commit).collect();
        let fits: Vec<(bool, bool)> = append::can_go_together(&commits)
            .into_iter()
            .zip(write::can_go_together(&commits))
            .collect();
        let mut sorted = Self::default();
        for (job, (appends, writes)) in batch.into_iter().zip(fits) {
            let way = match (job.refused, appends, writes) {
                (false, true, _) => &mut sorted.appends,
                (false, _, true) => &mut sorted.writes,
                _ => &mut sorted.long,
            };
            way.push(job);
        }
        sorted.stay_together();
        sorted
    }

    /// Where nearly all have to go the long way, a trip of their own for the few that need not is
    /// the longer one for everybody.
    fn stay_together(&mut self) {
        if (self.appends.len() + self.writes.len()) * FEW < self.long.len() {
            self.long.append(&mut self.appends);
            self.long.append(&mut self.writes);
        }
    }
}

async fn write_all(session: &Session, jobs: &[Job]) -> Result<Vec<Option<Judged>>> {
    let commits: Vec<&Commit> = jobs.iter().map(|job| &job.commit).collect();
    if commits.is_empty() { Ok(Vec::new()) } else { write::write_together(session, &commits).await }
}

async fn append_all(session: &Session, jobs: &[Job]) -> Result<Vec<Option<Judged>>> {
    let appends: Vec<append::Plain<'_>> =
        jobs.iter().filter_map(|job| append::only_append(&job.commit)).collect();
    match appends[..] {
        [] => Ok(Vec::new()),
        [one] => Ok(vec![append::append(session, one).await?]),
        _ => append::append_together(session, &appends).await,
    }
}

/// Tells every caller of the batch what became of it.
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

/// Whoever served the commit went away in the middle of it: a panic, or the end of the runtime.
fn cut_off() -> StoreError {
    let context = "the task that made the commit was cut off in the middle of it";
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Unknown,
        StoreOperation::Commit,
        context,
    )
}

/// A panic takes the batch with it in which it happened, and not all that come later.
async fn keep_serving(shared: Arc<Shared>, by: fn(&Shared) -> &CommitLane) {
    while tokio::spawn(serve(shared.clone(), by)).await.is_err_and(|ended| ended.is_panic()) {
        // A transaction may be open on it.
        by(&shared).link.drop_session();
    }
}

async fn serve(shared: Arc<Shared>, by: fn(&Shared) -> &CommitLane) {
    let way = by(&shared);
    loop {
        let desk = way.desk.lock().await;
        let next = shared.queue().next(way.least);
        match next {
            Next::Batch(batch) => {
                let calls = batch.len();
                let busy = way.begin();
                shared.write(&way.link, batch).await;
                drop(busy);
                shared.let_callers_come_back(calls).await;
            }
            Next::Wait => {
                drop(desk);
                way.work.notified().await;
            }
            Next::End => return,
        }
    }
}
