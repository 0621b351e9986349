//! Record reads.

use rusqlite::{Connection, Row, params};
use tidelock_store::plan::{RecordRow, stored_json};
use tidelock_store::{
    RecordKey, RecordPage, RecordQuery, Result, Revision, Slot, Timestamp, limits,
};

use crate::error::{corrupt, failed};
use crate::log::{number, text};
use crate::reader::Reader;

/// SQLite seeks by one lower bound only and scans from there, so it is given the higher of prefix
/// and last key.
pub(crate) const SCAN: &str = "SELECT revision, value, expires_at, key FROM tidelock_records
     WHERE key >= ?1 AND key <> ?2 ORDER BY key LIMIT ?3";

pub(crate) fn get(reader: &Reader, keys: &[RecordKey], now: Timestamp) -> Result<Vec<Slot>> {
    let slot = |key| {
        Ok(find_record(&reader.connection, key)?.map_or(Slot::Absent, |row| row.slot(key, now)))
    };
    keys.iter().map(slot).collect()
}

pub(crate) fn scan(reader: &Reader, query: &RecordQuery, now: Timestamp) -> Result<RecordPage> {
    let mut statement = reader.connection.prepare_cached(SCAN).map_err(failed)?;
    let after = query.after.as_ref().map_or("", RecordKey::as_str);
    let from = query.prefix.as_str().max(after);
    // One more than the scan limit, to know whether there may be more.
    let mut rows =
        statement.query(params![from, after, limits::FEED_SCAN as i64 + 1]).map_err(failed)?;
    let mut page = RecordPage { records: Vec::new(), next: None };
    let mut last = None;
    for seen in 0.. {
        let Some(row) = rows.next().map_err(failed)? else { break };
        let key = text(row, 3)?;
        if !key.starts_with(&query.prefix) {
            break;
        }
        if page.records.len() == query.limit || seen == limits::FEED_SCAN {
            page.next = last;
            break;
        }
        let key = RecordKey::new(key)?;
        page.records.extend(record(row)?.slot(&key, now).into_live());
        last = Some(key);
    }
    Ok(page)
}

pub(crate) fn find_record(connection: &Connection, key: &RecordKey) -> Result<Option<RecordRow>> {
    let sql = "SELECT revision, value, expires_at FROM tidelock_records WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query([key.as_str()]).map_err(failed)?;
    rows.next().map_err(failed)?.map(record).transpose()
}

fn record(row: &Row<'_>) -> Result<RecordRow> {
    read_record(row).map_err(corrupt)
}

fn read_record(row: &Row<'_>) -> Result<RecordRow> {
    let value = row.get_ref(1).and_then(|value| Ok(value.as_str_or_null()?)).map_err(failed)?;
    let expires_at: Option<i64> = row.get(2).map_err(failed)?;
    Ok(RecordRow {
        revision: Revision::new(number(row, 0)?)?,
        value: value.map(stored_json),
        expires_at: expires_at.map(Timestamp::from_micros).transpose()?,
    })
}
