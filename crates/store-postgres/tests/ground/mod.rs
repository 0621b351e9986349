//! The fixture: a separate schema on a real server, handles to its store, and plain connections
//! beside them.
//!
//! A schedule is driven from outside. A plain connection acts as the slow committer, holds a lock,
//! or reads the server's view of its sessions. No test sleeps: it polls until a fact is true, and
//! fails if it never is.

// Each test binary uses what it needs of this.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidelock_store::{
    Commit, CommitOutcome, Committed, ExpectedVersion, FeedQuery, ItemKey, ItemRef, Lease,
    LeaseRequest, NewEvent, Position, QueueName, Store, StoredEvent, StreamName, Wake, When,
    WorkerName,
};
use tidelock_store_postgres::tokio_postgres::types::FromSqlOwned;
use tidelock_store_postgres::tokio_postgres::{self, Client, NoTls};
use tidelock_store_postgres::{PostgresOptions, PostgresStore, SchemaName};

/// Against hanging only; no test is slower for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A poll interval so long that no test sees a poll.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// How often a fact is polled.
pub(crate) const GLANCE: Duration = Duration::from_millis(2);

/// The fixture of one test.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// The store's URL to the server; it may lead through a proxy.
    pub(crate) url: String,
    /// The test's URL, always direct.
    direct: String,
    pub(crate) schema: SchemaName,
}

impl Ground {
    /// A new schema on the server that all tests share.
    pub(crate) fn shared() -> Self {
        Self::on(&tidelock_test_postgres::shared_database().unwrap())
    }

    /// A new schema on this server.
    pub(crate) fn on(url: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::SeqCst);
        let schema = SchemaName::new(format!("ground_{}_{nth}", std::process::id())).unwrap();
        Self { url: url.to_owned(), direct: url.to_owned(), schema }
    }

    /// The same schema in another database.
    pub(crate) fn elsewhere(&self, url: &str) -> Self {
        Self { url: url.to_owned(), direct: url.to_owned(), schema: self.schema.clone() }
    }

    /// The server's port.
    pub(crate) fn port(&self) -> u16 {
        let (_, place) = self.direct.rsplit_once(':').unwrap();
        place.split_once('/').unwrap().0.parse().unwrap()
    }

    /// Makes the store connect through this port.
    pub(crate) fn through(mut self, port: u16) -> Self {
        let (_, database) = self.direct.rsplit_once('/').unwrap();
        self.url = format!("postgres://postgres@127.0.0.1:{port}/{database}");
        self
    }

    /// Opens a handle with its own connections, like another process.
    pub(crate) async fn open(&self) -> PostgresStore {
        self.open_with(|_| {}).await
    }

    /// Opens a handle with other options.
    pub(crate) async fn open_with(
        &self,
        change: impl FnOnce(&mut PostgresOptions),
    ) -> PostgresStore {
        self.open_at(&self.own_url(""), change).await
    }

    /// A handle whose sessions on the server have this setting.
    pub(crate) async fn open_where(&self, setting: &str) -> PostgresStore {
        self.open_at(&self.own_url(&format!("&options=-c%20{setting}")), |_| {}).await
    }

    async fn open_at(&self, url: &str, change: impl FnOnce(&mut PostgresOptions)) -> PostgresStore {
        let mut options =
            PostgresOptions { schema: self.schema.clone(), ..PostgresOptions::default() };
        change(&mut options);
        PostgresStore::open_with(url, options).await.unwrap()
    }

    /// The sessions of this test's handles are identified by the schema's name.
    fn own_url(&self, more: &str) -> String {
        format!("{}?application_name={}{more}", self.url, self.schema)
    }

    /// A plain connection to the server.
    pub(crate) async fn connect(&self) -> Plain {
        let (client, connection) = tokio_postgres::connect(&self.direct, NoTls).await.unwrap();
        tokio::spawn(connection);
        Plain { client, schema: self.schema.clone() }
    }

    /// A connection of a program that has nothing to do with the store: no schema is replaced.
    pub(crate) async fn stranger(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.direct, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// A session that holds the upper half of all tickets until its transaction ends. Appends wait
    /// for it when all their statements are sent.
    pub(crate) async fn block_appends(&self) -> Plain {
        let holder = self.connect().await;
        holder
            .run("BEGIN; SELECT pg_advisory_xact_lock('tidelock.positions'::regclass::oid::integer, -1)")
            .await;
        holder
    }

    /// Installs a calendar in the database that the test can set; it continues from the old one.
    pub(crate) async fn own_calendar(&self) {
        let sql = "CREATE TABLE tidelock.ahead AS SELECT 0::bigint AS micros;
            CREATE OR REPLACE FUNCTION tidelock.calendar() RETURNS bigint LANGUAGE sql VOLATILE AS
            'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + micros FROM tidelock.ahead'";
        self.connect().await.run(sql).await;
    }

    /// Sets that calendar forward, for every session.
    pub(crate) async fn let_pass(&self, seconds: u32) {
        let sql =
            format!("UPDATE tidelock.ahead SET micros = micros + {seconds}::bigint * 1000000");
        self.connect().await.run(&sql).await;
    }
}

/// A connection for plain SQL that knows nothing of the store. Its statements say `tidelock.` for
/// the schema, and `@` for its name, which is also that of the store's sessions.
#[derive(Debug)]
pub(crate) struct Plain {
    client: Client,
    schema: SchemaName,
}

impl Plain {
    pub(crate) async fn run(&self, sql: &str) {
        self.try_run(sql).await.unwrap();
    }

    pub(crate) async fn try_run(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        soon("the server", self.client.batch_execute(&self.in_schema(sql))).await
    }

    /// The first column of the first row.
    pub(crate) async fn one<T: FromSqlOwned>(&self, sql: &str) -> T {
        self.client.query_one(&self.in_schema(sql), &[]).await.unwrap().get(0)
    }

    /// The first column of all rows.
    pub(crate) async fn all<T: FromSqlOwned>(&self, sql: &str) -> Vec<T> {
        let rows = self.client.query(&self.in_schema(sql), &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Polls until this is true. `what` completes the sentence "timed out until …".
    pub(crate) async fn until(&self, what: &str, sql: &str) {
        let begun = Instant::now();
        while !self.one::<bool>(sql).await {
            assert!(
                begun.elapsed() < PATIENCE,
                "timed out until {what}: {}",
                self.sessions().await
            );
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Waits until this many of the store's sessions wait for a lock.
    pub(crate) async fn until_blocked(&self, sessions: usize) {
        let sql = "SELECT count(*) = $ FROM pg_stat_activity WHERE application_name = '@' AND wait_event_type = 'Lock'";
        let what = format!("{sessions} of the store's sessions wait for a lock");
        self.until(&what, &sql.replace('$', &sessions.to_string())).await;
    }

    /// Waits until no session of the store has a transaction open.
    pub(crate) async fn until_none_is_open(&self) {
        let sql = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '@' AND state <> 'idle')";
        self.until("no transaction of the store is open", sql).await;
    }

    /// The state of the store's sessions, for a failure message.
    async fn sessions(&self) -> String {
        let sql =
            "SELECT pid, state, coalesce(wait_event, '-'), left(query, 120) FROM pg_stat_activity
                   WHERE application_name = '@'";
        let rows = self.client.query(&self.in_schema(sql), &[]).await.unwrap();
        rows.iter().fold(String::new(), |mut text, row| {
            let (pid, state, event, query): (i32, Option<&str>, &str, &str) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            let _ = write!(text, "\n{pid} {} {event} {query}", state.unwrap_or("-"));
            text
        })
    }

    fn in_schema(&self, sql: &str) -> String {
        sql.replace("tidelock.", "@.").replace('@', self.schema.as_str())
    }
}

/// Waits with a deadline: fails instead of hanging.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let came = tokio::time::timeout(PATIENCE, future).await;
    came.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}

pub(crate) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(crate) fn item(key: &str) -> ItemRef {
    ItemRef { queue: queue(), key: ItemKey::new(key).unwrap() }
}

/// The queue of every item here.
pub(crate) fn queue() -> QueueName {
    QueueName::new("mail").unwrap()
}

/// An event with this text.
pub(crate) fn event(text: &str) -> NewEvent {
    NewEvent::of("said", text).unwrap()
}

/// A plain append of one event, at any version of the stream.
pub(crate) fn append(name: &str, text: &str) -> Commit {
    Commit::new().append(&stream(name), ExpectedVersion::Any, [event(text)])
}

/// A wake of this item, immediately.
pub(crate) fn wake(key: &str) -> Commit {
    Commit::new().wake(Wake::at(item(key), When::NOW))
}

pub(crate) async fn committed(store: &PostgresStore, commit: Commit) -> Committed {
    accepted(soon("a commit", store.commit(commit)).await.unwrap())
}

pub(crate) fn accepted(outcome: CommitOutcome) -> Committed {
    outcome.committed().unwrap()
}

/// Leases what is ready, for a minute.
pub(crate) async fn lease(store: &PostgresStore, worker: &str, limit: usize) -> Vec<Lease> {
    lease_for(store, worker, limit, Duration::from_secs(60)).await
}

pub(crate) async fn lease_for(
    store: &PostgresStore,
    worker: &str,
    limit: usize,
    duration: Duration,
) -> Vec<Lease> {
    let request = LeaseRequest::new(&queue(), &WorkerName::new(worker).unwrap(), duration, limit);
    soon("leases", store.lease(request)).await.unwrap().leases
}

/// Everything in the feed after this position.
pub(crate) async fn feed_after(store: &PostgresStore, mut position: Position) -> Vec<StoredEvent> {
    let mut events = Vec::new();
    loop {
        let page = store.read_feed(FeedQuery::after(position)).await.unwrap();
        events.extend(page.events);
        position = page.next;
        if page.at_end {
            return events;
        }
    }
}

/// The texts of the events, in order.
pub(crate) fn said(events: &[StoredEvent]) -> Vec<String> {
    events.iter().map(|event| event.payload.to().unwrap()).collect()
}
