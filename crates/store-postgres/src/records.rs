//! Record reads.

use tidelock_store::plan::{RecordRow, stored_json};
use tidelock_store::{
    RecordKey, RecordPage, RecordQuery, Result, Revision, Slot, Timestamp, limits,
};
use tokio_postgres::Row;

use crate::connect::LazyConnection;
use crate::error::{corrupt, failed};
use crate::log::{moment, number, text};
use crate::read_column::ReadColumn;
use crate::statement::{Statement, statement};

static GET_RECORDS: Statement = statement!(
    "WITH moment AS MATERIALIZED (SELECT :now AS now)
     SELECT moment.now, :record_columns
     FROM moment LEFT JOIN tidelock.records r ON r.key = ANY ($1)": TEXT_ARRAY);
static SCAN_RECORDS: Statement = statement!(file "scan_records": TEXT, TEXT, INT8);

pub(crate) async fn get(connection: &LazyConnection, keys: &[RecordKey]) -> Result<Vec<Slot>> {
    let asked: Vec<&str> = keys.iter().map(RecordKey::as_str).collect();
    let rows = connection.read(&GET_RECORDS, &[&asked]).await?;
    let mut found = std::collections::HashMap::new();
    for row in rows.iter().filter(|row| has_record(row)) {
        let key = RecordKey::new(text(row, 1)?).map_err(corrupt)?;
        let slot = record(row, 1)?.slot(&key, now(row)?);
        found.insert(key, slot);
    }
    Ok(keys.iter().map(|key| found.get(key).cloned().unwrap_or(Slot::Absent)).collect())
}

pub(crate) async fn scan(connection: &LazyConnection, query: &RecordQuery) -> Result<RecordPage> {
    let mut page = RecordPage { records: Vec::new(), next: None };
    let mut after = query.after.clone();
    let mut left = limits::FEED_SCAN;
    loop {
        let chunk = (query.limit + 1).min(left);
        let seen = scan_on(connection, query, after.as_ref(), chunk, &mut page).await?;
        left -= seen.rows;
        match seen.last {
            // The page is full, or there is no more.
            None => return Ok(page),
            last if left == 0 => {
                page.next = last;
                return Ok(page);
            }
            last => after = last,
        }
    }
}

/// The result of scanning some rows.
struct Seen {
    rows: usize,
    /// Where to continue, if there may be more.
    last: Option<RecordKey>,
}

async fn scan_on(
    connection: &LazyConnection,
    query: &RecordQuery,
    after: Option<&RecordKey>,
    chunk: usize,
    page: &mut RecordPage,
) -> Result<Seen> {
    let name = after.map_or("", RecordKey::as_str);
    let from = query.prefix.as_str().max(name);
    let rows = connection.read(&SCAN_RECORDS, &[&from, &name, &(chunk as i64)]).await?;
    let mut seen = Seen { rows: 0, last: None };
    for row in rows.iter().filter(|row| has_record(row)) {
        let key = RecordKey::new(text(row, 1)?).map_err(corrupt)?;
        if !key.as_str().starts_with(&query.prefix) {
            return Ok(Seen { last: None, ..seen });
        }
        if page.records.len() == query.limit {
            page.next = seen.last.take().or_else(|| after.cloned());
            return Ok(seen);
        }
        page.records.extend(record(row, 1)?.slot(&key, now(row)?).into_live());
        seen.rows += 1;
        seen.last = Some(key);
    }
    if seen.rows < chunk {
        seen.last = None;
    }
    Ok(seen)
}

fn has_record(row: &Row) -> bool {
    row.try_get::<_, Option<&str>>(1).is_ok_and(|key| key.is_some())
}

fn now(row: &Row) -> Result<Timestamp> {
    Timestamp::from_micros(row.try_get(0).map_err(failed)?)
}

/// Reads `:record_columns`, from this one on.
pub(crate) fn record(row: &impl ReadColumn, from: usize) -> Result<RecordRow> {
    read_record(row, from).map_err(corrupt)
}

fn read_record(row: &impl ReadColumn, from: usize) -> Result<RecordRow> {
    let value: Option<&str> = row.column(from + 2)?;
    Ok(RecordRow {
        revision: Revision::new(number(row, from + 1)?)?,
        value: value.map(stored_json),
        expires_at: moment(row, from + 3)?,
    })
}
