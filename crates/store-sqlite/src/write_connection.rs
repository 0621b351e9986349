//! The right to write to the file, and all that it takes to use it: whoever holds the pen writes.
//!
//! The pen does a group of calls in one transaction. Each call is judged on its own: a refusal
//! concerns its caller only. A failure of the file undoes the whole group, and each of its callers
//! is told so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tidelock_store::{ChangeHints, Result, StoreClock, StoreError, Timestamp, Topic};

use crate::busy_backoff::{BusyBackoff, is_busy};
use crate::checkpoint::Checkpoints;
use crate::commit::{Transaction, WriterCache};
use crate::error::{GroupFailure, commit_failed, failed};
use crate::file::StoreFile;
use crate::group_stats::GroupStats;
use crate::job::Job;
use crate::open::SqliteOptions;
use crate::{identity, room, sweep};

/// How often the clock is written down, for processes that come later, and what is past its
/// retention swept up.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How many rows of each kind are swept up before the time is looked at.
const SWEPT_AT_ONCE: usize = 64;
/// How long a group of calls may be held up by sweeping, or as long as the calls themselves take,
/// if that is longer: so sweeping keeps up with what is written, and takes half of the pen's time
/// at most.
const SWEEPING: Duration = Duration::from_millis(1);
/// The same, when nothing else is to be written.
const SWEEPING_ALONE: Duration = Duration::from_millis(5);

/// What writing needs.
pub(crate) struct WriteConnection {
    connection: Connection,
    file: Arc<StoreFile>,
    clock: Arc<StoreClock>,
    signals: ChangeHints,
    checkpoints: Checkpoints,
    busy_timeout: Duration,
    memo: WriterCache,
    /// Changes when another connection has written; as of the last transaction.
    data_version: i64,
    /// The same, as of when others' writes were last signalled.
    signalled_version: i64,
    /// When the clock was last written down.
    kept_house: Option<Timestamp>,
    /// Whether there was more to sweep than was swept.
    more_to_sweep: bool,
    /// Whether the file was seen to be where its epoch began.
    is_home: bool,
    /// Whether to sweep also when nothing is written: not for those who only look.
    sweeps_alone: bool,
    /// How long the log is, as of the last commit.
    log_pages: Arc<AtomicI32>,
    pub(crate) pace: GroupStats,
}

impl WriteConnection {
    pub(crate) fn new(
        mut connection: Connection,
        file: Arc<StoreFile>,
        clock: Arc<StoreClock>,
        signals: ChangeHints,
        checkpoints: Checkpoints,
        options: &SqliteOptions,
    ) -> Result<Self> {
        // The pen waits for the file in its own way.
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
            busy_timeout: options.busy_timeout,
            memo: WriterCache::default(),
            data_version,
            signalled_version: data_version,
            kept_house: None,
            more_to_sweep: false,
            is_home: false,
            sweeps_alone: options.migrate,
            log_pages,
            pace: GroupStats::default(),
        })
    }

    /// Takes the right to write before reading anything, so that no read is stale and no upgrade
    /// can fail; waits for other processes to let go of it.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let mut pause = BusyBackoff::new(self.busy_timeout);
        loop {
            match self.begin_once() {
                Err(error) if is_busy(&error) && pause.wait() => {}
                result => return result.map_err(failed),
            }
        }
    }

    /// The same, if no other process has it now.
    pub(crate) fn begin_at_once(&mut self) -> bool {
        self.begin_once().is_ok()
    }

    fn begin_once(&mut self) -> rusqlite::Result<()> {
        if !self.connection.is_autocommit() {
            // Whoever held the pen before panicked in the middle of something.
            self.undo();
        }
        self.execute("BEGIN IMMEDIATE")
    }

    /// Does all of the group in the transaction that was begun, and answers its callers.
    pub(crate) fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        let started = Instant::now();
        let waited_for = self.signals.any_waiter();
        let mut topics = Vec::new();
        let written = self.run(&mut group, waited_for.then_some(&mut topics));
        let done = written.and_then(|()| self.execute("COMMIT").map_err(commit_failed));
        self.pace.note(group.len(), started.elapsed());
        let written = done.is_ok();
        self.sweeps_alone |= written;
        if !written {
            self.undo();
        }
        self.answer(group, done.err());
        match (written, waited_for) {
            (true, true) => self.signals.notify(&topics),
            // Whoever came meanwhile may have looked before this was there; for whom it is was not
            // noted.
            (true, false) if self.signals.any_waiter() => self.signals.notify_all(),
            _ => {}
        }
    }

    /// Tells every caller of the group what became of it.
    pub(crate) fn answer(&self, group: Vec<Box<dyn Job>>, failure: Option<StoreError>) {
        let failure = failure.map(|failure| GroupFailure {
            failure: failure.about(self.file.path().display()),
            calls: group.len(),
        });
        if let Some(GroupFailure { failure, calls }) = &failure {
            tracing::warn!(error = %failure, calls, "a group of writes failed");
        }
        for job in group {
            job.finish(failure.as_ref());
        }
    }

    fn run(
        &mut self,
        group: &mut [Box<dyn Job>],
        mut topics: Option<&mut Vec<Topic>>,
    ) -> Result<()> {
        self.enter(false)?;
        let started = Instant::now();
        for job in group {
            let topics = topics.as_deref_mut();
            let now = self.clock.now();
            job.run(&mut Transaction {
                connection: &self.connection,
                memo: &mut self.memo,
                now,
                topics,
            })?;
        }
        self.keep_house(started.elapsed().max(SWEEPING))
    }

    /// Begins an epoch: the file is known to have been restored.
    pub(crate) fn begin_epoch(&mut self) -> Result<()> {
        self.begin()?;
        let begun = self.enter(true).and_then(|()| self.execute("COMMIT").map_err(commit_failed));
        if begun.is_err() {
            self.undo();
        }
        begun
    }

    /// Sees to it that what is written in this transaction is written to the right file, and in the
    /// right epoch.
    fn enter(&mut self, restored: bool) -> Result<()> {
        self.file.is_still_there()?;
        self.notice_others()?;
        if !self.is_home || restored {
            let now = self.clock.now();
            let mut transaction = Transaction {
                connection: &self.connection,
                memo: &mut self.memo,
                now,
                topics: None,
            };
            identity::enter(&mut transaction, self.file.home(), restored)?;
            self.is_home = true;
        }
        Ok(())
    }

    fn undo(&mut self) {
        (self.is_home, self.more_to_sweep) = (false, false);
        self.memo.forget();
        self.kept_house = None;
        // SQLite may have rolled back by itself; then there is nothing left to do.
        let _ = self.execute("ROLLBACK");
    }

    /// Forgets what was remembered if another process has written.
    fn notice_others(&mut self) -> Result<()> {
        let version = data_version(&self.connection)?;
        if version != self.data_version {
            self.memo.forget();
            self.clock.at_least(saved_clock(&self.connection)?);
            self.data_version = version;
            self.signal_others(version);
        }
        Ok(())
    }

    /// Looks whether another process has written, and says so to those who wait.
    pub(crate) fn look(&mut self) {
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

    /// Does what is to be done about once a second. Sweeps for about as long as that; the next
    /// transaction goes on.
    fn keep_house(&mut self, patience: Duration) -> Result<()> {
        let now = self.clock.now();
        if self.has_kept_house(now) {
            return Ok(());
        }
        self.save_clock(now)?;
        let started = Instant::now();
        let mut more = true;
        while more && started.elapsed() < patience {
            let mut transaction = Transaction {
                connection: &self.connection,
                memo: &mut self.memo,
                now,
                topics: None,
            };
            more = transaction.sweep(SWEPT_AT_ONCE)? || room::give_back(&self.connection)?;
        }
        self.kept_house = (!more).then_some(now);
        self.more_to_sweep = more;
        Ok(())
    }

    /// Whether to go on sweeping as soon as nothing is to be written.
    pub(crate) fn has_more_to_sweep(&self) -> bool {
        self.more_to_sweep
    }

    fn has_kept_house(&self, now: Timestamp) -> bool {
        self.kept_house.is_some_and(|last| now.since(last) < HOUSEKEEPING)
    }

    /// Sweeps although nothing is to be written, if anything is due.
    pub(crate) fn keep_house_alone(&mut self) {
        let now = self.clock.now();
        self.more_to_sweep = false;
        if !self.sweeps_alone || self.has_kept_house(now) || !self.is_sweeping_due(now) {
            return;
        }
        // Another process that writes sweeps too.
        if !self.begin_at_once() {
            return;
        }
        if let Err(error) = self.keep_house_in_transaction() {
            tracing::warn!(%error, "what is past its retention could not be removed");
            self.undo();
        }
    }

    fn is_sweeping_due(&self, now: Timestamp) -> bool {
        // What fails to be looked at is looked at again later.
        sweep::is_due(&self.connection, now).unwrap_or(false)
            || room::is_to_spare(&self.connection).unwrap_or(false)
    }

    fn keep_house_in_transaction(&mut self) -> Result<()> {
        self.enter(false)?;
        self.keep_house(SWEEPING_ALONE)?;
        self.execute("COMMIT").map_err(commit_failed)
    }

    fn save_clock(&self, now: Timestamp) -> Result<()> {
        let sql = "UPDATE tidelock_meta SET clock = ?1 WHERE clock < ?1";
        self.connection
            .prepare_cached(sql)
            .and_then(|mut s| s.execute([now.micros()]))
            .map_err(failed)?;
        Ok(())
    }

    /// Has the log moved into the file when it is long. Says whether this pen should help, which
    /// takes a while.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoints.ask(self.log_pages.load(Ordering::Relaxed))
    }

    /// Moves the rest of the log, which the other thread cannot move while this one writes.
    pub(crate) fn checkpoint(&self) {
        self.checkpoints.finish(&self.connection);
    }

    /// Lets go of the file, the last of all, so that SQLite moves the log into it and removes the
    /// log.
    pub(crate) fn close(mut self) -> Result<()> {
        self.save_clock_at_last();
        self.checkpoints.close();
        self.connection.flush_prepared_statement_cache();
        self.connection.close().map_err(|(_, error)| failed(error))
    }

    /// Whoever opens the file next goes on from here, whatever the calendar says then. If this
    /// fails, they go on from when the clock was last written down.
    fn save_clock_at_last(&mut self) {
        if !self.begin_at_once() {
            return;
        }
        let saved = self.file.is_still_there().and_then(|()| self.save_clock(self.clock.now()));
        if saved.is_err() || self.execute("COMMIT").is_err() {
            self.undo();
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{migrate, open};

    /// A pen on a file in which a record has expired long ago, and the folder of the file.
    fn pen(migrating: bool) -> (WriteConnection, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let options = SqliteOptions { migrate: migrating, ..SqliteOptions::default() };
        let mut connection = open::writer(&path, &options).unwrap();
        let clock = Arc::new(StoreClock::new(options.clock.clone()));
        migrate::migrate(&mut connection, clock.now()).unwrap();
        connection.execute("INSERT INTO tidelock_records VALUES ('k', 1, '1', 1)", []).unwrap();
        let file = Arc::new(StoreFile::opened(&path).unwrap());
        let checkpoints = Checkpoints::start(open::writer(&path, &options).unwrap()).unwrap();
        (
            WriteConnection::new(
                connection,
                file,
                clock,
                ChangeHints::default(),
                checkpoints,
                &options,
            )
            .unwrap(),
            folder,
        )
    }

    fn records(pen: &WriteConnection) -> i64 {
        pen.connection
            .query_row("SELECT count(*) FROM tidelock_records", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_pen_that_was_opened_to_look_sweeps_only_once_it_has_written() {
        let (mut pen, _folder) = pen(false);
        pen.keep_house_alone();
        assert_eq!(records(&pen), 1);
        let (job, _answer) = crate::job::job(|_| Ok(()));
        pen.begin().unwrap();
        pen.write(vec![job]);
        assert_eq!(records(&pen), 0);
    }

    #[test]
    fn a_pen_that_has_nothing_to_write_sweeps_what_is_due_and_then_rests() {
        let (mut pen, _folder) = pen(true);
        assert!(pen.is_sweeping_due(pen.clock.now()));
        pen.keep_house_alone();
        assert_eq!(records(&pen), 0);
        assert!(!pen.has_more_to_sweep());
        assert!(!pen.is_sweeping_due(pen.clock.now()));
    }
}
