//! The cost of leasing and settling, in rows and pages, counted by the server.

use std::sync::Arc;

use tidelock_store::{Commit, Lease, ManualClock, Store, Timestamp, Wake, When};
use tidelock_store_postgres::{PostgresStore, Prepare};

use crate::ground::{Ground, NEVER, Plain, committed, item, lease};

const ROUNDS: usize = 20;
const AT_ONCE: usize = 10;

/// The server's counts for the table of items.
#[derive(Debug, Clone, Copy)]
struct Read {
    /// Scans of the whole table.
    scans: i64,
    /// Entries of indexes.
    entries: i64,
    /// Pages of the index of ready items.
    pages: i64,
}

impl Read {
    /// The counts so far. The store's sessions have ended, so all counts are reported.
    async fn so_far(plain: &Plain) -> Self {
        let ended = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '@')";
        plain.until("the store's sessions have ended", ended).await;
        let of_table = "relid = 'tidelock.items'::regclass";
        let scans = format!("SELECT seq_scan FROM pg_stat_user_tables WHERE {of_table}");
        let entries =
            format!("SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE {of_table}");
        let pages = format!(
            "SELECT idx_blks_hit + idx_blks_read FROM pg_statio_user_indexes
             WHERE {of_table} AND indexrelname = 'items_ready'"
        );
        Self {
            scans: plain.one(&scans).await,
            entries: plain.one(&entries).await,
            pages: plain.all(&pages).await.first().copied().unwrap_or_default(),
        }
    }
}

/// The table of items, with many that have no work.
struct Table {
    ground: Ground,
    plain: Plain,
}

impl Table {
    /// This many, half of them idle and half of them due tomorrow.
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

    /// The cost of some rounds of leasing and settling.
    async fn read_by_rounds(&self, prepare: Prepare) -> Read {
        let before = Read::so_far(&self.plain).await;
        let store = self
            .ground
            .open_with(|options| {
                options.prepare = prepare;
                // However slow this machine is, all rounds happen at one moment.
                options.clock = Arc::new(ManualClock::at(Timestamp::from_micros(0).unwrap()));
                options.sweep_interval = NEVER;
            })
            .await;
        committed(&store, wakes("waiting", AT_ONCE)).await;
        for round in 0..ROUNDS {
            lease_and_settle(&store, round).await;
        }
        store.close().await.unwrap();
        let after = Read::so_far(&self.plain).await;
        Read {
            scans: after.scans - before.scans,
            entries: after.entries - before.entries,
            pages: after.pages - before.pages,
        }
    }

    /// All of them were ready once, and are idle again; vacuum has not removed the dead index
    /// entries. The server planned for a table in which hardly anything is ready. Returns the
    /// number of pages of the index.
    async fn leave_dead(&self) -> i64 {
        let leave_dead = "ALTER TABLE tidelock.items SET (autovacuum_enabled = off);
            UPDATE tidelock.items SET ready = NULL WHERE ready IS NOT NULL;
            VACUUM ANALYZE tidelock.items";
        for statement in leave_dead.split(';') {
            self.plain.run(statement).await;
        }
        self.plain.run("UPDATE tidelock.items SET ready = length(key)").await;
        self.plain.run("UPDATE tidelock.items SET ready = NULL").await;
        let counted =
            format!("SELECT pg_stat_get_dead_tuples('tidelock.items'::regclass) >= {IDLE}");
        self.plain.until("the server has counted what is dead", &counted).await;
        self.plain.one("SELECT pg_relation_size('tidelock.items_ready') / 8192").await
    }
}

async fn lease_and_settle(store: &PostgresStore, round: usize) {
    committed(store, wakes(&format!("ready-{round}"), AT_ONCE)).await;
    let leases = lease(store, "worker", AT_ONCE).await;
    assert_eq!(leases.len(), AT_ONCE);
    let settlements = leases.iter().map(Lease::ack);
    committed(store, settlements.fold(Commit::new(), Commit::settle)).await;
}

fn wakes(name: &str, count: usize) -> Commit {
    let wakes = (0..count).map(|nth| Wake::at(item(&format!("{name}-{nth}")), When::NOW));
    wakes.fold(Commit::new(), Commit::wake)
}

const IDLE: usize = 50_000;

/// The cost of leasing does not grow with idle items: in all its rounds it reads fewer rows than
/// there are idle.
#[tokio::test]
async fn leasing_reads_what_is_ready_and_nothing_that_is_idle() {
    for prepare in [Prepare::Always, Prepare::Never] {
        let read = Table::with(IDLE).await.read_by_rounds(prepare).await;
        println!("{prepare:?}: {read:?}");
        assert_eq!(read.scans, 0, "the whole table was read");
        assert!(
            read.entries < IDLE as i64,
            "{} entries were read in {ROUNDS} rounds",
            read.entries
        );
    }
}

/// The control of the test above: without its index, leasing reads everything.
#[tokio::test]
async fn leasing_without_the_index_of_what_is_ready_reads_what_is_idle() {
    let table = Table::with(IDLE).await;
    table.plain.run("DROP INDEX tidelock.items_ready").await;
    let read = table.read_by_rounds(Prepare::Always).await;
    assert!(read.entries > (ROUNDS * IDLE) as i64, "{read:?}");
}

/// What was ready once has left dead entries in the index. One scan reads them, and later ones
/// begin behind them; the statement that grants the leases never does.
#[tokio::test]
async fn leasing_walks_through_what_is_dead_once_and_not_each_time() {
    for prepare in [Prepare::Always, Prepare::Never] {
        let table = Table::with(IDLE).await;
        let pages = table.leave_dead().await;
        let read = table.read_by_rounds(prepare).await;
        println!("{prepare:?}: {read:?} of {pages} pages");
        assert!(pages > 200, "{pages} pages are too few to tell");
        let live = (ROUNDS * 50) as i64;
        assert!(read.pages < 3 * pages + live, "{} pages were read of {pages}", read.pages);
    }
}
