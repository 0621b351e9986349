//! Leases: granting, renewing, listing and adjusting work items.
//!
//! Leasing takes two statements. The first reads, without locks, what is ready in each lane. Which
//! items to take, and in what order, is decided by the contract's rule and not by SQL. The second
//! locks the selected items, skips those that another session is taking, checks again that each is
//! ready, and writes the leases. Both read only ready items, through an index that holds nothing
//! else.

mod grant;
mod lease;
mod scan;
mod scan_hints;

use std::collections::HashMap;
use std::time::Duration;

use tidelock_store::{
    Adjustment, Fence, Item, ItemKey, ItemPage, ItemQuery, ItemRef, LaneName, LeaseHolder,
    LeaseToken, Mark, Priority, QueueName, Renewal, Result, Timestamp, WorkerName, limits,
};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;

use crate::connect::LazyConnection;
use crate::error::{corrupt, failed};
use crate::log::{moment, number, text};
use crate::read_column::ReadColumn;
use crate::statement::{Statement, statement};

pub(crate) use lease::lease;
pub(crate) use scan_hints::ScanHints;

/// The pause before a locked row is tried again: first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// For each token in turn: whether the item exists, whether the lease is held and was extended, and
/// the item as it is, unless its row is locked. It never waits: a locked row must not delay other
/// renewals.
static RENEW: Statement = statement!(file "renew": TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8);
static FIND_ITEM: Statement = statement!(
    "SELECT :item_columns FROM tidelock.items i WHERE i.queue = $1 AND i.key = $2": TEXT, TEXT);
static LIST_ITEMS: Statement = statement!(
    "SELECT :item_columns FROM tidelock.items i
     WHERE (i.queue, i.key) > ($1, $2) ORDER BY i.queue, i.key LIMIT $3": TEXT, TEXT, INT8);
static LIST_BLOCKED: Statement = statement!(
    "SELECT :item_columns FROM tidelock.items i WHERE i.blocked
     AND (i.queue, i.key) > ($1, $2) ORDER BY i.queue, i.key LIMIT $3": TEXT, TEXT, INT8);
static LIST_HELD: Statement = statement!(
    "SELECT :item_columns FROM tidelock.items i WHERE i.worker IS NOT NULL
     AND (i.queue, i.key) > ($1, $2) ORDER BY i.queue, i.key LIMIT $3": TEXT, TEXT, INT8);

/// Renews what it can immediately, and retries the locked rows until each is known. Meanwhile, what
/// was renewed is renewed again in time: a row that stays locked costs no other lease.
pub(crate) async fn renew(
    connection: &LazyConnection,
    tokens: &[LeaseToken],
    duration: Duration,
) -> Result<Vec<Renewal>> {
    let mut renewals: Vec<Option<Renewal>> = tokens.iter().map(|_| None).collect();
    let (mut pause, mut beat) = (FIRST_PAUSE, Instant::now() + duration / 3);
    loop {
        let again = Instant::now() >= beat;
        if again {
            beat = Instant::now() + duration / 3;
        }
        let wanted = |at: &usize| match &renewals[*at] {
            None => true,
            Some(known) => again && matches!(known, Renewal::Renewed(_)),
        };
        let wanted: Vec<usize> = (0..tokens.len()).filter(wanted).collect();
        let asked: Vec<&LeaseToken> = wanted.iter().map(|at| &tokens[*at]).collect();
        for (at, found) in wanted.into_iter().zip(renew_free(connection, &asked, duration).await?) {
            // An earlier renewal counts, although its row is locked now.
            renewals[at] = found.or(renewals[at].take());
        }
        if renewals.iter().all(Option::is_some) {
            return Ok(in_turn(tokens, renewals.into_iter().flatten().collect()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Renews the items whose rows are not locked; none for the others.
async fn renew_free(
    connection: &LazyConnection,
    tokens: &[&LeaseToken],
    duration: Duration,
) -> Result<Vec<Option<Renewal>>> {
    let queues: Vec<&str> = tokens.iter().map(|token| token.item.queue.as_str()).collect();
    let keys: Vec<&str> = tokens.iter().map(|token| token.item.key.as_str()).collect();
    let fences: Vec<i64> = tokens.iter().map(|token| token.fence.get() as i64).collect();
    // A renewal is idempotent, so after a lost connection it is retried.
    let rows = connection.read(&RENEW, &[&queues, &keys, &fences, &micros(duration)]).await?;
    rows.iter().map(renewal).collect()
}

/// An item is shown as it was before the call; if an earlier token of the call has extended its
/// lease, that is shown too.
fn in_turn(tokens: &[LeaseToken], mut renewals: Vec<Renewal>) -> Vec<Renewal> {
    let mut extended: HashMap<&ItemRef, Timestamp> = HashMap::new();
    for (token, renewal) in tokens.iter().zip(&mut renewals) {
        match renewal {
            Renewal::Renewed(deadline) => {
                extended.insert(&token.item, *deadline);
            }
            Renewal::Lost(Some(item)) => {
                if let (Some(deadline), Some(holder)) =
                    (extended.get(&token.item), &mut item.holder)
                {
                    holder.deadline = *deadline;
                }
            }
            Renewal::Lost(None) => {}
        }
    }
    renewals
}

/// None if the item exists and its row is locked.
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

pub(crate) async fn list(connection: &LazyConnection, query: &ItemQuery) -> Result<ItemPage> {
    if let Some((queue, key)) = query.filter.one() {
        let rows = connection.read(&FIND_ITEM, &[&queue, &key]).await?;
        return Ok(query.answer(rows.first().map(|row| item(row, 0)).transpose()?));
    }
    // For rare states there is an index.
    let listed = match (query.filter.blocked, query.filter.held) {
        (Some(true), _) => &LIST_BLOCKED,
        (_, Some(true)) => &LIST_HELD,
        _ => &LIST_ITEMS,
    };
    let prefix = query.filter.queue.prefix();
    let after = query.after.as_ref().filter(|item| item.queue.as_str() >= prefix);
    let mut after = after.map_or((prefix.to_owned(), String::new()), |item| {
        (item.queue.as_str().to_owned(), item.key.as_str().to_owned())
    });
    let mut page = ItemPage { items: Vec::new(), next: None };
    let mut left = limits::FEED_SCAN;
    loop {
        let chunk = (query.limit + 1).min(left);
        let rows = connection.read(listed, &[&after.0, &after.1, &(chunk as i64)]).await?;
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

/// The items that the adjustment changes, in their new state.
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

/// Reads `:item_columns`, from this one on.
pub(crate) fn item(row: &impl ReadColumn, from: usize) -> Result<Item> {
    read_item(row, from).map_err(corrupt)
}

fn read_item(row: &impl ReadColumn, from: usize) -> Result<Item> {
    let count = |column: usize| -> Result<u32> {
        let count: i32 = row.column(from + column)?;
        Ok(u32::try_from(count).unwrap_or(0))
    };
    let fence: Option<i64> = row.column(from + 14)?;
    let settled: Option<&str> = row.column(from + 18)?;
    Ok(Item {
        item: ItemRef {
            queue: QueueName::new(text(row, from)?)?,
            key: ItemKey::new(text(row, from + 1)?)?,
        },
        lane: LaneName::new(text(row, from + 2)?)?,
        priority: Priority::new(row.column(from + 3)?)?,
        at: Mark::new(number(row, from + 4)?)?,
        mark: Mark::new(number(row, from + 5)?)?,
        due: moment(row, from + 6)?,
        hold: moment(row, from + 7)?,
        attempts: count(9)?,
        failures: count(10)?,
        expiries: count(11)?,
        blocked: row.column(from + 12)?,
        error: row.column(from + 13)?,
        fence: fence.map(|fence| Fence::new(fence as u64)).transpose()?,
        holder: holder(row, from + 15)?,
        settled: settled.map(str::parse).transpose()?,
        forget_at: moment(row, from + 19)?,
    })
}

fn holder(row: &impl ReadColumn, from: usize) -> Result<Option<LeaseHolder>> {
    let worker: Option<&str> = row.column(from)?;
    let (Some(worker), Some(since), Some(deadline)) =
        (worker, moment(row, from + 1)?, moment(row, from + 2)?)
    else {
        return Ok(None);
    };
    Ok(Some(LeaseHolder { worker: WorkerName::new(worker)?, since, deadline }))
}
