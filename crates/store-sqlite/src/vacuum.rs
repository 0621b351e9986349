//! Incremental vacuum: returns free pages to the file system, a few at a time.
//!
//! SQLite reuses free pages before it extends the file, so a file of stable size does not need
//! this. It is for data that was there once, such as a backlog. A file created by an older version
//! has no pointer map, and keeps its size until it is vacuumed.

use rusqlite::Connection;
use tidelock_store::Result;

use crate::error::failed;

/// Free pages that are always kept, for new data: 4 MiB.
const KEPT: i64 = 1_024;
/// The value of `PRAGMA auto_vacuum` for incremental vacuum.
const INCREMENTAL: i64 = 2;
/// Pages per step.
const AT_ONCE: usize = 64;

/// Turns incremental vacuum on for a new file. Without it, the file could not become shorter.
pub(crate) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    if pragma(connection, "PRAGMA page_count")? == 0 {
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    Ok(())
}

/// Returns some pages if more than half of the file is free; returns whether there are more.
pub(crate) fn release_pages(connection: &Connection) -> Result<bool> {
    if !has_free_pages(connection)? {
        return Ok(false);
    }
    let sql = format!("PRAGMA incremental_vacuum({AT_ONCE})");
    let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while rows.next().map_err(failed)?.is_some() {}
    has_free_pages(connection)
}

/// Whether there are free pages beyond those that are kept, and they can be returned.
pub(crate) fn has_free_pages(connection: &Connection) -> Result<bool> {
    let pragma = |sql| pragma(connection, sql).map_err(failed);
    let (free, pages) = (pragma("PRAGMA freelist_count")?, pragma("PRAGMA page_count")?);
    Ok(free > KEPT.max(pages / 2) && pragma("PRAGMA auto_vacuum")? == INCREMENTAL)
}

fn pragma(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}
