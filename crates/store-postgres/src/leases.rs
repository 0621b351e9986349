//! Leasing, renewing, listing and adjusting work items.
//!
//! Leasing takes two statements. The first looks, without locks, at what is ready in each lane; which of it to take, and in
//! what order, is the contract's rule and not SQL's. The second locks those it takes, skips what somebody else is taking
//! at that moment, looks again whether each is still ready, and writes the leases. Both look at what is ready only,
//! through an index that holds nothing else.

use std::collections::HashMap;
use std::time::Duration;

use tidelock_store::plan::{Candidate, Turns};
use tidelock_store::{
    Adjustment, Fence, Holder, Item, ItemKey, ItemPage, ItemQuery, ItemRef, LaneName, Lease, LeaseRequest,
    LeaseToken, Leased, Mark, Priority, QueueName, Renewal, Result, StoreError, Timestamp, WorkerName,
    limits,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::{commit_failed, corrupt, failed};
use crate::link::Link;
use crate::log::{moment, number, text};
use crate::session::Session;
use crate::statement::{Statement, now};

/// How many candidates to look at beyond those that are wanted, because others may be taking the same ones.
const SPARE: usize = 32;

/// How often to look again when others have taken everything that was looked at.
const TRIES: usize = 5;

/// How long to wait before looking again at a row that was locked: first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The columns of an item, in the order in which [`item`] reads them.
macro_rules! item_columns {
    () => {
        "i.queue, i.key, i.lane, i.priority, i.at, i.mark, i.due, i.hold, i.attempts, i.failures, i.expiries, \
         i.blocked, i.error, i.fence, i.worker, i.since, i.deadline, i.settled"
    };
}
pub(crate) use item_columns;

/// The lanes and priorities in which anything is or will be ready: one look into the index for each, however many items are
/// in it.
macro_rules! lanes {
    ($first:expr, $next:expr) => {
        concat!(
            "lanes AS (
                (SELECT lane, priority FROM tidelock.items WHERE queue = $1 AND ready IS NOT NULL",
            $first,
            " ORDER BY lane, priority LIMIT 1)
                UNION ALL
                SELECT n.lane, n.priority FROM lanes l, LATERAL (
                    SELECT i.lane, i.priority FROM tidelock.items i
                    WHERE i.queue = $1 AND i.ready IS NOT NULL AND ",
            $next,
            " ORDER BY i.lane, i.priority LIMIT 1) n)"
        )
    };
}

macro_rules! all_lanes {
    () => {
        lanes!("", "(i.lane, i.priority) > (l.lane, l.priority)")
    };
}

macro_rules! one_lane {
    ($lane:literal) => {
        lanes!(concat!(" AND lane = ", $lane), concat!("i.lane = ", $lane, " AND i.priority > l.priority"))
    };
}

/// What is ready, so many of each lane and priority; and the moment.
macro_rules! candidates {
    ($lanes:expr) => {
        concat!(
            "WITH RECURSIVE moment AS MATERIALIZED (SELECT ",
            now!(),
            " AS now), ",
            $lanes,
            " SELECT moment.now, c.* FROM moment LEFT JOIN LATERAL (
                SELECT l.priority, r.key, r.ready FROM lanes l, LATERAL (
                    SELECT i.key, i.ready FROM tidelock.items i
                    WHERE i.queue = $1 AND i.lane = l.lane AND i.priority = l.priority AND i.ready <= moment.now
                    ORDER BY i.ready, i.key LIMIT $2) r) c ON true"
        )
    };
}

/// When anything will be ready next.
macro_rules! next_due {
    ($lanes:expr) => {
        concat!(
            "WITH RECURSIVE ",
            $lanes,
            " SELECT min(r.ready) FROM lanes l, LATERAL (
                SELECT i.ready FROM tidelock.items i
                WHERE i.queue = $1 AND i.lane = l.lane AND i.priority = l.priority AND i.ready IS NOT NULL
                ORDER BY i.ready LIMIT 1) r"
        )
    };
}

static CANDIDATES: Statement = Statement::new(candidates!(all_lanes!()), &[Type::TEXT, Type::INT8]);
static CANDIDATES_IN_LANE: Statement =
    Statement::new(candidates!(one_lane!("$3")), &[Type::TEXT, Type::INT8, Type::TEXT]);
static NEXT_DUE: Statement = Statement::new(next_due!(all_lanes!()), &[Type::TEXT]);
static NEXT_DUE_IN_LANE: Statement = Statement::new(next_due!(one_lane!("$2")), &[Type::TEXT, Type::TEXT]);

/// Locks no more than it takes: the lock is asked for in the order of the candidates, until there are enough. A row that
/// changed since it was looked at is judged anew, as it is now.
static GRANT: Statement = Statement::new(
    concat!(
        "WITH moment AS MATERIALIZED (
            SELECT greatest(tidelock.calendar() + shift, clock) AS now, epoch AS floor FROM tidelock.meta),
         taken AS MATERIALIZED (
            SELECT i.queue, i.key, c.nth FROM unnest($2) WITH ORDINALITY AS c (key, nth)
            JOIN tidelock.items i ON i.queue = $1 AND i.key = c.key
            WHERE i.ready <= (SELECT now FROM moment)
            ORDER BY c.nth LIMIT $3 FOR UPDATE OF i SKIP LOCKED)
         UPDATE tidelock.items i SET
            attempts = i.attempts + 1, expiries = i.expiries + CASE WHEN i.worker IS NULL THEN 0 ELSE 1 END,
            fence = greatest(i.fence, floor) + 1, worker = $4, since = now, deadline = now + $5, ready = now + $5,
            settled = NULL, due = CASE WHEN i.due > now THEN i.due END, hold = NULL
         FROM taken t, moment WHERE i.queue = t.queue AND i.key = t.key
         RETURNING t.nth, now, ",
        item_columns!()
    ),
    &[Type::TEXT, Type::TEXT_ARRAY, Type::INT8, Type::TEXT, Type::INT8],
);

/// For each token in turn: whether there is such an item, whether the lease stands and was extended, and the item as it
/// is, unless its row is locked. It never waits: a row that is locked must not keep other renewals waiting.
static RENEW: Statement = Statement::new(
    concat!(
        "WITH moment AS MATERIALIZED (SELECT ",
        now!(),
        " AS now),
         asked AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3) WITH ORDINALITY AS a (queue, key, fence, nth)),
         locked AS MATERIALIZED (
            SELECT i.* FROM (SELECT DISTINCT queue, key FROM asked) a
            JOIN tidelock.items i ON i.queue = a.queue AND i.key = a.key
            ORDER BY i.queue, i.key FOR NO KEY UPDATE OF i SKIP LOCKED),
         renewed AS (
            UPDATE tidelock.items i SET deadline = greatest(i.deadline, now + $4),
                ready = CASE WHEN NOT i.blocked THEN greatest(i.deadline, now + $4, i.hold) END
            FROM locked l, moment
            WHERE i.queue = l.queue AND i.key = l.key AND i.worker IS NOT NULL AND i.fence IN (
                SELECT a.fence FROM asked a WHERE a.queue = l.queue AND a.key = l.key)
            RETURNING i.queue, i.key, i.fence, i.deadline)
         SELECT EXISTS (SELECT FROM tidelock.items t WHERE t.queue = a.queue AND t.key = a.key), r.deadline, ",
        item_columns!(),
        " FROM asked a LEFT JOIN locked i ON i.queue = a.queue AND i.key = a.key
         LEFT JOIN renewed r ON r.queue = a.queue AND r.key = a.key AND r.fence = a.fence ORDER BY a.nth"
    ),
    &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::INT8],
);

static LIST: Statement = Statement::new(
    concat!(
        "SELECT ",
        item_columns!(),
        " FROM tidelock.items i WHERE (i.queue, i.key) > ($1, $2) ORDER BY i.queue, i.key LIMIT $3"
    ),
    &[Type::TEXT, Type::TEXT, Type::INT8],
);

pub(crate) async fn lease(link: &Link, request: &LeaseRequest, turns: &Turns) -> Result<Leased> {
    let session = link.session().await?;
    for _ in 0..TRIES {
        let (now, candidates) = candidates(&session, request).await?;
        if candidates.is_empty() {
            let next_due = next_due(&session, request).await?;
            return Ok(Leased { at: now, leases: Vec::new(), next_due });
        }
        let enough = candidates.len() < request.limit + SPARE;
        let order = turns.order(request, candidates, request.limit + SPARE);
        let granted = grant(&session, request, &order).await?;
        if let Some((now, leases)) = granted {
            turns.count(request, leases.len());
            let next_due = next_due(&session, request).await?;
            return Ok(Leased { at: now, leases, next_due });
        }
        if enough {
            // Others are taking the little there is at this very moment.
            break;
        }
    }
    let (now, _) = candidates(&session, request).await?;
    Ok(Leased { at: now, leases: Vec::new(), next_due: next_due(&session, request).await? })
}

async fn candidates(session: &Session, request: &LeaseRequest) -> Result<(Timestamp, Vec<Candidate>)> {
    let (queue, most) = (request.queue.as_str(), (request.limit + SPARE) as i64);
    let rows = match &request.lane {
        None => session.query(&CANDIDATES, &[&queue, &most]).await,
        Some(lane) => session.query(&CANDIDATES_IN_LANE, &[&queue, &most, &lane.as_str()]).await,
    };
    let rows = rows.map_err(failed)?;
    let now = rows.first().ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
    let now = Timestamp::from_micros(now.try_get(0).map_err(failed)?)?;
    let ready = rows.iter().filter(|row| row.try_get::<_, Option<i16>>(1).is_ok_and(|p| p.is_some()));
    Ok((now, ready.map(candidate).collect::<Result<_>>().map_err(corrupt)?))
}

fn candidate(row: &Row) -> Result<Candidate> {
    Ok(Candidate {
        priority: Priority::new(row.try_get(1).map_err(failed)?)?,
        key: ItemKey::new(text(row, 2)?)?,
        ready_at: Timestamp::from_micros(row.try_get(3).map_err(failed)?)?,
    })
}

/// Takes as many as are wanted; nothing if others were quicker with all of them.
async fn grant(
    session: &Session,
    request: &LeaseRequest,
    order: &[ItemKey],
) -> Result<Option<(Timestamp, Vec<Lease>)>> {
    let keys: Vec<&str> = order.iter().map(ItemKey::as_str).collect();
    let duration = micros(request.duration);
    let rows = session
        .query(
            &GRANT,
            &[&request.queue.as_str(), &keys, &(request.limit as i64), &request.worker.as_str(), &duration],
        )
        .await
        .map_err(commit_failed)?;
    let Some(first) = rows.first() else { return Ok(None) };
    let now = Timestamp::from_micros(first.try_get(1).map_err(failed)?)?;
    let mut granted = rows.iter().map(granted).collect::<Result<Vec<_>>>()?;
    granted.sort_by_key(|(nth, _)| *nth);
    Ok(Some((now, granted.into_iter().map(|(_, lease)| lease).collect())))
}

fn granted(row: &Row) -> Result<(i64, Lease)> {
    let item = item(row, 2)?;
    let (Some(fence), Some(holder)) = (item.fence, item.holder) else {
        return Err(StoreError::corrupt(format!("{} was leased and has no holder", item.item)));
    };
    let lease = Lease {
        item: item.item,
        fence,
        at: item.at,
        mark: item.mark,
        deadline: holder.deadline,
        attempts: item.attempts,
        failures: item.failures,
        expiries: item.expiries,
        lane: item.lane,
        priority: item.priority,
    };
    Ok((row.try_get(0).map_err(failed)?, lease))
}

async fn next_due(session: &Session, request: &LeaseRequest) -> Result<Option<Timestamp>> {
    let queue = request.queue.as_str();
    let rows = match &request.lane {
        None => session.query(&NEXT_DUE, &[&queue]).await,
        Some(lane) => session.query(&NEXT_DUE_IN_LANE, &[&queue, &lane.as_str()]).await,
    };
    rows.map_err(failed)?.first().map_or(Ok(None), |row| moment(row, 0))
}

/// Renews what it can at once, and looks again for those whose rows are locked until each is known.
pub(crate) async fn renew(link: &Link, tokens: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
    let mut renewals: Vec<Option<Renewal>> = tokens.iter().map(|_| None).collect();
    let mut pause = FIRST_PAUSE;
    loop {
        let left: Vec<usize> = (0..tokens.len()).filter(|at| renewals[*at].is_none()).collect();
        if left.is_empty() {
            return Ok(in_turn(tokens, renewals.into_iter().flatten().collect()));
        }
        let asked: Vec<&LeaseToken> = left.iter().map(|at| &tokens[*at]).collect();
        for (at, known) in left.into_iter().zip(renew_free(link, &asked, duration).await?) {
            renewals[at] = known;
        }
        if renewals.iter().any(Option::is_none) {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Renews those whose rows nobody has locked; nothing for the others.
async fn renew_free(link: &Link, tokens: &[&LeaseToken], duration: Duration) -> Result<Vec<Option<Renewal>>> {
    let queues: Vec<&str> = tokens.iter().map(|token| token.item.queue.as_str()).collect();
    let keys: Vec<&str> = tokens.iter().map(|token| token.item.key.as_str()).collect();
    let fences: Vec<i64> = tokens.iter().map(|token| token.fence.get() as i64).collect();
    // A renewal that is made twice is made once, so a lost connection is no reason to give the leases up.
    let rows = link.read(&RENEW, &[&queues, &keys, &fences, &micros(duration)]).await?;
    rows.iter().map(renewal).collect()
}

/// An item is shown as it was before the call; if a token before this one has extended its lease, that shows too.
fn in_turn(tokens: &[LeaseToken], mut renewals: Vec<Renewal>) -> Vec<Renewal> {
    let mut extended: HashMap<&ItemRef, Timestamp> = HashMap::new();
    for (token, renewal) in tokens.iter().zip(&mut renewals) {
        match renewal {
            Renewal::Renewed(deadline) => {
                extended.insert(&token.item, *deadline);
            }
            Renewal::Lost(Some(item)) => {
                if let (Some(deadline), Some(holder)) = (extended.get(&token.item), &mut item.holder) {
                    holder.deadline = *deadline;
                }
            }
            Renewal::Lost(None) => {}
        }
    }
    renewals
}

/// Nothing if there is such an item, and its row is locked.
fn renewal(row: &Row) -> Result<Option<Renewal>> {
    if let Some(deadline) = moment(row, 1)? {
        return Ok(Some(Renewal::Renewed(deadline)));
    }
    let exists: bool = row.try_get(0).map_err(failed)?;
    let seen: Option<&str> = row.try_get(2).map_err(failed)?;
    match (exists, seen) {
        (_, Some(_)) => Ok(Some(Renewal::Lost(Some(Box::new(item(row, 2)?))))),
        (true, None) => Ok(None),
        (false, None) => Ok(Some(Renewal::Lost(None))),
    }
}

pub(crate) async fn list(link: &Link, query: &ItemQuery) -> Result<ItemPage> {
    let prefix = query.filter.queue.prefix();
    let after = query.after.as_ref().filter(|item| item.queue.as_str() >= prefix);
    let mut after = after.map_or((prefix.to_owned(), String::new()), |item| {
        (item.queue.as_str().to_owned(), item.key.as_str().to_owned())
    });
    let mut page = ItemPage { items: Vec::new(), next: None };
    let mut left = limits::FEED_SCAN;
    loop {
        let chunk = (query.limit + 1).min(left);
        let rows = link.read(&LIST, &[&after.0, &after.1, &(chunk as i64)]).await?;
        for (nth, row) in rows.iter().enumerate() {
            let queue = text(row, 0)?;
            if !queue.starts_with(prefix) {
                return Ok(page);
            }
            if page.items.len() == query.limit {
                page.next = Some(ItemRef::parse(&after.0, &after.1)?);
                return Ok(page);
            }
            let item = item(row, 0)?;
            after = (queue.to_owned(), item.item.key.as_str().to_owned());
            page.items.extend(query.filter.matches(&item).then_some(item));
            left -= 1;
            debug_assert!(nth < chunk);
        }
        if rows.len() < chunk {
            return Ok(page);
        }
        if left == 0 {
            page.next = Some(ItemRef::parse(&after.0, &after.1)?);
            return Ok(page);
        }
    }
}

/// What those of the items become that the adjustment changes.
pub(crate) fn adjusted(items: &[&Item], adjustment: &Adjustment, now: Timestamp) -> Vec<Item> {
    let adjust = |item: &&Item| {
        let mut item = (*item).clone();
        adjustment.apply(&mut item, now).then_some(item)
    };
    items.iter().filter_map(adjust).collect()
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Reads the columns of `item_columns!`, from this one on.
pub(crate) fn item(row: &Row, from: usize) -> Result<Item> {
    read_item(row, from).map_err(corrupt)
}

fn read_item(row: &Row, from: usize) -> Result<Item> {
    let count = |column: usize| -> Result<u32> {
        let count: i32 = row.try_get(from + column).map_err(failed)?;
        Ok(u32::try_from(count).unwrap_or(0))
    };
    let fence: Option<i64> = row.try_get(from + 13).map_err(failed)?;
    let settled: Option<&str> = row.try_get(from + 17).map_err(failed)?;
    Ok(Item {
        item: ItemRef { queue: QueueName::new(text(row, from)?)?, key: ItemKey::new(text(row, from + 1)?)? },
        lane: LaneName::new(text(row, from + 2)?)?,
        priority: Priority::new(row.try_get(from + 3).map_err(failed)?)?,
        at: Mark::new(number(row, from + 4)?)?,
        mark: Mark::new(number(row, from + 5)?)?,
        due: moment(row, from + 6)?,
        hold: moment(row, from + 7)?,
        attempts: count(8)?,
        failures: count(9)?,
        expiries: count(10)?,
        blocked: row.try_get(from + 11).map_err(failed)?,
        error: row.try_get(from + 12).map_err(failed)?,
        fence: fence.map(|fence| Fence::new(fence as u64)).transpose()?,
        holder: holder(row, from + 14)?,
        settled: settled.map(str::parse).transpose()?,
    })
}

fn holder(row: &Row, from: usize) -> Result<Option<Holder>> {
    let worker: Option<&str> = row.try_get(from).map_err(failed)?;
    let (Some(worker), Some(since), Some(deadline)) =
        (worker, moment(row, from + 1)?, moment(row, from + 2)?)
    else {
        return Ok(None);
    };
    Ok(Some(Holder { worker: WorkerName::new(worker)?, since, deadline }))
}
