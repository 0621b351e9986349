//! The baseline of SQLite: prepared statements on the store's tables, in WAL mode with every commit
//! flushed.

mod commits;
mod leases;
mod reads;
mod records;

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Statement};

use crate::clock;
use crate::failure::Failure;

pub(super) use commits::commits;
pub(super) use leases::leases;
pub(super) use reads::{feed, loads};
pub(super) use records::{adds, refused_sets, sets};

/// A plain, durable connection; SQLite makes checkpoints inside commits.
fn open(path: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;",
    )?;
    Ok(connection)
}

/// Copies a file with all committed data. The connection, held meanwhile, checkpoints the log and
/// keeps others from doing so while the file is read.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let connection = open(from)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let left: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if left != 0 {
        return Err(Failure::Answer(format!(
            "the store was closed, and {} is still in use",
            from.display()
        )));
    }
    fs::copy(from, to)?;
    Ok(())
}

/// Begins and commits, prepared once.
struct Transactions<'a> {
    begin: Statement<'a>,
    commit: Statement<'a>,
}

impl<'a> Transactions<'a> {
    fn on(connection: &'a Connection) -> Result<Self, Failure> {
        Ok(Self {
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
        })
    }

    /// One transaction. An error ends the whole run, and the connection takes the transaction with
    /// it.
    fn one(&mut self, write: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.begin.execute([])?;
        write()?;
        self.commit.execute([])?;
        Ok(())
    }
}

/// A count as a SQL integer.
fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Microseconds since 1970 as a SQL integer.
fn now() -> i64 {
    i64::try_from(clock::now()).unwrap_or(i64::MAX)
}
