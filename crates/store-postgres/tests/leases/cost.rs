//! What leasing and settling have to read, counted by the server itself.

use tidelock_store::{Commit, Lease, Store, Wake, When};
use tidelock_store_postgres::{PostgresStore, Prepare};

use crate::ground::{Ground, Plain, committed, item, lease};

const ROUNDS: usize = 20;
const AT_ONCE: usize = 10;

/// What the server counted for the table of items.
#[derive(Debug, Clone, Copy)]
struct Read {
    /// Scans of the whole table.
    scans: i64,
    /// Entries of indexes.
    entries: i64,
}

impl Read {
    /// The counts so far. The store's sessions have ended, so nothing is on its way any more.
    async fn so_far(plain: &Plain) -> Self {
        let ended = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '@')";
        plain.until("the store's sessions have ended", ended).await;
        let of_table = "relid = 'tidelock.items'::regclass";
        let scans = format!("SELECT seq_scan FROM pg_stat_user_tables WHERE {of_table}");
        let entries = format!("SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE {of_table}");
        Self { scans: plain.one(&scans).await, entries: plain.one(&entries).await }
    }
}

/// The table of items, with many that have nothing to do.
struct Table {
    ground: Ground,
    plain: Plain,
}

impl Table {
    /// So many, half of them idle and half of them due tomorrow.
    async fn with(idle: usize) -> Self {
        let ground = Ground::shared();
        ground.open().await.close().await.unwrap();
        let plain = ground.connect().await;
        let fill = format!(
            "INSERT INTO tidelock.items
                SELECT 'mail', 'idle-' || n, 'default', 0, 0, 0, NULL, NULL,
                       CASE WHEN n % 2 = 0 THEN tidelock.calendar() + 86400000000 END,
                       0, 0, 0, false, NULL, NULL, NULL, NULL, NULL, NULL
                FROM generate_series(1, {idle}) n;
             ANALYZE tidelock.items"
        );
        plain.run(&fill).await;
        Self { ground, plain }
    }

    /// What some rounds of leasing and settling read.
    async fn read_by_rounds(&self, prepare: Prepare) -> Read {
        let before = Read::so_far(&self.plain).await;
        let store = self.ground.open_with(|options| options.prepare = prepare).await;
        for round in 0..ROUNDS {
            lease_and_settle(&store, round).await;
        }
        store.close().await.unwrap();
        let after = Read::so_far(&self.plain).await;
        Read { scans: after.scans - before.scans, entries: after.entries - before.entries }
    }
}

async fn lease_and_settle(store: &PostgresStore, round: usize) {
    let wakes = (0..AT_ONCE).map(|nth| Wake::at(item(&format!("ready-{round}-{nth}")), When::NOW));
    committed(store, wakes.fold(Commit::new(), Commit::wake)).await;
    let leases = lease(store, "worker", AT_ONCE).await;
    assert_eq!(leases.len(), AT_ONCE);
    let settlements = leases.iter().map(Lease::ack);
    committed(store, settlements.fold(Commit::new(), Commit::settle)).await;
}

const IDLE: usize = 50_000;

/// The cost of leasing does not grow with what is idle: in all its rounds it reads less than there is of that.
#[tokio::test]
async fn leasing_reads_what_is_ready_and_nothing_that_is_idle() {
    for prepare in [Prepare::Always, Prepare::Never] {
        let read = Table::with(IDLE).await.read_by_rounds(prepare).await;
        println!("{prepare:?}: {read:?}");
        assert_eq!(read.scans, 0, "the whole table was read");
        assert!(read.entries < IDLE as i64, "{} entries were read in {ROUNDS} rounds", read.entries);
    }
}

/// The control of the test above: without its index, leasing looks at everything.
#[tokio::test]
async fn leasing_without_the_index_of_what_is_ready_reads_what_is_idle() {
    let table = Table::with(IDLE).await;
    table.plain.run("DROP INDEX tidelock.items_ready").await;
    let read = table.read_by_rounds(Prepare::Always).await;
    assert!(read.entries > (ROUNDS * IDLE) as i64, "{read:?}");
}
