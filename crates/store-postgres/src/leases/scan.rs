//! Scans of ready items, without locks.
//!
//! A full scan begins at the front of the index; it finds the lanes and priorities one by one, and
//! in each its first item. A hinted scan begins where something was found before. Neither reads
//! idle items: they are not in the index.

use tidelock_store::plan::Candidate;
use tidelock_store::{ItemKey, LaneName, LeaseRequest, Priority, Result, StoreError, Timestamp};
use tokio_postgres::Row;

use super::scan_hints::{ScanHint, ScanHints};
use crate::connect::Session;
use crate::error::{corrupt, failed};
use crate::log::{moment, text};
use crate::statement::{Statement, statement};

/// Items to read beyond those that are wanted, because other sessions may be taking the same ones.
pub(super) const SPARE: usize = 32;

/// Ready items of a queue, of one of its lanes, or from hints on. The first two find the lanes and
/// priorities with anything ready, now or later: one index lookup for each, however many items it
/// has.
static SCAN_QUEUE: Statement = statement!(file "scan_queue": TEXT, INT8);
static SCAN_LANE: Statement = statement!(file "scan_lane": TEXT, INT8, TEXT);
static SCAN_FROM_HINTS: Statement =
    statement!(file "scan_from_hints": TEXT, INT8, TEXT_ARRAY, INT2_ARRAY, INT8_ARRAY);
/// When anything will be ready next.
pub(super) static NEXT_DUE: Statement =
    statement!(file "next_due": TEXT, TEXT_ARRAY, INT2_ARRAY, INT8_ARRAY);
/// The server's own estimate.
static DEAD_ROWS: Statement =
    statement!("SELECT pg_stat_get_dead_tuples('tidelock.items'::regclass)");

/// The result of a scan.
#[derive(Debug)]
pub(super) struct Scan {
    /// The moment of the scan.
    pub(super) now: Timestamp,
    /// Each lane and priority that it passed.
    pub(super) hints: Vec<ScanHint>,
    /// Ready items; per lane and priority no more than could be wanted.
    pub(super) ready: Vec<Candidate>,
}

impl Scan {
    /// When something will be ready, after a full scan that found nothing.
    pub(super) fn next_due(&self) -> Result<Option<Timestamp>> {
        self.hints.iter().map(|hint| hint.first).min().map(Timestamp::from_micros).transpose()
    }
}

/// Scans from the beginning. From time to time it also asks for the number of dead rows.
pub(super) async fn whole(
    session: &Session,
    request: &LeaseRequest,
    hints: &ScanHints,
) -> Result<Scan> {
    let (rows, ()) = tokio::join!(ask_whole(session, request), count_dead(session, hints));
    read(&rows.map_err(failed)?)
}

async fn ask_whole(
    session: &Session,
    request: &LeaseRequest,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let (queue, most) = (request.queue.as_str(), most(request));
    match &request.lane {
        None => session.query(&SCAN_QUEUE, &[&queue, &most]).await,
        Some(lane) => session.query(&SCAN_LANE, &[&queue, &most, &lane.as_str()]).await,
    }
}

/// If the server does not tell, no row is assumed dead.
async fn count_dead(session: &Session, hints: &ScanHints) {
    if hints.wants_count() {
        let rows = session.query(&DEAD_ROWS, &[]).await.unwrap_or_default();
        let dead: Option<i64> = rows.first().and_then(|row| row.try_get(0).ok());
        hints.counted(dead.unwrap_or_default().unsigned_abs());
    }
}

/// Scans from the hints on.
pub(super) async fn from(
    session: &Session,
    request: &LeaseRequest,
    hints: &[ScanHint],
) -> Result<Scan> {
    let (lanes, priorities, firsts) = columns(hints);
    let rows = session
        .query(
            &SCAN_FROM_HINTS,
            &[&request.queue.as_str(), &most(request), &lanes, &priorities, &firsts],
        )
        .await;
    read(&rows.map_err(failed)?)
}

/// When anything will be ready next, if nothing is before the hints.
pub(super) async fn next_due(
    session: &Session,
    request: &LeaseRequest,
    hints: &[ScanHint],
) -> Result<Option<Timestamp>> {
    let (lanes, priorities, firsts) = columns(hints);
    let rows =
        session.query(&NEXT_DUE, &[&request.queue.as_str(), &lanes, &priorities, &firsts]).await;
    rows.map_err(failed)?.first().map_or(Ok(None), |row| moment(row, 0))
}

fn most(request: &LeaseRequest) -> i64 {
    (request.limit + SPARE) as i64
}

fn columns(hints: &[ScanHint]) -> (Vec<&str>, Vec<i16>, Vec<i64>) {
    let lanes = hints.iter().map(|hint| hint.lane.as_str()).collect();
    let priorities = hints.iter().map(|hint| hint.priority.get()).collect();
    (lanes, priorities, hints.iter().map(|hint| hint.first).collect())
}

fn read(rows: &[Row]) -> Result<Scan> {
    let now =
        rows.first().ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
    let now = Timestamp::from_micros(now.try_get(0).map_err(failed)?)?;
    let mut scan = Scan { now, hints: Vec::new(), ready: Vec::new() };
    for row in rows {
        // One row without a lane means that there is none.
        if row.try_get::<_, Option<&str>>(1).map_err(failed)?.is_some() {
            add(&mut scan, row).map_err(corrupt)?;
        }
    }
    Ok(scan)
}

/// The rows of a lane and priority are consecutive, longest ready first.
fn add(scan: &mut Scan, row: &Row) -> Result<()> {
    let (lane, priority) = (text(row, 1)?, Priority::new(row.try_get(2).map_err(failed)?)?);
    let ready = moment(row, 5)?;
    let known =
        scan.hints.last().is_some_and(|l| l.lane.as_str() == lane && l.priority == priority);
    if !known {
        let first: i64 = row.try_get(3).map_err(failed)?;
        let first = ready.map_or(first.max(scan.now.micros()), Timestamp::micros);
        scan.hints.push(ScanHint { lane: LaneName::new(lane)?, priority, first });
    }
    if let Some(ready_at) = ready {
        scan.ready.push(Candidate { priority, key: ItemKey::new(text(row, 4)?)?, ready_at });
    }
    Ok(())
}
