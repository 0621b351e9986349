//! Leases: granting, renewing, listing and adjusting work items.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{Connection, Row, params};
use tidelock_store::plan::{Candidate, FairShare};
use tidelock_store::{
    Adjusted, Adjustment, Fence, Item, ItemFilter, ItemKey, ItemPage, ItemQuery, ItemRef, LaneName,
    LeaseHolder, LeaseRequest, LeaseToken, Leased, Mark, Priority, QueueName, Renewal, Result,
    SettleKind, StoreError, Timestamp, Topic, WorkerName, limits,
};

use crate::error::{corrupt, failed};
use crate::log::{moment, number, text};
use crate::reader::Reader;

/// Items that an adjustment changes per transaction, so that other writers get a turn.
pub(crate) const ADJUSTED_AT_ONCE: usize = 500;

/// The columns of an item, in the order in which [`item`] reads them.
macro_rules! item_columns {
    () => {
        "queue, key, lane, priority, at, mark, due, hold, attempts, failures, expiries, blocked, error, fence, \
         worker, since, deadline, settled, forget_at"
    };
}

const PUT: &str = concat!(
    "INSERT INTO tidelock_items (",
    item_columns!(),
    ", ready) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
     ON CONFLICT (queue, key) DO UPDATE SET
        lane = ?3, priority = ?4, at = ?5, mark = ?6, due = ?7, hold = ?8, attempts = ?9, failures = ?10,
        expiries = ?11, blocked = ?12, error = ?13, fence = ?14, worker = ?15, since = ?16, deadline = ?17,
        settled = ?18, forget_at = ?19, ready = ?20"
);
const FIND: &str =
    concat!("SELECT ", item_columns!(), " FROM tidelock_items WHERE queue = ?1 AND key = ?2");
const LIST: &str = concat!(
    "SELECT ",
    item_columns!(),
    " FROM tidelock_items WHERE (queue, key) > (?1, ?2) ORDER BY queue, key LIMIT ?3"
);
// The index is named: by default SQLite prefers the table, and scans idle rows.
const LIST_BLOCKED: &str = concat!(
    "SELECT ",
    item_columns!(),
    " FROM tidelock_items INDEXED BY tidelock_items_blocked \
        WHERE blocked = 1 AND (queue, key) > (?1, ?2) ORDER BY queue, key LIMIT ?3"
);
const LIST_HELD: &str = concat!(
    "SELECT ",
    item_columns!(),
    " FROM tidelock_items INDEXED BY tidelock_items_held \
        WHERE worker IS NOT NULL AND (queue, key) > (?1, ?2) ORDER BY queue, key LIMIT ?3"
);

/// The next lane and priority with anything ready, now or later.
///
/// SQLite begins a row comparison at the first equal row, and would scan everything that is ready
/// in the previous lane. So the last possible moment stands for the end of that lane.
const NEXT_LANE: &str = "SELECT lane, priority FROM tidelock_items
     WHERE queue = ?1 AND (lane, priority, ready) > (?2, ?3, 9223372036854775807) AND ready IS NOT NULL
     ORDER BY lane, priority LIMIT 1";
const READY: &str = "SELECT key, ready FROM tidelock_items
     WHERE queue = ?1 AND lane = ?2 AND priority = ?3 AND ready <= ?4
     ORDER BY ready, key LIMIT ?5";
const FIRST_READY: &str = "SELECT ready FROM tidelock_items
     WHERE queue = ?1 AND lane = ?2 AND priority = ?3 AND ready IS NOT NULL
     ORDER BY ready LIMIT 1";

/// The statements that find items to lease.
#[cfg(test)]
pub(crate) const LOOKUPS: &[&str] = &[NEXT_LANE, READY, FIRST_READY];

pub(crate) fn lease(
    connection: &Connection,
    request: &LeaseRequest,
    fair_share: &FairShare,
    now: Timestamp,
    fence_floor: u64,
) -> Result<Leased> {
    let lanes = lanes(connection, request)?;
    let mut candidates = Vec::new();
    for lane in &lanes {
        lane.add_ready(connection, request, now, &mut candidates)?;
    }
    let mut leases = Vec::new();
    for key in fair_share.choose(request, candidates) {
        let name = ItemRef { queue: request.queue.clone(), key };
        let found = find_item(connection, &name)?;
        let mut item = found
            .ok_or_else(|| StoreError::corrupt(format!("{name} is in an index and not there")))?;
        leases.push(item.grant(&request.worker, request.duration, now, fence_floor));
        put_item(connection, &item)?;
    }
    let mut next_due = None;
    for lane in &lanes {
        next_due = earlier(next_due, lane.first_ready(connection, &request.queue)?);
    }
    Ok(Leased { at: now, leases, next_due })
}

pub(crate) fn renew(
    connection: &Connection,
    token: &LeaseToken,
    duration: Duration,
    now: Timestamp,
) -> Result<Renewal> {
    let Some(mut item) = find_item(connection, &token.item)? else {
        return Ok(Renewal::Lost(None));
    };
    match item.renew(token, duration, now) {
        Some(deadline) => {
            put_item(connection, &item)?;
            Ok(Renewal::Renewed(deadline))
        }
        None => Ok(Renewal::Lost(Some(Box::new(item)))),
    }
}

pub(crate) fn list(reader: &Reader, query: &ItemQuery) -> Result<ItemPage> {
    page(&reader.connection, query)
}

/// Adjusts the next items after that one; returns where to continue, if there may be more.
pub(crate) fn adjust_some(
    connection: &Connection,
    filter: &ItemFilter,
    adjustment: &Adjustment,
    after: Option<ItemRef>,
    now: Timestamp,
) -> Result<(Adjusted, HashSet<Topic>, Option<ItemRef>)> {
    let query = ItemQuery { filter: filter.clone(), after, limit: ADJUSTED_AT_ONCE };
    let page = page(connection, &query)?;
    let mut adjusted = Adjusted { matched: page.items.len() as u64, changed: 0 };
    let mut topics = HashSet::new();
    for mut item in page.items {
        if adjustment.apply(&mut item, now) {
            adjusted.changed += 1;
            topics.insert(Topic::Queue(item.item.queue.clone()));
            put_item(connection, &item)?;
        }
    }
    Ok((adjusted, topics, page.next))
}

pub(crate) fn find_item(connection: &Connection, name: &ItemRef) -> Result<Option<Item>> {
    find(connection, name.queue.as_str(), name.key.as_str())
}

fn find(connection: &Connection, queue: &str, key: &str) -> Result<Option<Item>> {
    let mut statement = connection.prepare_cached(FIND).map_err(failed)?;
    let mut rows = statement.query([queue, key]).map_err(failed)?;
    rows.next().map_err(failed)?.map(item).transpose()
}

pub(crate) fn put_item(connection: &Connection, item: &Item) -> Result<()> {
    let mut statement = connection.prepare_cached(PUT).map_err(failed)?;
    let micros = |moment: Option<Timestamp>| moment.map(Timestamp::micros);
    let holder = item.holder.as_ref();
    let row = params![
        item.item.queue.as_str(),
        item.item.key.as_str(),
        item.lane.as_str(),
        item.priority.get(),
        item.at.get() as i64,
        item.mark.get() as i64,
        micros(item.due),
        micros(item.hold),
        item.attempts,
        item.failures,
        item.expiries,
        item.blocked,
        item.error,
        item.fence.map(|fence| fence.get() as i64),
        holder.map(|holder| holder.worker.as_str()),
        holder.map(|holder| holder.since.micros()),
        holder.map(|holder| holder.deadline.micros()),
        item.settled.map(SettleKind::as_str),
        micros(item.forget_at),
        micros(item.ready_at()),
    ];
    statement.execute(row).map_err(failed)?;
    Ok(())
}

/// A lane and priority with something ready, now or later.
struct Lane {
    lane: LaneName,
    priority: Priority,
}

/// The lanes of the request. Each is found by one index lookup, however many items it has.
fn lanes(connection: &Connection, request: &LeaseRequest) -> Result<Vec<Lane>> {
    let mut statement = connection.prepare_cached(NEXT_LANE).map_err(failed)?;
    let mut lanes: Vec<Lane> = Vec::new();
    let mut after = (request.lane.as_ref().map_or(String::new(), ToString::to_string), i16::MIN);
    loop {
        let mut rows =
            statement.query(params![request.queue.as_str(), after.0, after.1]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { break };
        let lane = Lane { lane: LaneName::new(text(row, 0)?)?, priority: priority(row, 1)? };
        if request.lane.as_ref().is_some_and(|wanted| *wanted != lane.lane) {
            break;
        }
        after = (lane.lane.to_string(), lane.priority.get());
        lanes.push(lane);
    }
    Ok(lanes)
}

impl Lane {
    fn add_ready(
        &self,
        connection: &Connection,
        request: &LeaseRequest,
        now: Timestamp,
        candidates: &mut Vec<Candidate>,
    ) -> Result<()> {
        let mut statement = connection.prepare_cached(READY).map_err(failed)?;
        let which = params![
            request.queue.as_str(),
            self.lane.as_str(),
            self.priority.get(),
            now.micros(),
            request.limit as i64
        ];
        let mut rows = statement.query(which).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            candidates.push(Candidate {
                ready_at: Timestamp::from_micros(row.get(1).map_err(failed)?)?,
                priority: self.priority,
                key: ItemKey::new(text(row, 0)?)?,
            });
        }
        Ok(())
    }

    fn first_ready(&self, connection: &Connection, queue: &QueueName) -> Result<Option<Timestamp>> {
        let mut statement = connection.prepare_cached(FIRST_READY).map_err(failed)?;
        let which = params![queue.as_str(), self.lane.as_str(), self.priority.get()];
        let mut rows = statement.query(which).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        moment(row, 0)
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// The statement that lists the items of a filter: by a partial index if there is one.
pub(crate) fn listing(filter: &ItemFilter) -> &'static str {
    match (filter.blocked, filter.held) {
        (Some(true), _) => LIST_BLOCKED,
        (_, Some(true)) => LIST_HELD,
        _ => LIST,
    }
}

pub(crate) fn page(connection: &Connection, query: &ItemQuery) -> Result<ItemPage> {
    if let Some((queue, key)) = query.filter.one() {
        return Ok(query.answer(find(connection, queue, key)?));
    }
    let prefix = query.filter.queue.prefix();
    let after = query.after.as_ref().filter(|item| item.queue.as_str() >= prefix);
    let (queue, key) = after.map_or((prefix, ""), |item| (item.queue.as_str(), item.key.as_str()));
    let mut statement = connection.prepare_cached(listing(&query.filter)).map_err(failed)?;
    // One more than the scan limit, to know whether there may be more.
    let mut rows =
        statement.query(params![queue, key, limits::FEED_SCAN as i64 + 1]).map_err(failed)?;
    let mut page = ItemPage { items: Vec::new(), next: None };
    let mut last: Option<ItemRef> = None;
    for seen in 0.. {
        let Some(row) = rows.next().map_err(failed)? else { break };
        if !text(row, 0)?.starts_with(prefix) {
            break;
        }
        if page.items.len() == query.limit || seen == limits::FEED_SCAN {
            page.next = last;
            break;
        }
        let item = item(row)?;
        last = Some(item.item.clone());
        page.items.extend(query.filter.matches(&item).then_some(item));
    }
    Ok(page)
}

fn item(row: &Row<'_>) -> Result<Item> {
    read_item(row).map_err(corrupt)
}

fn read_item(row: &Row<'_>) -> Result<Item> {
    let count = |column| row.get::<_, u32>(column).map_err(failed);
    let fence: Option<i64> = row.get(13).map_err(failed)?;
    let settled: Option<String> = row.get(17).map_err(failed)?;
    Ok(Item {
        item: ItemRef { queue: QueueName::new(text(row, 0)?)?, key: ItemKey::new(text(row, 1)?)? },
        lane: LaneName::new(text(row, 2)?)?,
        priority: priority(row, 3)?,
        at: Mark::new(number(row, 4)?)?,
        mark: Mark::new(number(row, 5)?)?,
        due: moment(row, 6)?,
        hold: moment(row, 7)?,
        attempts: count(8)?,
        failures: count(9)?,
        expiries: count(10)?,
        blocked: row.get(11).map_err(failed)?,
        error: row.get(12).map_err(failed)?,
        fence: fence.map(|fence| Fence::new(fence as u64)).transpose()?,
        holder: holder(row)?,
        settled: settled.as_deref().map(str::parse).transpose()?,
        forget_at: moment(row, 18)?,
    })
}

fn holder(row: &Row<'_>) -> Result<Option<LeaseHolder>> {
    let worker: Option<String> = row.get(14).map_err(failed)?;
    let (Some(worker), Some(since), Some(deadline)) = (worker, moment(row, 15)?, moment(row, 16)?)
    else {
        return Ok(None);
    };
    Ok(Some(LeaseHolder { worker: WorkerName::new(worker)?, since, deadline }))
}

fn priority(row: &Row<'_>, column: usize) -> Result<Priority> {
    Priority::new(row.get(column).map_err(failed)?)
}
