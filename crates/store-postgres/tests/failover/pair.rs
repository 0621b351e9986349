//! A primary and its standby, and a proxy to the current primary.

use std::time::Instant;

use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::{Proxy, Server};

use crate::ground::PATIENCE;

/// The name under which the standby follows.
const STANDBY: &str = "second";

/// Two servers; the second replicates the first.
pub(crate) struct Pair {
    pub(crate) primary: Server,
    pub(crate) standby: Server,
    /// Where clients connect; it leads to the primary until it is pointed elsewhere.
    pub(crate) proxy: Proxy,
    /// How the standby finds its primary.
    route: String,
}

impl Pair {
    /// The primary acknowledges without waiting for the standby.
    pub(crate) fn asynchronous() -> Self {
        let primary = Server::start().unwrap();
        let standby = primary.standby(STANDBY).unwrap();
        let proxy = Proxy::to(primary.port()).unwrap();
        let route = standby.run_sql("postgres", "SHOW primary_conninfo").unwrap();
        Self { primary, standby, proxy, route }
    }

    /// The primary acknowledges only what the standby has on its disk.
    pub(crate) fn synchronous() -> Self {
        let pair = Self::asynchronous();
        pair.primary.set("synchronous_standby_names", STANDBY).unwrap();
        wait_until("the standby counts", || {
            pair.says("SELECT sync_state FROM pg_stat_replication") == "sync"
        });
        pair
    }

    /// The URL of the proxy.
    pub(crate) fn url(&self) -> String {
        url(&[self.proxy.port()])
    }

    /// A store behind the proxy.
    pub(crate) async fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.url()).await.unwrap()
    }

    /// From now on the standby receives nothing.
    pub(crate) fn cut_off_standby(&self) {
        self.standby.set("primary_conninfo", "").unwrap();
        wait_until("no standby follows the primary", || {
            self.says("SELECT count(*) FROM pg_stat_replication") == "0"
        });
    }

    pub(crate) fn reconnect_standby(&self) {
        self.standby.set("primary_conninfo", &self.route).unwrap();
    }

    /// Waits until the standby has everything that the primary has written.
    pub(crate) fn wait_until_standby_has_all(&self) {
        let end = self.says("SELECT pg_current_wal_flush_lsn()");
        let question = format!("SELECT pg_last_wal_receive_lsn() >= '{end}'");
        wait_until("the standby has all", || {
            self.standby.run_sql("postgres", &question).unwrap() == "t"
        });
    }

    /// Kills the primary, and promotes the standby in its place.
    pub(crate) fn fail_over(&self) {
        self.primary.kill().unwrap();
        self.standby.promote().unwrap();
        self.proxy.aim(self.standby.port());
    }

    /// The primary's answer.
    pub(crate) fn says(&self, sql: &str) -> String {
        self.primary.run_sql("postgres", sql).unwrap()
    }
}

/// The URL of one or several servers on the loopback.
pub(crate) fn url(ports: &[u16]) -> String {
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://postgres@{}/postgres", hosts.join(","))
}

/// Polls until the fact is true. Each poll is a query to a server, which is slow enough for a loop.
pub(crate) fn wait_until(fact: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "timed out until {fact}");
    }
}
