//! How callers get to write: together, or at once.
//!
//! Calls are queued to one thread, which takes whatever is queued into one transaction, so that all
//! of them share one flush of the log (group commit). A caller that is alone need not wait for a
//! thread to wake up: it takes the pen itself, as long as the disk has been quick and no other
//! process is writing.
//!
//! A caller that went away before its turn costs nothing; one that goes away later finds its commit
//! whole or not at all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use tidelock_store::plan::YieldOnce;
use tidelock_store::{Result, StoreError, StoreOperation};
use tokio::sync::oneshot;

use crate::commit::Transaction;
use crate::error::closed;
use crate::job::{Job, job};
use crate::write_connection::WriteConnection;

/// How many calls share a transaction at most.
const GROUP: usize = 512;
/// Between which bounds the interval of sweeping lies, whatever is asked for.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// What the writing thread is told.
enum Message {
    /// Something to write.
    Write(Box<dyn Job>),
    /// Look whether another process has written, and say so to those who wait.
    Look,
    /// Move the rest of the log into the file.
    Checkpoint,
    /// End, and answer when the file is let go.
    Close(oneshot::Sender<Result<()>>),
}

/// The way to write.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<Message>,
    desk: Arc<WriteSlot>,
}

/// Where the pen lies.
struct WriteSlot {
    /// None once the store was closed.
    pen: Mutex<Option<WriteConnection>>,
    /// Whoever comes may take the pen: the last one was alone, and quick.
    calm: AtomicBool,
    /// Whether callers may ever write themselves.
    callers_may_write: bool,
}

impl std::fmt::Debug for WriteSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("calm", &self.calm).finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts the thread; it ends when the last handle is gone, or when it is closed.
    pub(crate) fn start(
        pen: WriteConnection,
        callers_may_write: bool,
        sweep_interval: Duration,
    ) -> Result<Self> {
        let (queue, messages) = crossbeam_channel::unbounded();
        let desk = Arc::new(WriteSlot {
            pen: Mutex::new(Some(pen)),
            calm: AtomicBool::new(false),
            callers_may_write,
        });
        let sweep_interval = sweep_interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        let thread = WriterThread { desk: desk.clone(), sweep_interval };
        thread::Builder::new()
            .name("tidelock-write".into())
            .spawn(move || thread.serve(&messages))
            .map_err(|e| {
                StoreError::invalid("a thread for writing cannot be started").caused_by(e)
            })?;
        Ok(Self { queue, desk })
    }

    /// Writes, together with whoever else is writing now.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        operation: StoreOperation,
        act: impl FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = job(act);
        match self.write_here(job) {
            // Others have waited meanwhile.
            None => YieldOnce::default().await,
            Some(job) => self.send(Message::Write(job)).ok_or_else(|| closed(operation))?,
        }
        answer.await.map_err(|_| closed(operation))?.map_err(|e| e.during(operation))
    }

    /// Does the job on the caller's thread; gives it back if that might take long.
    fn write_here(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        if !self.desk.calm.load(Ordering::Relaxed) || !self.queue.is_empty() {
            return Some(job);
        }
        let mut pen = match self.desk.pen.try_lock() {
            Ok(pen) => pen,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Some(job),
        };
        let Some(pen) = pen.as_mut() else { return Some(job) };
        if !pen.begin_at_once() {
            return Some(job);
        }
        pen.write(vec![job]);
        self.desk.note(pen);
        if pen.wants_checkpoint() {
            self.send(Message::Checkpoint);
        }
        None
    }

    /// Has the thread look for other processes' writes.
    pub(crate) fn look(&self) {
        // If the thread has ended there is nobody left to tell.
        self.send(Message::Look);
    }

    /// Ends the thread once everything queued before is written.
    pub(crate) async fn close(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        match self.send(Message::Close(reply)) {
            Some(()) => answer.await.unwrap_or(Ok(())),
            None => Ok(()),
        }
    }

    fn send(&self, message: Message) -> Option<()> {
        self.queue.send(message).ok()
    }
}

/// The thread that writes for all who are not alone.
struct WriterThread {
    desk: Arc<WriteSlot>,
    sweep_interval: Duration,
}

/// What the queue held.
#[derive(Default)]
struct Batch {
    group: Vec<Box<dyn Job>>,
    look: bool,
    checkpoint: bool,
    closing: Option<oneshot::Sender<Result<()>>>,
}

impl WriterThread {
    fn serve(self, messages: &Receiver<Message>) {
        let mut closing = None;
        let mut sweep_at = Instant::now() + self.sweep_interval;
        while closing.is_none() {
            let first = match messages.recv_deadline(sweep_at) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut pen = self.desk.lock();
            let Some(pen) = pen.as_mut() else { break };
            if matches!(first, Some(Message::Write(_))) {
                wait_for_company(pen, messages);
            }
            let round = Batch::take(first, messages);
            if round.look {
                pen.look();
            }
            if !round.group.is_empty() {
                // This sweeps too.
                self.write(pen, round.group);
                sweep_at = self.next_sweep(pen);
            } else if Instant::now() >= sweep_at {
                pen.keep_house_alone();
                sweep_at = self.next_sweep(pen);
            }
            if round.checkpoint || pen.wants_checkpoint() {
                pen.checkpoint();
            }
            closing = round.closing;
        }
        let closed = self.desk.lock().take().map_or(Ok(()), WriteConnection::close);
        if let Some(reply) = closing {
            let _ = reply.send(closed);
        }
    }

    /// When to sweep, if nothing is to be written until then.
    fn next_sweep(&self, pen: &WriteConnection) -> Instant {
        Instant::now() + if pen.has_more_to_sweep() { Duration::ZERO } else { self.sweep_interval }
    }

    fn write(&self, pen: &mut WriteConnection, group: Vec<Box<dyn Job>>) {
        match pen.begin() {
            Ok(()) => pen.write(group),
            Err(failure) => pen.answer(group, Some(failure)),
        }
        self.desk.note(pen);
    }
}

/// Gives the callers of the last group the time to come back, so that they share the next one too.
///
/// Without this, the first to come back would be written alone while the rest queue up behind its
/// flush. Nobody waits longer than a fraction of what a group takes.
fn wait_for_company(pen: &WriteConnection, messages: &Receiver<Message>) {
    let Some((calls, patience)) = pen.pace.company() else { return };
    let started = Instant::now();
    while messages.len() + 1 < calls && started.elapsed() < patience {
        thread::yield_now();
    }
}

impl Batch {
    fn take(first: Option<Message>, messages: &Receiver<Message>) -> Self {
        let mut round = Self::default();
        for message in first.into_iter().chain(messages.try_iter().take(GROUP - 1)) {
            match message {
                Message::Write(job) if !job.is_abandoned() => round.group.push(job),
                Message::Write(_) => {}
                Message::Look => round.look = true,
                Message::Checkpoint => round.checkpoint = true,
                Message::Close(reply) => {
                    round.closing = Some(reply);
                    break;
                }
            }
        }
        round
    }
}

impl WriteSlot {
    fn note(&self, pen: &WriteConnection) {
        self.calm.store(self.callers_may_write && pen.pace.is_calm(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<WriteConnection>> {
        // Whoever panicked with the pen in hand left a transaction open; the next one undoes it.
        self.pen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
