//! Work items: one transaction that leases the items due longest, one that settles them and makes
//! them due again.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Row, params};

use super::{Transactions, limit, now, open};
use crate::baseline::loops::BareLoop;
use crate::failure::Failure;
use crate::rows;

/// The items of a lease in every group, which is two transactions.
pub(in crate::baseline) fn leases(
    path: &Path,
    items: usize,
    duration: Duration,
) -> Result<Box<dyn BareLoop>, Failure> {
    let duration = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    Ok(Box::new(Leases { connection: open(path)?, items, duration }))
}

struct Leases {
    connection: Connection,
    items: usize,
    duration: i64,
}

/// The columns that a lease returns.
#[derive(Debug)]
#[allow(dead_code)] // a lease holds all of it, though the loop needs only some
struct Lease {
    key: String,
    lane: String,
    priority: i64,
    at: i64,
    mark: i64,
    attempts: i64,
    failures: i64,
    expiries: i64,
    fence: i64,
}

const CHOOSE: &str =
    "SELECT key, lane, priority, at, mark, attempts, failures, expiries, fence FROM tidelock_items
     WHERE queue = ?1 AND lane = 'default' AND priority = 0 AND ready <= ?2 ORDER BY ready, key LIMIT ?3";

const GRANT: &str =
    "UPDATE tidelock_items SET due = NULL, hold = NULL, ready = ?3, attempts = ?4, fence = ?5,
     worker = ?6, since = ?7, deadline = ?3, settled = NULL WHERE queue = ?1 AND key = ?2";

const SETTLE: &str =
    "UPDATE tidelock_items SET at = ?3, mark = ?4, due = ?5, ready = ?5, attempts = 0, failures = 0,
     expiries = 0, error = NULL, worker = NULL, since = NULL, deadline = NULL, settled = 'ack'
     WHERE queue = ?1 AND key = ?2";

impl BareLoop for Leases {
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
        let Self { connection, items, duration } = self;
        let mut transactions = Transactions::on(connection)?;
        let mut choose = connection.prepare(CHOOSE)?;
        let mut grant = connection.prepare(GRANT)?;
        let mut settle = connection.prepare(SETTLE)?;
        let mut ops = 0;
        while time_for_more() {
            let mut leases = Vec::new();
            transactions.one(|| {
                let now = now();
                let chosen = choose.query_map(params![rows::QUEUE, now, limit(*items)], lease)?;
                leases = chosen.collect::<Result<Vec<_>, _>>()?;
                for Lease { key, attempts, fence, .. } in &leases {
                    let deadline = now + *duration;
                    grant.execute(params![
                        rows::QUEUE,
                        key,
                        deadline,
                        attempts + 1,
                        fence + 1,
                        rows::WORKER,
                        now
                    ])?;
                }
                Ok(())
            })?;
            if leases.len() != *items {
                return Err(Failure::Answer(format!(
                    "baseline: {} of {items} items were leased",
                    leases.len()
                )));
            }
            transactions.one(|| {
                let now = now();
                for Lease { key, mark, .. } in &leases {
                    settle.execute(params![rows::QUEUE, key, mark, mark + 1, now])?;
                }
                Ok(())
            })?;
            ops += 1;
        }
        Ok(ops)
    }
}

fn lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        key: row.get(0)?,
        lane: row.get(1)?,
        priority: row.get(2)?,
        at: row.get(3)?,
        mark: row.get(4)?,
        attempts: row.get(5)?,
        failures: row.get(6)?,
        expiries: row.get(7)?,
        fence: row.get(8)?,
    })
}
