//! The one thread that writes.
//!
//! It takes whatever callers have queued into one transaction, so that they share one flush of the log (group
//! commit). Each call is judged on its own: a refusal concerns its caller only. A failure of the file undoes the whole
//! group, and each of its callers is told so. A caller that went away before its turn costs nothing; one that goes
//! away later finds its commit whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rusqlite::Connection;
use tidelock_store::{Operation, Result, Signals, StoreClock, StoreError, Timestamp, Topic};
use tokio::sync::oneshot;

use crate::checkpoint::Checkpoints;
use crate::commit::{Memo, Transaction};
use crate::error::{GroupFailure, closed, commit_failed, failed, spoils_the_group};
use crate::file::StoreFile;
use crate::pause::{Pause, is_busy};

/// How many calls share a transaction at most.
const GROUP: usize = 512;
/// What fraction of the time that the last group took may be spent on waiting for the next one to gather.
const PATIENCE: u32 = 4;
/// How often the clock is written down, for processes that come later, and the expired swept up.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// What the writing thread is told.
pub(crate) enum Message {
    /// Something to write.
    Write(Box<dyn Job>),
    /// Look whether another process has written, and say so to those who wait.
    Look,
    /// End, and answer when the file is let go.
    Close(oneshot::Sender<Result<()>>),
}

/// One caller's write, whatever it gives back.
pub(crate) trait Job: Send {
    /// Whether its caller has gone away.
    fn is_abandoned(&self) -> bool;
    /// Does it, and keeps the answer until the transaction is durable. An error here undoes the group.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<()>;
    /// Answers: with what it did, or with what happened to the group.
    fn finish(self: Box<Self>, failure: Option<&GroupFailure>);
}

struct Call<T, F> {
    act: Option<F>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Transaction<'_>) -> Result<T> + Send,
{
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Some(act) = self.act.take() else { return Ok(()) };
        match act(transaction) {
            Err(error) if spoils_the_group(&error) => Err(error),
            answer => {
                self.answer = Some(answer);
                Ok(())
            }
        }
    }

    fn finish(self: Box<Self>, failure: Option<&GroupFailure>) {
        let answer = match (failure, self.answer) {
            // What the caller did wrong is so whatever became of the others.
            (_, Some(Err(refusal))) => Err(refusal),
            (Some(failure), _) => Err(failure.to_error()),
            (None, Some(answer)) => answer,
            (None, None) => Err(closed(Operation::Commit)),
        };
        // A caller that does not wait any more need not be told.
        let _ = self.reply.send(answer);
    }
}

/// The way to the writing thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<Message>,
}

impl Writer {
    /// Starts the thread; it ends when the last handle is gone, or when it is closed.
    pub(crate) fn start(thread: WriterThread) -> Result<Self> {
        let (queue, messages) = crossbeam_channel::unbounded();
        thread::Builder::new()
            .name("tidelock-write".into())
            .spawn(move || thread.serve(&messages))
            .map_err(|e| StoreError::invalid("a thread for writing cannot be started").caused_by(e))?;
        Ok(Self { queue })
    }

    /// Writes, together with whoever else is writing now.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        operation: Operation,
        act: impl FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let call = Call { act: Some(act), answer: None, reply };
        self.queue.send(Message::Write(Box::new(call))).map_err(|_| closed(operation))?;
        answer.await.map_err(|_| closed(operation))?.map_err(|e| e.during(operation))
    }

    /// Has the thread look for other processes' writes.
    pub(crate) fn look(&self) {
        // If the thread has ended there is nobody left to tell.
        let _ = self.queue.send(Message::Look);
    }

    /// Ends the thread once everything queued before is written.
    pub(crate) async fn close(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        if self.queue.send(Message::Close(reply)).is_err() {
            return Ok(());
        }
        answer.await.unwrap_or(Ok(()))
    }
}

/// What the thread owns.
pub(crate) struct WriterThread {
    connection: Connection,
    file: Arc<StoreFile>,
    clock: Arc<StoreClock>,
    signals: Signals,
    checkpoints: Checkpoints,
    busy_timeout: Duration,
    memo: Memo,
    /// Changes when another connection has written; as of the last transaction.
    data_version: i64,
    /// The same, as of when others' writes were last signalled.
    signalled_version: i64,
    /// When the clock was last written down.
    kept_house: Option<Timestamp>,
    /// How long the log is, as of the last commit.
    log_pages: Arc<AtomicI32>,
    /// How many calls the last group had, and how long it took.
    last_group: (usize, Duration),
}

impl WriterThread {
    pub(crate) fn new(
        mut connection: Connection,
        file: Arc<StoreFile>,
        clock: Arc<StoreClock>,
        signals: Signals,
        checkpoints: Checkpoints,
        busy_timeout: Duration,
    ) -> Result<Self> {
        // This thread waits for the file in its own way.
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        let log_pages = Arc::new(AtomicI32::new(0));
        let pages = log_pages.clone();
        let note = move |_: &mut rusqlite::hooks::Wal, count| {
            pages.store(count, Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(note)).map_err(failed)?;
        let data_version = data_version(&connection)?;
        Ok(Self {
            connection,
            file,
            clock,
            signals,
            checkpoints,
            busy_timeout,
            memo: Memo::default(),
            data_version,
            signalled_version: data_version,
            kept_house: None,
            log_pages,
            last_group: (0, Duration::ZERO),
        })
    }

    fn serve(mut self, messages: &Receiver<Message>) {
        let mut closing = None;
        while closing.is_none()
            && let Ok(first) = messages.recv()
        {
            self.wait_for_company(messages);
            let mut group = Vec::new();
            let mut look = false;
            for message in std::iter::once(first).chain(messages.try_iter().take(GROUP - 1)) {
                match message {
                    Message::Write(job) if !job.is_abandoned() => group.push(job),
                    Message::Write(_) => {}
                    Message::Look => look = true,
                    Message::Close(reply) => {
                        closing = Some(reply);
                        break;
                    }
                }
            }
            if group.is_empty() && look {
                self.look();
            }
            self.write(group);
        }
        let closed = self.close();
        if let Some(reply) = closing {
            let _ = reply.send(closed);
        }
    }

    /// Gives the callers of the last group the time to come back, so that they share the next one too.
    ///
    /// Without this, the first to come back would be written alone while the rest queue up behind its flush. Nobody
    /// waits when the last group was a single call, and nobody longer than a fraction of what a group takes.
    fn wait_for_company(&self, messages: &Receiver<Message>) {
        let (calls, took) = self.last_group;
        if calls < 2 {
            return;
        }
        let patience = took / PATIENCE;
        let started = Instant::now();
        while messages.len() + 1 < calls && started.elapsed() < patience {
            thread::yield_now();
        }
    }

    fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        if group.is_empty() {
            return;
        }
        let started = Instant::now();
        let mut topics = Vec::new();
        let failure = self.transact(&mut group, &mut topics).err();
        if let Some(failure) = &failure {
            tracing::warn!(error = %failure, calls = group.len(), "a group of writes failed");
        }
        self.last_group = (group.len(), started.elapsed());
        let failure = failure.map(|failure| GroupFailure { failure, calls: group.len() });
        for job in group {
            job.finish(failure.as_ref());
        }
        self.signals.notify(&topics);
        self.checkpoints.after_commit(&self.connection, self.log_pages.load(Ordering::Relaxed));
    }

    fn transact(&mut self, group: &mut [Box<dyn Job>], topics: &mut Vec<Topic>) -> Result<()> {
        self.begin()?;
        let ran = self.run(group, topics);
        let done = ran.and_then(|()| self.execute("COMMIT").map_err(commit_failed));
        if done.is_err() {
            topics.clear();
            self.memo.forget();
            self.kept_house = None;
            // SQLite may have rolled back by itself; then there is nothing left to do.
            let _ = self.execute("ROLLBACK");
        }
        done
    }

    fn run(&mut self, group: &mut [Box<dyn Job>], topics: &mut Vec<Topic>) -> Result<()> {
        self.file.is_still_there()?;
        self.notice_others()?;
        self.keep_house()?;
        let waited_for = self.signals.any_waiter();
        for job in group {
            let topics = waited_for.then_some(&mut *topics);
            let now = self.clock.now();
            job.run(&mut Transaction { connection: &self.connection, memo: &mut self.memo, now, topics })?;
        }
        Ok(())
    }

    /// Takes the right to write before reading anything, so that no read is stale and no upgrade can fail.
    fn begin(&self) -> Result<()> {
        let mut pause = Pause::new(self.busy_timeout);
        loop {
            match self.execute("BEGIN IMMEDIATE") {
                Err(error) if is_busy(&error) && pause.wait() => {}
                result => return result.map_err(failed),
            }
        }
    }

    /// Forgets what was remembered if another process has written.
    fn notice_others(&mut self) -> Result<()> {
        let version = data_version(&self.connection)?;
        if version != self.data_version {
            self.data_version = version;
            self.memo.forget();
            self.clock.at_least(saved_clock(&self.connection)?);
            self.signal_others(version);
        }
        Ok(())
    }

    fn look(&mut self) {
        // The next write will notice whatever this cannot.
        if let Ok(version) = data_version(&self.connection) {
            self.signal_others(version);
        }
    }

    fn signal_others(&mut self, version: i64) {
        if version != self.signalled_version {
            self.signalled_version = version;
            self.signals.notify_all();
        }
    }

    fn keep_house(&mut self) -> Result<()> {
        let now = self.clock.now();
        if self.kept_house.is_some_and(|last| now.since(last) < HOUSEKEEPING) {
            return Ok(());
        }
        let sql = "UPDATE tidelock_meta SET clock = ?1 WHERE clock < ?1";
        self.connection.prepare_cached(sql).and_then(|mut s| s.execute([now.micros()])).map_err(failed)?;
        let mut transaction =
            Transaction { connection: &self.connection, memo: &mut self.memo, now, topics: None };
        let more = transaction.sweep()?;
        self.kept_house = (!more).then_some(now);
        Ok(())
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Lets go of the file, the last of all, so that SQLite moves the log into it and removes the log.
    fn close(self) -> Result<()> {
        self.checkpoints.close();
        self.connection.flush_prepared_statement_cache();
        self.connection.close().map_err(|(_, error)| failed(error))
    }
}

fn data_version(connection: &Connection) -> Result<i64> {
    let mut statement = connection.prepare_cached("PRAGMA data_version").map_err(failed)?;
    statement.query_row([], |row| row.get(0)).map_err(failed)
}

/// A moment that every clock on this file is past.
pub(crate) fn saved_clock(connection: &Connection) -> Result<Timestamp> {
    let sql = "SELECT clock FROM tidelock_meta";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    Timestamp::from_micros(statement.query_row([], |row| row.get(0)).map_err(failed)?)
}
