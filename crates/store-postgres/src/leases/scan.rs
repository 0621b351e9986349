//! Scans of ready items, without locks.
//!
//! A full scan begins at the front of the index; it finds the lanes and priorities one by one, and
//! in each its first item. A hinted scan begins where something was found before. Neither reads
//! idle items: they are not in the index.

use tidelock_store::plan::Candidate;
use tidelock_store::{ItemKey, LaneName, LeaseRequest, Priority, Result, StoreError, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::scan_hints::{ScanHint, ScanHints};
use crate::connect::Session;
use crate::error::{corrupt, failed};
use crate::log::{moment, text};
use crate::statement::{Statement, now};

/// Items to read beyond those that are wanted, because other sessions may be taking the same ones.
pub(super) const SPARE: usize = 32;

/// The lanes and priorities with anything ready, now or later, with the first moment of each: one
/// index lookup for each, however many items it has.
macro_rules! lanes {
    ($first:expr, $next:expr) => {
        concat!(
            "lanes AS (
                (SELECT lane, priority, ready FROM tidelock.items WHERE queue = $1 AND ready IS NOT NULL",
            $first,
            " ORDER BY lane, priority, ready LIMIT 1)
                UNION ALL
                SELECT n.lane, n.priority, n.ready FROM lanes l, LATERAL (
                    SELECT i.lane, i.priority, i.ready FROM tidelock.items i
                    WHERE i.queue = $1 AND i.ready IS NOT NULL AND ",
            $next,
            " ORDER BY i.lane, i.priority, i.ready LIMIT 1) n)"
        )
    };
}

/// Ready items, up to a number per lane and priority; each lane and priority, even if nothing in it
/// is ready; and the moment.
macro_rules! ready {
    ($lanes:expr) => {
        concat!(
            "WITH RECURSIVE moment AS MATERIALIZED (SELECT ",
            now!(),
            " AS now), ",
            $lanes,
            " SELECT moment.now, c.* FROM moment LEFT JOIN LATERAL (
                SELECT l.lane, l.priority, l.ready AS first, r.key, r.ready FROM lanes l LEFT JOIN LATERAL (
                    SELECT i.key, i.ready FROM tidelock.items i
                    WHERE i.queue = $1 AND i.lane = l.lane AND i.priority = l.priority
                        AND i.ready >= l.ready AND i.ready <= moment.now
                    ORDER BY i.ready, i.key LIMIT $2) r ON true) c ON true"
        )
    };
}

static WHOLE: Statement = Statement::new(
    ready!(lanes!("", "(i.lane, i.priority) > (l.lane, l.priority)")),
    &[Type::TEXT, Type::INT8],
);
static WHOLE_LANE: Statement = Statement::new(
    ready!(lanes!(" AND lane = $3", "i.lane = $3 AND i.priority > l.priority")),
    &[Type::TEXT, Type::INT8, Type::TEXT],
);
static FROM_FRONTS: Statement = Statement::new(
    ready!("lanes (lane, priority, ready) AS (SELECT * FROM unnest($3, $4, $5))"),
    &[Type::TEXT, Type::INT8, Type::TEXT_ARRAY, Type::INT2_ARRAY, Type::INT8_ARRAY],
);

/// When anything will be ready next.
pub(super) static NEXT_DUE: Statement = Statement::new(
    "SELECT min(r.ready) FROM unnest($2, $3, $4) AS l (lane, priority, ready), LATERAL (
        SELECT i.ready FROM tidelock.items i
        WHERE i.queue = $1 AND i.lane = l.lane AND i.priority = l.priority AND i.ready >= l.ready
        ORDER BY i.ready LIMIT 1) r",
    &[Type::TEXT, Type::TEXT_ARRAY, Type::INT2_ARRAY, Type::INT8_ARRAY],
);

/// The server's own estimate.
static DEAD_ROWS: Statement =
    Statement::new("SELECT pg_stat_get_dead_tuples('tidelock.items'::regclass)", &[]);

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
        None => session.query(&WHOLE, &[&queue, &most]).await,
        Some(lane) => session.query(&WHOLE_LANE, &[&queue, &most, &lane.as_str()]).await,
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
            &FROM_FRONTS,
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
