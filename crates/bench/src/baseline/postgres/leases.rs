//! Work items: one statement that leases the items due longest, one that settles them and makes
//! them due again.

use std::time::Duration;

use tokio_postgres::{Client, Row, Statement};

use super::driver;
use crate::failure::Failure;
use crate::fixture::StoreFixture;
use crate::measure::{Baseline, Caller};
use crate::rows;

/// The same as in the store.
const FILLFACTOR: u8 = 70;

/// The transaction's time, in microseconds since 1970; the index treats it as a constant.
macro_rules! now {
    () => {
        "(extract(epoch FROM now()) * 1000000)::bigint"
    };
}

const LEASE: &str = concat!(
    "UPDATE items i SET due = NULL, hold = NULL, ready = ",
    now!(),
    " + $4, attempts = i.attempts + 1, fence = i.fence + 1, worker = $3, since = ",
    now!(),
    ", deadline = ",
    now!(),
    " + $4, settled = NULL
     FROM (SELECT queue, key FROM items
           WHERE queue = $1 AND lane = 'default' AND priority = 0 AND ready <= ",
    now!(),
    " ORDER BY ready, key LIMIT $2 FOR UPDATE SKIP LOCKED) t
     WHERE i.queue = t.queue AND i.key = t.key
     RETURNING i.key, i.lane, i.priority, i.at, i.mark, i.attempts, i.failures, i.expiries, i.fence"
);

const SETTLE: &str = concat!(
    "UPDATE items i SET at = n.mark, mark = n.mark + 1, due = ",
    now!(),
    ", ready = ",
    now!(),
    ", attempts = 0, failures = 0, expiries = 0, error = NULL, worker = NULL, since = NULL, deadline = NULL,
     settled = 'ack'
     FROM unnest($2::text[], $3::bigint[]) AS n (key, mark) WHERE i.queue = $1 AND i.key = n.key"
);

/// The items of a lease with every two statements of one client.
pub(in crate::baseline) async fn leases(
    schemas: &StoreFixture,
    items: usize,
    duration: Duration,
) -> Result<Vec<Baseline>, Failure> {
    schemas.copy("items", FILLFACTOR).await?;
    let client = schemas.client().await?;
    let (lease, settle) = (client.prepare(LEASE).await?, client.prepare(SETTLE).await?);
    let duration = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    Ok(vec![driver(vec![Worker { client, lease, settle, items, duration }])])
}

struct Worker {
    client: Client,
    lease: Statement,
    settle: Statement,
    items: usize,
    duration: i64,
}

/// The columns that a lease returns.
#[allow(dead_code)] // a lease holds all of it, though the loop needs only some
struct Lease {
    key: String,
    lane: String,
    priority: i16,
    at: i64,
    mark: i64,
    attempts: i32,
    failures: i32,
    expiries: i32,
    fence: i64,
}

impl Caller for Worker {
    async fn call(&mut self) -> Result<u64, Failure> {
        let limit = self.items as i64;
        let rows = self
            .client
            .query(&self.lease, &[&rows::QUEUE, &limit, &rows::WORKER, &self.duration])
            .await?;
        let leases: Vec<Lease> = rows.iter().map(lease).collect();
        let keys: Vec<&str> = leases.iter().map(|lease| lease.key.as_str()).collect();
        let marks: Vec<i64> = leases.iter().map(|lease| lease.mark).collect();
        let settled = self.client.execute(&self.settle, &[&rows::QUEUE, &keys, &marks]).await?;
        if settled != self.items as u64 {
            return Err(Failure::Answer(format!(
                "baseline: {settled} of {} items were settled",
                self.items
            )));
        }
        Ok(1)
    }
}

fn lease(row: &Row) -> Lease {
    Lease {
        key: row.get(0),
        lane: row.get(1),
        priority: row.get(2),
        at: row.get(3),
        mark: row.get(4),
        attempts: row.get(5),
        failures: row.get(6),
        expiries: row.get(7),
        fence: row.get(8),
    }
}
