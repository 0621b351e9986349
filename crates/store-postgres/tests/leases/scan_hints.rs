//! Scan hints: what a process remembers, and for how long that can hide other work.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    Commit, LaneName, Lease, LeaseRequest, Leased, ManualClock, Priority, Store, Timestamp, Wake,
    When, WorkerName,
};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{Ground, NEVER, Plain, committed, item, queue, soon, wake};

/// A process whose monotonic clock stands still, and a table of items.
struct Site {
    store: PostgresStore,
    plain: Plain,
    stopwatch: ManualClock,
}

/// Enough dead rows for hints.
const MANY: usize = 20_000;

/// No hint is valid for longer.
const BOUND: Duration = Duration::from_secs(1);

impl Site {
    /// This many rows of the table are dead, and the server knows.
    async fn with_dead(rows: usize) -> Self {
        let (ground, stopwatch) =
            (Ground::shared(), ManualClock::at(Timestamp::from_micros(0).unwrap()));
        let clock = stopwatch.clone();
        let store = ground
            .open_with(|options| {
                options.clock = Arc::new(clock);
                // Maintenance would take a monotonic clock that runs ahead for a calendar that was
                // set back.
                options.sweep_interval = NEVER;
            })
            .await;
        let plain = ground.connect().await;
        let leave_dead = format!(
            "ALTER TABLE tidelock.items SET (autovacuum_enabled = off);
             INSERT INTO tidelock.items (queue, key, lane, priority, at, mark, attempts, failures, expiries, blocked)
                SELECT 'gone', n, 'default', 0, 0, 0, 0, 0, 0, false FROM generate_series(1, {rows}) n;
             DELETE FROM tidelock.items"
        );
        plain.run(&leave_dead).await;
        let known = format!("SELECT pg_stat_get_dead_tuples('tidelock.items'::regclass) >= {rows}");
        plain.until("the server has counted what is dead", &known).await;
        Self { store, plain, stopwatch }
    }

    async fn ask(&self, limit: usize) -> Leased {
        let worker = WorkerName::new("worker").unwrap();
        let request = LeaseRequest::new(&queue(), &worker, Duration::from_secs(60), limit);
        soon("leases", self.store.lease(request)).await.unwrap()
    }

    async fn lease_one(&self) -> String {
        let leased = self.ask(1).await;
        let keys: Vec<&str> = leased.leases.iter().map(key).collect();
        keys.concat()
    }

    async fn wake_some(&self) {
        for key in ["a", "b", "c", "d"] {
            committed(&self.store, wake(key)).await;
        }
    }

    /// Due for so long that it comes first, and not visible until now: its commit was slow.
    async fn wake_long_ago(&self, key: &str) {
        committed(&self.store, wake(key)).await;
        let slow = format!("UPDATE tidelock.items SET due = 1, ready = 1 WHERE key = '{key}'");
        self.plain.run(&slow).await;
    }
}

fn key(lease: &Lease) -> &str {
    lease.item.key.as_str()
}

/// LEASE-7, and the most by which a hint can bend it: the first scan saw nothing before `a`, and
/// later ones begin there.
#[tokio::test]
async fn work_from_before_the_first_that_was_seen_is_found_within_a_second() {
    let site = Site::with_dead(MANY).await;
    site.wake_some().await;
    assert_eq!(site.lease_one().await, "a");
    site.wake_long_ago("early").await;
    assert_eq!(site.lease_one().await, "b", "the memory is not used: this test shows nothing");
    site.stopwatch.advance(BOUND);
    assert_eq!(site.lease_one().await, "early");
    assert_eq!(site.lease_one().await, "c");
}

/// The same for an empty lane and priority.
#[tokio::test]
async fn work_in_a_new_lane_is_found_within_a_second() {
    let site = Site::with_dead(MANY).await;
    site.wake_some().await;
    assert_eq!(site.lease_one().await, "a");
    let urgent = Wake::at(item("urgent"), When::NOW)
        .in_lane(LaneName::new("express").unwrap())
        .with_priority(Priority::new(9).unwrap());
    committed(&site.store, Commit::new().wake(urgent)).await;
    assert_eq!(site.lease_one().await, "b", "the memory is not used: this test shows nothing");
    site.stopwatch.advance(BOUND);
    assert_eq!(site.lease_one().await, "urgent");
}

/// What a full scan has found stays visible to hinted scans, until it is leased.
#[tokio::test]
async fn work_that_was_found_is_not_overlooked_again() {
    let site = Site::with_dead(MANY).await;
    site.wake_some().await;
    for key in ["early 1", "early 2", "early 3"] {
        site.wake_long_ago(key).await;
    }
    for key in ["early 1", "early 2", "early 3", "a"] {
        assert_eq!(site.lease_one().await, key);
    }
}

/// LEASE-3: an empty answer never comes from a hint.
#[tokio::test]
async fn an_empty_answer_comes_from_a_full_scan() {
    let site = Site::with_dead(MANY).await;
    site.wake_some().await;
    assert_eq!(site.ask(4).await.leases.len(), 4);
    site.wake_long_ago("early").await;
    assert_eq!(site.lease_one().await, "early");
    let nothing = site.ask(1).await;
    assert!(nothing.leases.is_empty());
    assert!(nothing.next_due.unwrap().since(nothing.at) > BOUND, "{nothing:?}");
}

/// A worker that leased by a hint is told to come back by the time the hint expires.
#[tokio::test]
async fn a_worker_that_leased_by_a_hint_is_called_back_within_a_second() {
    let site = Site::with_dead(MANY).await;
    site.wake_some().await;
    assert_eq!(site.lease_one().await, "a");
    let rest = site.ask(10).await;
    assert_eq!(rest.leases.len(), 3);
    assert!(rest.next_due.unwrap().since(rest.at) <= BOUND, "{rest:?}");
}

/// The order is exact where a full scan costs nothing.
#[tokio::test]
async fn nothing_is_remembered_where_little_is_dead() {
    let site = Site::with_dead(100).await;
    site.wake_some().await;
    assert_eq!(site.lease_one().await, "a");
    site.wake_long_ago("early").await;
    assert_eq!(site.lease_one().await, "early");
}
