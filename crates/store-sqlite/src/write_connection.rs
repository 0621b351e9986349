//! The single writer connection and its state between transactions.
//!
//! It runs a group of calls in one transaction. Each call is judged separately: a refusal concerns
//! only its caller. A failure of the file rolls back the whole group, and each of its callers gets
//! the error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tidelock_store::{ChangeHints, Result, StoreClock, StoreError, Timestamp, Topic};

use crate::busy_backoff::{BusyBackoff, is_busy};
use crate::checkpoint::{Checkpoints, log_pages};
use crate::commit::{Transaction, WriterCache};
use crate::error::{GroupFailure, commit_failed, failed};
use crate::file::StoreFile;
use crate::group_stats::GroupStats;
use crate::job::Job;
use crate::open::SqliteOptions;
use crate::{identity, sweep, vacuum};

/// How often the clock is saved for later processes, and retention is enforced.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// Rows of each kind per sweep, between two checks of the time.
const SWEPT_AT_ONCE: usize = 64;
/// How long sweeping may delay a group of calls, or as long as the calls themselves take, if that
/// is longer. So sweeping keeps up with writing, and takes at most half of the connection's time.
const SWEEPING: Duration = Duration::from_millis(1);
/// How long to sweep while nothing else is to be written.
const IDLE_SWEEPING: Duration = Duration::from_millis(5);

/// The single writer connection and its caches.
pub(crate) struct WriteConnection {
    connection: Connection,
    file: Arc<StoreFile>,
    clock: Arc<StoreClock>,
    signals: ChangeHints,
    checkpoints: Checkpoints,
    busy_timeout: Duration,
    cache: WriterCache,
    /// Changes when another connection has written; as of the last transaction.
    data_version: i64,
    /// The data version as of the last signal about other processes' writes.
    signalled_version: i64,
    /// When the clock was last saved.
    maintained_at: Option<Timestamp>,
    /// Whether the last sweep left rows behind.
    more_to_sweep: bool,
    /// Whether the file was checked to be the one where its epoch began.
    epoch_checked: bool,
    /// Whether to sweep also when nothing is written: not for read-only use.
    sweeps_while_idle: bool,
    pub(crate) stats: GroupStats,
}

impl WriteConnection {
    pub(crate) fn new(
        connection: Connection,
        file: Arc<StoreFile>,
        clock: Arc<StoreClock>,
        signals: ChangeHints,
        checkpoints: Checkpoints,
        options: &SqliteOptions,
    ) -> Result<Self> {
        // Waiting is done by [`BusyBackoff`].
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        let data_version = data_version(&connection)?;
        Ok(Self {
            connection,
            file,
            clock,
            signals,
            checkpoints,
            busy_timeout: options.busy_timeout,
            cache: WriterCache::default(),
            data_version,
            signalled_version: data_version,
            maintained_at: None,
            more_to_sweep: false,
            epoch_checked: false,
            sweeps_while_idle: options.migrate,
            stats: GroupStats::default(),
        })
    }

    /// Takes the write lock before reading anything, so that no read is stale and no lock upgrade
    /// can fail; waits for other processes to release it.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let mut pause = BusyBackoff::new(self.busy_timeout);
        loop {
            match self.begin_once() {
                Err(error) if is_busy(&error) && pause.wait() => {}
                result => return result.map_err(failed),
            }
        }
    }

    /// Takes the write lock if no other process has it now; does not wait.
    pub(crate) fn begin_at_once(&mut self) -> bool {
        self.begin_once().is_ok()
    }

    fn begin_once(&mut self) -> rusqlite::Result<()> {
        if !self.connection.is_autocommit() {
            // The previous user panicked in the middle of a transaction.
            self.undo();
        }
        self.execute("BEGIN IMMEDIATE")
    }

    /// Runs the group in the transaction that was begun, and answers its callers.
    pub(crate) fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        let started = Instant::now();
        let waited_for = self.signals.any_waiter();
        let mut topics = Vec::new();
        let written = self.run(&mut group, waited_for.then_some(&mut topics));
        let done = written.and_then(|()| self.execute("COMMIT").map_err(commit_failed));
        self.stats.note(group.len(), started.elapsed());
        let written = done.is_ok();
        self.sweeps_while_idle |= written;
        if !written {
            self.undo();
        }
        self.answer(group, done.err());
        match (written, waited_for) {
            (true, true) => self.signals.notify(&topics),
            // A waiter that arrived in the meantime may have read before this was there; its topic
            // was not recorded.
            (true, false) if self.signals.any_waiter() => self.signals.notify_all(),
            _ => {}
        }
    }

    /// Answers every caller of the group.
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
                cache: &mut self.cache,
                now,
                topics,
            })?;
        }
        self.maintain(started.elapsed().max(SWEEPING))
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

    /// Makes sure that this transaction writes to the right file, in the right epoch.
    fn enter(&mut self, restored: bool) -> Result<()> {
        self.file.is_still_there()?;
        self.notice_others()?;
        if !self.epoch_checked || restored {
            let now = self.clock.now();
            let mut transaction = Transaction {
                connection: &self.connection,
                cache: &mut self.cache,
                now,
                topics: None,
            };
            identity::enter(&mut transaction, self.file.lasting_identity(), restored)?;
            self.epoch_checked = true;
        }
        Ok(())
    }

    fn undo(&mut self) {
        (self.epoch_checked, self.more_to_sweep) = (false, false);
        self.cache.forget();
        self.maintained_at = None;
        // SQLite may have rolled back by itself; then there is nothing left to do.
        let _ = self.execute("ROLLBACK");
    }

    /// Clears the cache if another process has written.
    fn notice_others(&mut self) -> Result<()> {
        let version = data_version(&self.connection)?;
        if version != self.data_version {
            self.cache.forget();
            self.clock.at_least(saved_clock(&self.connection)?);
            self.data_version = version;
            self.signal_others(version);
        }
        Ok(())
    }

    /// Checks whether another process has written, and notifies the waiters.
    pub(crate) fn look(&mut self) {
        // The next write will notice what this cannot.
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

    /// Periodic maintenance, about once a second: saves the clock, and sweeps for about `patience`;
    /// the next transaction continues the sweep.
    fn maintain(&mut self, patience: Duration) -> Result<()> {
        let now = self.clock.now();
        if self.is_maintained(now) {
            return Ok(());
        }
        self.save_clock(now)?;
        let started = Instant::now();
        let mut more = true;
        while more && started.elapsed() < patience {
            let mut transaction = Transaction {
                connection: &self.connection,
                cache: &mut self.cache,
                now,
                topics: None,
            };
            more = transaction.sweep(SWEPT_AT_ONCE)? || vacuum::release_pages(&self.connection)?;
        }
        self.maintained_at = (!more).then_some(now);
        self.more_to_sweep = more;
        Ok(())
    }

    /// Whether to continue sweeping as soon as nothing is to be written.
    pub(crate) fn has_more_to_sweep(&self) -> bool {
        self.more_to_sweep
    }

    fn is_maintained(&self, now: Timestamp) -> bool {
        self.maintained_at.is_some_and(|last| now.since(last) < MAINTENANCE_INTERVAL)
    }

    /// Sweeps while idle, if anything is due.
    pub(crate) fn maintain_while_idle(&mut self) {
        let now = self.clock.now();
        self.more_to_sweep = false;
        if !self.sweeps_while_idle || self.is_maintained(now) || !self.is_sweeping_due(now) {
            return;
        }
        // Another process that writes sweeps too.
        if !self.begin_at_once() {
            return;
        }
        if let Err(error) = self.maintain_in_transaction() {
            tracing::warn!(%error, "what is past its retention could not be removed");
            self.undo();
        }
    }

    fn is_sweeping_due(&self, now: Timestamp) -> bool {
        // A failed check is repeated later.
        sweep::is_due(&self.connection, now).unwrap_or(false)
            || vacuum::has_free_pages(&self.connection).unwrap_or(false)
    }

    fn maintain_in_transaction(&mut self) -> Result<()> {
        self.enter(false)?;
        self.maintain(IDLE_SWEEPING)?;
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

    /// Requests a checkpoint when the log is long. Returns whether this connection should help,
    /// which takes a while.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        log_pages(&self.connection).is_some_and(|pages| self.checkpoints.ask(pages))
    }

    /// Moves the rest of the log, which the checkpoint thread cannot move while this connection
    /// writes.
    pub(crate) fn checkpoint(&self) {
        self.checkpoints.finish(&self.connection);
    }

    /// Closes the file as the last connection, so that SQLite checkpoints and removes the log.
    pub(crate) fn close(mut self) -> Result<()> {
        self.save_clock_at_last();
        self.checkpoints.close();
        self.connection.flush_prepared_statement_cache();
        self.connection.close().map_err(|(_, error)| failed(error))
    }

    /// The next process that opens the file continues from here, whatever its wall clock says. If
    /// this fails, it continues from the last saved clock.
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

/// A moment that every clock on this file has passed.
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

    /// A write connection on a file with a record that expired long ago, and the file's folder.
    fn writer(migrating: bool) -> (WriteConnection, TempDir) {
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

    fn records(writer: &WriteConnection) -> i64 {
        writer
            .connection
            .query_row("SELECT count(*) FROM tidelock_records", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_pen_that_was_opened_to_look_sweeps_only_once_it_has_written() {
        let (mut writer, _folder) = writer(false);
        writer.maintain_while_idle();
        assert_eq!(records(&writer), 1);
        let (job, _answer) = crate::job::job(|_| Ok(()));
        writer.begin().unwrap();
        writer.write(vec![job]);
        assert_eq!(records(&writer), 0);
    }

    #[test]
    fn a_pen_that_has_nothing_to_write_sweeps_what_is_due_and_then_rests() {
        let (mut writer, _folder) = writer(true);
        assert!(writer.is_sweeping_due(writer.clock.now()));
        writer.maintain_while_idle();
        assert_eq!(records(&writer), 0);
        assert!(!writer.has_more_to_sweep());
        assert!(!writer.is_sweeping_due(writer.clock.now()));
    }
}
