//! Giving room back: pages that hold nothing any more leave the file, a few at a time.
//!
//! SQLite uses free pages again before it makes the file longer, so a file that is about as full as
//! ever needs none of this. It is for what was there once, such as a backlog. A file from before
//! these versions does not know where its pages are pointed to from, and stays as long as it is
//! until it is vacuumed.

use rusqlite::Connection;
use tidelock_store::Result;

use crate::error::failed;

/// Free pages that always stay, for what comes next: 4 MiB.
const KEPT: i64 = 1_024;
/// What `PRAGMA auto_vacuum` says of a file whose pages can be given back a few at a time.
const INCREMENTAL: i64 = 2;
/// How many pages are moved at once.
const AT_ONCE: usize = 64;

/// Lets a new file know where each page is pointed to from, without which it could not become
/// shorter.
pub(crate) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    if pragma(connection, "PRAGMA page_count")? == 0 {
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    Ok(())
}

/// Gives some pages back if more than half of the file is free; says whether there are more to give
/// back.
pub(crate) fn give_back(connection: &Connection) -> Result<bool> {
    if !is_to_spare(connection)? {
        return Ok(false);
    }
    let sql = format!("PRAGMA incremental_vacuum({AT_ONCE})");
    let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while rows.next().map_err(failed)?.is_some() {}
    is_to_spare(connection)
}

/// Whether there are free pages beyond those that stay, and they can be given back.
pub(crate) fn is_to_spare(connection: &Connection) -> Result<bool> {
    let pragma = |sql| pragma(connection, sql).map_err(failed);
    let (free, pages) = (pragma("PRAGMA freelist_count")?, pragma("PRAGMA page_count")?);
    Ok(free > KEPT.max(pages / 2) && pragma("PRAGMA auto_vacuum")? == INCREMENTAL)
}

fn pragma(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}
