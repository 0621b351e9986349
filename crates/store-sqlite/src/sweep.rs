//! Retention: removes rows whose time has passed.
//!
//! Every row that expires has an expiry time and an index by it, so that a sweep never reads rows
//! that stay. A sweep takes a few rows of each kind; the write connection decides how often. Before
//! a row is removed, numbers that must not be reused go into a floor, in the same transaction.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};
use tidelock_store::{Result, StreamName, Timestamp, limits, stream_category};

use crate::commit::Transaction;
use crate::error::failed;
use crate::log::{number, text};

/// Expired records, which read as deleted for a while.
pub(crate) const EXPIRE: &str =
    "UPDATE tidelock_records SET value = NULL, expires_at = expires_at + ?2 WHERE rowid IN
         (SELECT rowid FROM tidelock_records WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?3)
     AND value IS NOT NULL AND expires_at + ?2 > ?1";
/// Tombstones whose retention has passed, and records that expired that long ago.
pub(crate) const FORGET_RECORDS: &str = "DELETE FROM tidelock_records WHERE rowid IN
         (SELECT rowid FROM tidelock_records WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?3)
     AND (value IS NULL OR expires_at + ?2 <= ?1)
     RETURNING revision";

/// An older program that has the file open does not know that what it wakes or appends to must be
/// kept.
pub(crate) const KEEP_ITEMS: &str =
    "UPDATE tidelock_items SET forget_at = NULL WHERE (queue, key) IN
         (SELECT queue, key FROM tidelock_items WHERE forget_at <= ?1 ORDER BY forget_at LIMIT ?2)
     AND (due IS NOT NULL OR worker IS NOT NULL)";
pub(crate) const FORGET_ITEMS: &str = "DELETE FROM tidelock_items WHERE (queue, key) IN
         (SELECT queue, key FROM tidelock_items WHERE forget_at <= ?1 ORDER BY forget_at LIMIT ?2)
     AND due IS NULL AND worker IS NULL
     RETURNING fence";
pub(crate) const KEEP_STREAMS: &str = "UPDATE tidelock_streams SET forget_at = NULL WHERE id IN
         (SELECT id FROM tidelock_streams WHERE forget_at <= ?1 ORDER BY forget_at LIMIT ?2)
     AND first <= version";
pub(crate) const FORGET_STREAMS: &str = "DELETE FROM tidelock_streams WHERE id IN
         (SELECT id FROM tidelock_streams WHERE forget_at <= ?1 ORDER BY forget_at LIMIT ?2)
     AND first > version
     RETURNING name, version";

pub(crate) const FORGET_COMMITS: &str = "DELETE FROM tidelock_commits WHERE id IN
     (SELECT id FROM tidelock_commits WHERE coalesce(forget_at, committed_at + 604800000000) <= ?1
      ORDER BY coalesce(forget_at, committed_at + 604800000000) LIMIT ?2)";

const NEXT: &str = "SELECT min(moment) FROM (
     SELECT * FROM (SELECT expires_at AS moment FROM tidelock_records WHERE expires_at IS NOT NULL
                    ORDER BY expires_at LIMIT 1)
     UNION ALL
     SELECT * FROM (SELECT forget_at FROM tidelock_items WHERE forget_at IS NOT NULL ORDER BY forget_at LIMIT 1)
     UNION ALL
     SELECT * FROM (SELECT forget_at FROM tidelock_streams WHERE forget_at IS NOT NULL ORDER BY forget_at LIMIT 1)
     UNION ALL
     SELECT * FROM (SELECT coalesce(forget_at, committed_at + 604800000000) FROM tidelock_commits
                    ORDER BY coalesce(forget_at, committed_at + 604800000000) LIMIT 1))";

/// The statements of a sweep, and the one that checks whether anything is due.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    EXPIRE,
    FORGET_RECORDS,
    KEEP_ITEMS,
    FORGET_ITEMS,
    KEEP_STREAMS,
    FORGET_STREAMS,
    FORGET_COMMITS,
    NEXT,
];

/// Whether anything is past its retention.
pub(crate) fn is_due(connection: &Connection, now: Timestamp) -> Result<bool> {
    let mut statement = connection.prepare_cached(NEXT).map_err(failed)?;
    let next: Option<i64> = statement.query_row([], |row| row.get(0)).map_err(failed)?;
    Ok(next.is_some_and(|moment| moment <= now.micros()))
}

impl Transaction<'_> {
    /// Removes up to `most` rows of each kind past their retention; returns whether there may be
    /// more.
    pub(crate) fn sweep(&mut self, most: usize) -> Result<bool> {
        let swept = [
            self.sweep_records(most)?,
            self.sweep_items(most)?,
            self.sweep_streams(most)?,
            self.sweep_commits(most)?,
        ];
        Ok(swept.into_iter().any(|rows| rows >= most))
    }

    fn sweep_records(&mut self, most: usize) -> Result<usize> {
        let memory = limits::TOMBSTONE_MEMORY.as_micros() as i64;
        let which = params![self.now.micros(), memory, most as i64];
        let expired = self.execute(EXPIRE, which)?;
        let gone = self.returned(FORGET_RECORDS, which, |row| number(row, 0))?;
        self.raise(
            "UPDATE tidelock_meta SET revision_floor = ?1 WHERE revision_floor < ?1",
            &gone,
        )?;
        Ok(expired + gone.len())
    }

    fn sweep_items(&mut self, most: usize) -> Result<usize> {
        let which = params![self.now.micros(), most as i64];
        let kept = self.execute(KEEP_ITEMS, which)?;
        // An item that was never leased has no fence.
        let fence = |row: &Row<'_>| {
            Ok(row.get::<_, Option<i64>>(0).map_err(failed)?.map_or(0, |fence| fence as u64))
        };
        let gone = self.returned(FORGET_ITEMS, which, fence)?;
        self.raise("UPDATE tidelock_meta SET fence_floor = ?1 WHERE fence_floor < ?1", &gone)?;
        Ok(kept + gone.len())
    }

    fn sweep_streams(&mut self, most: usize) -> Result<usize> {
        let which = params![self.now.micros(), most as i64];
        let kept = self.execute(KEEP_STREAMS, which)?;
        let gone = self.returned(FORGET_STREAMS, which, |row| {
            Ok((StreamName::new(text(row, 0)?)?, number(row, 1)?))
        })?;
        if !gone.is_empty() {
            let sql = "UPDATE tidelock_meta SET streams_forgotten = streams_forgotten + ?1";
            self.execute(sql, [gone.len() as i64])?;
        }
        for (category, version) in highest(&gone) {
            let sql = "INSERT INTO tidelock_version_floors (category, version) VALUES (?1, ?2)
                       ON CONFLICT (category) DO UPDATE SET version = max(version, ?2)";
            self.execute(sql, params![category, version as i64])?;
        }
        gone.iter().for_each(|(name, _)| self.cache.forget_stream(name));
        Ok(kept + gone.len())
    }

    fn sweep_commits(&mut self, most: usize) -> Result<usize> {
        self.execute(FORGET_COMMITS, params![self.now.micros(), most as i64])
    }

    /// Raises a floor to the highest forgotten number.
    fn raise(&mut self, sql: &str, gone: &[u64]) -> Result<()> {
        let Some(highest) = gone.iter().max() else { return Ok(()) };
        self.execute(sql, [*highest as i64])?;
        self.cache.forget_floors();
        Ok(())
    }

    fn returned<T>(
        &self,
        sql: &str,
        which: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(which).map_err(failed)?;
        let mut returned = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            returned.push(read(row)?);
        }
        Ok(returned)
    }
}

/// The highest version of each category.
fn highest(streams: &[(StreamName, u64)]) -> HashMap<&str, u64> {
    let mut floors = HashMap::new();
    for (name, version) in streams {
        let floor: &mut u64 = floors.entry(stream_category(name.as_str())).or_default();
        *floor = (*floor).max(*version);
    }
    floors
}

#[cfg(test)]
mod tests {
    use tidelock_store::CommitId;
    use tidelock_store::plan::ReadRows;

    use super::*;
    use crate::commit::WriterCache;
    use crate::migrate;

    /// Schedule 120. An older program that had the file open during the migration continues, and
    /// does not know of retention.
    #[test]
    fn what_an_older_program_wakes_appends_to_or_remembers_stays() {
        let now = Timestamp::from_micros(1_000_000_000_000_000).unwrap();
        let mut connection = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut connection, now).unwrap();
        connection
            .execute_batch(
                "INSERT INTO tidelock_streams (name, version, first, closed, forget_at) VALUES ('s', 1, 2, 0, 5);
                 INSERT INTO tidelock_items (queue, key, lane, priority, at, mark, attempts, failures, expiries, blocked, forget_at)
                     VALUES ('q', 'k', 'main', 0, 1, 1, 0, 0, 0, 0, 5);
                 -- What follows is as the first version has it.
                 UPDATE tidelock_streams SET version = 2, first = 2, closed = 0 WHERE id = 1;
                 INSERT INTO tidelock_events VALUES (2, 1, 2, x'00', 'noted', '0', '{}', 7);
                 UPDATE tidelock_items SET mark = 2, due = 9, ready = 9;",
            )
            .unwrap();
        let id = CommitId::fresh();
        let committed = r#"{"at":"2001-09-09T01:46:40Z","appends":[],"writes":[]}"#;
        connection
            .execute(
                "INSERT OR REPLACE INTO tidelock_commits (id, fingerprint, committed, committed_at) VALUES (?1, ?2, ?3, ?4)",
                params![id.as_bytes(), [0_u8; 16], committed, now.micros()],
            )
            .unwrap();
        let mut cache = WriterCache::default();
        let mut transaction =
            Transaction { connection: &connection, cache: &mut cache, now, topics: None };
        while transaction.sweep(1).unwrap() {}
        let remembered = transaction.remembered(id).unwrap().unwrap();
        assert_eq!(remembered.forget_at, now.plus(limits::COMMIT_MEMORY));
        assert!(transaction.stream(&StreamName::new("s").unwrap()).unwrap().is_some());
        let item =
            transaction.item(&tidelock_store::ItemRef::parse("q", "k").unwrap()).unwrap().unwrap();
        assert_eq!(item.forget_at, None);
        assert!(!is_due(&connection, now).unwrap());

        let later = now.plus(limits::COMMIT_MEMORY);
        transaction.now = later;
        assert!(is_due(&connection, later).unwrap());
        transaction.sweep(10).unwrap();
        assert!(transaction.remembered(id).unwrap().is_none());
    }
}
