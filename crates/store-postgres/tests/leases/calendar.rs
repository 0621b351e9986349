//! A worker whose wall clock is wrong.

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Clock, Commit, Store, SystemClock, Timestamp, Wake, When};

use crate::ground::{Ground, committed, item, lease, wake};

/// The machine's clock, with a wall clock that is ahead.
#[derive(Debug, Default)]
struct Ahead(SystemClock);

const AHEAD: Duration = Duration::from_secs(90);

impl Clock for Ahead {
    fn wall(&self) -> Timestamp {
        self.0.wall().plus(AHEAD)
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Schedule 21. TIME-1: leases are for a minute, and the worker's wall clock is a minute and a half
/// ahead.
#[tokio::test]
async fn a_worker_whose_calendar_is_ahead_steals_no_lease_and_takes_nothing_early() {
    let ground = Ground::shared();
    let right = ground.open().await;
    let wrong = ground.open_with(|options| options.clock = Arc::new(Ahead::default())).await;
    committed(&right, wake("held")).await;
    let held = lease(&right, "right", 1).await.remove(0);
    let soon = When::In(Duration::from_secs(60));
    committed(&right, Commit::new().wake(Wake::at(item("due in a minute"), soon))).await;

    assert!(lease(&wrong, "wrong", 10).await.is_empty());
    let (its, ours) = (wrong.now().await.unwrap(), right.now().await.unwrap());
    assert!(its.since(ours) < AHEAD / 2, "{its} {ours}");
    committed(&right, Commit::new().settle(held.ack())).await;
}

/// Schedule 21. TIME-1: what such a worker leases and defers counts from the database's clock, too.
#[tokio::test]
async fn what_a_worker_with_a_wrong_calendar_asks_for_counts_from_the_databases_time() {
    let ground = Ground::shared();
    let wrong = ground.open_with(|options| options.clock = Arc::new(Ahead::default())).await;
    wrong.now().await.unwrap();
    let minute = Duration::from_secs(60);
    let wakes = Commit::new()
        .wake(Wake::at(item("held"), When::NOW))
        .wake(Wake::at(item("later"), When::In(minute)));
    committed(&wrong, wakes).await;
    let held = lease(&wrong, "wrong", 1).await.remove(0);
    let plain = ground.connect().await;
    let due = plain.one::<i64>("SELECT due FROM tidelock.items WHERE key = 'later'").await;
    let now = Timestamp::from_micros(plain.one("SELECT tidelock.calendar()").await).unwrap();
    assert!(held.deadline.since(now) <= minute, "leased until {}, and it is {now}", held.deadline);
    assert!(due <= now.plus(minute).micros(), "due at {due}, and it is {now}");
}
