//! Changes between the scan of ready items and the lock on them.

use tidelock_store::{Commit, ItemRef, Lease, Mark, StoreExt, Wake};
use tidelock_store_postgres::PostgresStore;
use tokio::task::JoinHandle;

use crate::ground::{Ground, Plain, committed, item, lease, soon, wake};

/// A store whose leasing can be stopped between two moments.
struct Site {
    store: PostgresStore,
    other: PostgresStore,
    plain: Plain,
    brake: Plain,
}

/// Stops the statement that grants leases once it has its snapshot and before it locks anything: it
/// reads the clock, and the calendar does not answer while the brake is held.
const CALENDAR: &str =
    "CREATE OR REPLACE FUNCTION tidelock.calendar() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        IF current_query() LIKE '%SKIP LOCKED%' AND current_query() LIKE '%attempts%' THEN
            PERFORM pg_advisory_xact_lock_shared('tidelock.items'::regclass::oid::bigint);
        END IF;
        RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    END $$";

impl Site {
    async fn new() -> Self {
        let ground = Ground::shared();
        let store = ground.open().await;
        Self::of(ground, store).await
    }

    async fn of(ground: Ground, store: PostgresStore) -> Self {
        let other = ground.open().await;
        let (plain, brake) = (ground.connect().await, ground.connect().await);
        plain.run(CALENDAR).await;
        Self { store, other, plain, brake }
    }

    /// Requests leases, and stops where the granting statement has its snapshot and no lock.
    async fn lease_up_to_the_brake(&self) -> JoinHandle<Vec<Lease>> {
        self.brake.run("SELECT pg_advisory_lock('tidelock.items'::regclass::oid::bigint)").await;
        let store = self.store.clone();
        let leasing = tokio::spawn(async move { lease(&store, "slow", 10).await });
        self.plain.until_blocked(1).await;
        leasing
    }

    async fn go_on(&self, leasing: JoinHandle<Vec<Lease>>) -> Vec<Lease> {
        self.brake.run("SELECT pg_advisory_unlock('tidelock.items'::regclass::oid::bigint)").await;
        soon("leases", leasing).await.unwrap()
    }
}

/// Schedule 78. LEASE-1: the row changes after the statement has its snapshot. It is judged as it
/// is once it is locked.
#[tokio::test]
async fn an_item_taken_by_another_worker_meanwhile_is_not_granted() {
    check_not_granted(Site::new().await).await;
}

/// Schedule 78: the same where a role or a database has an isolation level at which a concurrent
/// change is an error.
#[tokio::test]
async fn an_item_taken_by_another_worker_is_no_error_at_any_default_isolation() {
    let ground = Ground::shared();
    let store = ground.open_where("default_transaction_isolation%3Dserializable").await;
    check_not_granted(Site::of(ground, store).await).await;
}

async fn check_not_granted(site: Site) {
    committed(&site.store, wake("taken")).await;
    committed(&site.store, wake("free")).await;
    let leasing = site.lease_up_to_the_brake().await;
    site.plain
        .run(
            "UPDATE tidelock.items SET worker = 'quick', fence = 7, since = 1, deadline = ready + 60000000,
                ready = ready + 60000000, attempts = 1 WHERE key = 'taken'",
        )
        .await;
    let granted = site.go_on(leasing).await;
    assert_eq!(keys(&granted), ["free"]);
    let taken = site.other.item(&item("taken")).await.unwrap().unwrap();
    assert_eq!((taken.attempts, taken.fence.unwrap().get()), (1, 7));
    assert_eq!(taken.holder.unwrap().worker.as_str(), "quick");
}

/// Schedule 78. LEASE-3: the same for an item that was blocked in the meantime, and one that was
/// deferred.
#[tokio::test]
async fn an_item_that_is_no_longer_ready_is_not_granted() {
    let site = Site::new().await;
    for key in ["blocked", "deferred", "free"] {
        committed(&site.store, wake(key)).await;
    }
    let leasing = site.lease_up_to_the_brake().await;
    site.plain
        .run(
            "UPDATE tidelock.items SET blocked = true, ready = NULL WHERE key = 'blocked';
             UPDATE tidelock.items SET hold = ready + 60000000, ready = ready + 60000000 WHERE key = 'deferred'",
        )
        .await;
    assert_eq!(keys(&site.go_on(leasing).await), ["free"]);
}

/// Schedule 78. LEASE-3: what is still ready is granted as it is now, not as it was.
#[tokio::test]
async fn an_item_that_was_woken_further_meanwhile_is_granted_with_the_new_mark() {
    let site = Site::new().await;
    committed(&site.store, to_mark("letter", 1)).await;
    let leasing = site.lease_up_to_the_brake().await;
    committed(&site.other, to_mark("letter", 9)).await;
    let granted = site.go_on(leasing).await;
    assert_eq!(granted[0].mark, Mark::new(9).unwrap());
    committed(&site.store, Commit::new().settle(granted[0].ack())).await;
    assert!(lease(&site.other, "next", 1).await.is_empty(), "nothing was left to do");
}

/// Schedule 78: the row changes between the two statements, the scan and the grant.
#[tokio::test]
async fn what_changes_between_the_look_and_the_grant_counts() {
    let site = Site::new().await;
    for key in ["blocked", "free"] {
        committed(&site.store, wake(key)).await;
    }
    // Reads pass, and changes of a row do not.
    site.brake.run("BEGIN; LOCK TABLE tidelock.items IN EXCLUSIVE MODE").await;
    let store = site.store.clone();
    let leasing = tokio::spawn(async move { lease(&store, "slow", 10).await });
    site.plain.until_blocked(1).await;
    site.brake
        .run("UPDATE tidelock.items SET blocked = true, ready = NULL WHERE key = 'blocked'; COMMIT")
        .await;
    assert_eq!(keys(&soon("leases", leasing).await.unwrap()), ["free"]);
}

/// Schedule 29. LEASE-1: an item is all of a target's work in its order. Its holder holds what
/// comes next as well, and no other session waits for a row that is being leased.
#[tokio::test]
async fn work_behind_a_leased_item_is_not_granted() {
    let site = Site::new().await;
    committed(&site.store, to_mark("ordered", 1)).await;
    let held = lease(&site.store, "first", 1).await.remove(0);
    committed(&site.other, to_mark("ordered", 2)).await;
    committed(&site.other, wake("beside")).await;
    assert_eq!(keys(&lease(&site.other, "second", 10).await), ["beside"]);

    committed(&site.store, Commit::new().settle(held.ack())).await;
    committed(&site.other, wake("later")).await;
    site.brake.run("BEGIN; SELECT FROM tidelock.items WHERE key = 'ordered' FOR UPDATE").await;
    assert_eq!(
        keys(&lease(&site.other, "second", 10).await),
        ["later"],
        "the other row is being taken"
    );
    site.brake.run("ROLLBACK").await;
    let next = lease(&site.other, "second", 10).await.remove(0);
    assert_eq!((next.at, next.mark), (Mark::new(1).unwrap(), Mark::new(2).unwrap()));
}

fn to_mark(key: &str, mark: u64) -> Commit {
    let item: ItemRef = item(key);
    Commit::new().wake(Wake::to_mark(item, Mark::new(mark).unwrap()))
}

fn keys(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.item.key.as_str()).collect()
}
