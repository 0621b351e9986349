//! Group commit: concurrent writes share one transaction and one flush of the log.
//!
//! Calls are queued to one thread, which takes everything queued into one transaction. A single
//! caller does not wait for a thread to wake up: it uses the write connection on its own thread, as
//! long as the disk is fast and no other process is writing.
//!
//! A call that is dropped before its turn costs nothing; one that is dropped later is committed
//! completely or not at all.

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

/// The most calls per transaction.
const GROUP: usize = 512;
/// The bounds of the sweep interval.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// A message to the writer thread.
enum Message {
    /// A write.
    Write(Box<dyn Job>),
    /// Check whether another process has written, and notify the waiters.
    Look,
    /// Move the rest of the log into the file.
    Checkpoint,
    /// End, and answer when the file is closed.
    Close(oneshot::Sender<Result<()>>),
}

/// The handle to the writer.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<Message>,
    slot: Arc<WriteSlot>,
}

/// The write connection, shared by the thread and callers that write by themselves.
struct WriteSlot {
    /// None once the store is closed.
    connection: Mutex<Option<WriteConnection>>,
    /// Callers may write by themselves: the last call was alone and fast.
    uncontended: AtomicBool,
    /// Whether callers may ever write by themselves.
    callers_may_write: bool,
}

impl std::fmt::Debug for WriteSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteSlot").field("uncontended", &self.uncontended).finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts the thread; it ends with the last handle, or when it is closed.
    pub(crate) fn start(
        connection: WriteConnection,
        callers_may_write: bool,
        sweep_interval: Duration,
    ) -> Result<Self> {
        let (queue, messages) = crossbeam_channel::unbounded();
        let slot = Arc::new(WriteSlot {
            connection: Mutex::new(Some(connection)),
            uncontended: AtomicBool::new(false),
            callers_may_write,
        });
        let sweep_interval = sweep_interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        let thread = WriterThread { slot: slot.clone(), sweep_interval };
        thread::Builder::new()
            .name("tidelock-write".into())
            .spawn(move || thread.serve(&messages))
            .map_err(|e| {
                StoreError::invalid("a thread for writing cannot be started").caused_by(e)
            })?;
        Ok(Self { queue, slot })
    }

    /// Writes, together with concurrent callers.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        operation: StoreOperation,
        act: impl FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = job(act);
        match self.write_here(job) {
            // Other tasks have waited in the meantime.
            None => YieldOnce::default().await,
            Some(job) => self.send(Message::Write(job)).ok_or_else(|| closed(operation))?,
        }
        answer.await.map_err(|_| closed(operation))?.map_err(|e| e.during(operation))
    }

    /// Runs the job on the caller's thread; gives it back if that might take long.
    fn write_here(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        if !self.slot.uncontended.load(Ordering::Relaxed) || !self.queue.is_empty() {
            return Some(job);
        }
        let mut connection = match self.slot.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Some(job),
        };
        let Some(connection) = connection.as_mut() else { return Some(job) };
        if !connection.begin_at_once() {
            return Some(job);
        }
        connection.write(vec![job]);
        self.slot.note(connection);
        if connection.wants_checkpoint() {
            self.send(Message::Checkpoint);
        }
        None
    }

    /// Makes the thread check for other processes' writes.
    pub(crate) fn look(&self) {
        // If the thread has ended there is no receiver.
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

/// The thread that writes for concurrent callers.
struct WriterThread {
    slot: Arc<WriteSlot>,
    sweep_interval: Duration,
}

/// The messages taken from the queue at once.
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
            let mut connection = self.slot.lock();
            let Some(connection) = connection.as_mut() else { break };
            if matches!(first, Some(Message::Write(_))) {
                gather(connection, messages);
            }
            let batch = Batch::take(first, messages);
            if batch.look {
                connection.look();
            }
            if !batch.group.is_empty() {
                // Writing sweeps too.
                self.write(connection, batch.group);
                sweep_at = self.next_sweep(connection);
            } else if Instant::now() >= sweep_at {
                connection.maintain_while_idle();
                sweep_at = self.next_sweep(connection);
            }
            if batch.checkpoint || connection.wants_checkpoint() {
                connection.checkpoint();
            }
            closing = batch.closing;
        }
        let closed = self.slot.lock().take().map_or(Ok(()), WriteConnection::close);
        if let Some(reply) = closing {
            let _ = reply.send(closed);
        }
    }

    /// When to sweep, if nothing is written before.
    fn next_sweep(&self, connection: &WriteConnection) -> Instant {
        Instant::now()
            + if connection.has_more_to_sweep() { Duration::ZERO } else { self.sweep_interval }
    }

    fn write(&self, connection: &mut WriteConnection, group: Vec<Box<dyn Job>>) {
        match connection.begin() {
            Ok(()) => connection.write(group),
            Err(failure) => connection.answer(group, Some(failure)),
        }
        self.slot.note(connection);
    }
}

/// Gives the callers of the last group time to return, so that they share the next one too.
///
/// Without this, the first to return would be written alone while the rest queue up behind its
/// flush. No call waits longer than a fraction of the time that a group takes.
fn gather(connection: &WriteConnection, messages: &Receiver<Message>) {
    let Some((calls, patience)) = connection.stats.gather() else { return };
    let started = Instant::now();
    while messages.len() + 1 < calls && started.elapsed() < patience {
        thread::yield_now();
    }
}

impl Batch {
    fn take(first: Option<Message>, messages: &Receiver<Message>) -> Self {
        let mut batch = Self::default();
        for message in first.into_iter().chain(messages.try_iter().take(GROUP - 1)) {
            match message {
                Message::Write(job) if !job.is_abandoned() => batch.group.push(job),
                Message::Write(_) => {}
                Message::Look => batch.look = true,
                Message::Checkpoint => batch.checkpoint = true,
                Message::Close(reply) => {
                    batch.closing = Some(reply);
                    break;
                }
            }
        }
        batch
    }
}

impl WriteSlot {
    fn note(&self, connection: &WriteConnection) {
        self.uncontended
            .store(self.callers_may_write && connection.stats.is_uncontended(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<WriteConnection>> {
        // A panic during a write left a transaction open; the next write rolls it back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
