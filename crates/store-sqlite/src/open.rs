//! Opening a file: options, connections, and the checks before the first write.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, MAIN_DB, OpenFlags};
use tidelock_store::{
    Clock, Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation, SystemClock,
};

use crate::error::failed;

/// The oldest SQLite whose write-ahead log is safe: before it, a checkpoint could race with a reset
/// of the log and damage the file.
const OLDEST_SAFE_SQLITE: i32 = 3_051_003;

/// Options of a file.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// How long a write waits for another process before it fails.
    pub busy_timeout: Duration,
    /// The number of read connections.
    pub readers: usize,
    /// How often to check for changes made by other processes, while there is a waiter.
    pub watch_interval: Duration,
    /// How often to check for rows past their retention while nothing is written: from a
    /// millisecond to a day. Every write removes some of them too.
    pub sweep_interval: Duration,
    /// Whether a single caller may commit on its own thread while the disk is fast (half a
    /// millisecond). This saves waking another thread, a good part of a single commit's time. When
    /// off, no caller's thread ever waits for the disk.
    pub callers_may_write: bool,
    /// Whether opening creates and migrates the file. When off, a file that is not up to date is
    /// refused unchanged: for read-only use, perhaps of another program's file.
    pub migrate: bool,
    /// Whether the file was restored from a backup. Positions, fences and revisions then continue
    /// above all that were ever handed out. A copy in another place is detected without this
    /// option; a backup written over the file is not.
    pub restored: bool,
    /// The time source of the store's clock; tests set their own.
    pub clock: Arc<dyn Clock>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(10),
            readers: 2,
            watch_interval: Duration::from_millis(20),
            sweep_interval: Duration::from_secs(10),
            callers_may_write: true,
            migrate: true,
            restored: false,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl SqliteOptions {
    /// Sets an option by its name in a URL.
    ///
    /// # Errors
    /// `Invalid` if there is no such option, or the value does not fit it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let number = |least: u64, most: u64| match value.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(StoreError::invalid(format!(
                "option {name}={value}: must be a number from {least} to {most}"
            ))),
        };
        match name {
            "busy_timeout_ms" => self.busy_timeout = Duration::from_millis(number(0, 600_000)?),
            "readers" => self.readers = usize::try_from(number(1, 64)?).unwrap_or(1),
            "callers_may_write" => self.callers_may_write = number(0, 1)? == 1,
            "restored" => self.restored = number(0, 1)? == 1,
            "sweep_interval_ms" => {
                self.sweep_interval = Duration::from_millis(number(1, 86_400_000)?);
            }
            "migrate" => self.migrate = number(0, 1)? == 1,
            "watch_interval_ms" => self.watch_interval = Duration::from_millis(number(1, 60_000)?),
            _ => {
                return Err(StoreError::invalid(format!(
                    "unknown option {name:?} for an SQLite file: there are busy_timeout_ms, callers_may_write, migrate, \
                     readers, restored, sweep_interval_ms and watch_interval_ms"
                )));
            }
        }
        Ok(())
    }
}

/// Refuses a version of SQLite that can damage files.
pub(crate) fn check_library(version: i32) -> Result<()> {
    if version >= OLDEST_SAFE_SQLITE {
        return Ok(());
    }
    let context = format!(
        "the SQLite library linked in has version {}.{}.{}, whose write-ahead log can damage files: at least 3.51.3 is \
         needed; build with the bundled one",
        version / 1_000_000,
        version / 1_000 % 1_000,
        version % 1_000
    );
    Err(StoreError::new(
        StoreErrorKind::Incompatible,
        RetryAdvice::Never,
        StoreOperation::Open,
        context,
    ))
}

/// Opens the write connection and turns WAL mode on.
pub(crate) fn writer(path: &Path, options: &SqliteOptions) -> Result<Connection> {
    let connection =
        Connection::open_with_flags(path, flags(OpenFlags::SQLITE_OPEN_CREATE)).map_err(failed)?;
    connection.busy_timeout(options.busy_timeout).map_err(failed)?;
    check_writable(&connection)?;
    crate::vacuum::prepare(&connection).map_err(failed)?;
    turn_wal_on(&connection, options)?;
    // FULL flushes the log with every commit, so acknowledged commits survive a power failure.
    // Automatic checkpoints are off; this crate makes its own.
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0")
        .map_err(failed)?;
    set_cache_sizes(&connection)?;
    Ok(connection)
}

/// SQLite opens a file that it cannot write, and reports it only at the first write. By then it may
/// have created the log and its index as this user's files, which the file's owner could not write.
fn check_writable(connection: &Connection) -> Result<()> {
    if !connection.is_readonly(MAIN_DB).map_err(failed)? {
        return Ok(());
    }
    let context =
        "the file cannot be written by this user: give it the right to, or run as another";
    Err(StoreError::new(StoreErrorKind::Storage, RetryAdvice::Never, StoreOperation::Open, context))
}

/// Opens a read connection.
pub(crate) fn reader(path: &Path, options: &SqliteOptions) -> Result<Connection> {
    let connection =
        Connection::open_with_flags(path, flags(OpenFlags::empty())).map_err(failed)?;
    connection.busy_timeout(options.busy_timeout).map_err(failed)?;
    check_writable(&connection)?;
    connection.execute_batch("PRAGMA query_only = ON").map_err(failed)?;
    set_cache_sizes(&connection)?;
    Ok(connection)
}

/// Up to 8 MiB of pages, and every statement stays prepared.
fn set_cache_sizes(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    connection
        .execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192")
        .map_err(failed)
}

fn flags(more: OpenFlags) -> OpenFlags {
    // No connection is used by two threads at once, so SQLite's own mutexes would only cost time.
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more
}

/// Turning the mode on needs exclusive access, for which SQLite does not wait by itself.
fn turn_wal_on(connection: &Connection, options: &SqliteOptions) -> Result<()> {
    let mut pause = crate::busy_backoff::BusyBackoff::new(options.busy_timeout);
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let context =
                    format!("the file cannot be put in WAL mode; it stays in {mode} mode");
                return Err(StoreError::new(
                    StoreErrorKind::Incompatible,
                    RetryAdvice::Never,
                    StoreOperation::Open,
                    context,
                ));
            }
            Err(error) if crate::busy_backoff::is_busy(&error) && pause.wait() => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schedule 70.
    #[test]
    fn an_sqlite_that_can_damage_files_is_refused() {
        let refused = check_library(3_051_002).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Incompatible);
        assert!(refused.to_string().contains("3.51.2"), "{refused}");
        check_library(3_051_003).unwrap();
        check_library(rusqlite::version_number()).expect("the bundled one is safe");
    }

    #[test]
    fn an_unknown_option_is_refused_by_name() {
        let mut options = SqliteOptions::default();
        assert!(
            options.set("busy_timeout", "1").unwrap_err().to_string().contains("\"busy_timeout\"")
        );
        assert!(options.set("readers", "none").unwrap_err().to_string().contains("from 1 to 64"));
        options.set("readers", "3").unwrap();
        assert_eq!(options.readers, 3);
    }
}
