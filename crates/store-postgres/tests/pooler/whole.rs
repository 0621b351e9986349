//! Every kind of call through the pooler.

use std::time::Duration;

use tidelock_store::{
    Adjustment, Bounds, Commit, CommitId, ExpectedVersion, ItemFilter, Position, RecordKey,
    RecordWrite, Renewal, Store, StoreExt, Topic, ViolationKind, Wake, When,
};
use tidelock_store_postgres::tokio_postgres::error::SqlState;
use tidelock_store_postgres::tokio_postgres::{self, Client, NoTls};
use tidelock_store_postgres::{PostgresOptions, PostgresStore, Prepare};
use tidelock_test_postgres::Server;

use crate::ground::{
    Ground, accepted, append, committed, event, feed_after, item, lease, queue, soon, stream, wake,
};
use crate::pgbouncer::{PgBouncer, SERVER_CONNECTIONS};

const HANDLES: usize = 3;
const CALLERS: usize = 6;
const COMMITS: usize = 10;

/// A server with a pooler in front of it.
struct Site {
    ground: Ground,
    pooler: PgBouncer,
    _server: Server,
}

impl Site {
    fn new() -> Self {
        let server = Server::start().unwrap();
        let pooler = PgBouncer::before(server.port());
        let ground = Ground::on(&server.url()).through(pooler.port);
        Self { ground, pooler, _server: server }
    }

    async fn open(&self) -> PostgresStore {
        self.ground.open_with(pooled).await
    }

    /// A plain connection through the pooler.
    async fn client(&self) -> Client {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.pooler.port);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Whether any of some commits fails while another client takes and leaves connections.
    async fn fails(&self, store: &PostgresStore) -> bool {
        let (client, mut failed) = (self.client().await, false);
        for _ in 0..10 {
            client.batch_execute("BEGIN").await.unwrap();
            failed |= store.commit(append("a", "a")).await.is_err();
            client.batch_execute("COMMIT").await.unwrap();
            failed |= store.commit(append("a", "a")).await.is_err();
        }
        failed
    }

    /// The state that the pooler's server connections keep.
    async fn kept(&self) -> Vec<String> {
        // All of them at once, so that none is read twice.
        let mut clients = Vec::new();
        for _ in 0..SERVER_CONNECTIONS {
            let client = self.client().await;
            client.batch_execute("BEGIN").await.unwrap();
            clients.push(client);
        }
        let mut kept = Vec::new();
        for client in clients {
            for question in KEPT {
                kept.extend(rows(&client.simple_query(question).await.unwrap()));
            }
        }
        kept
    }
}

/// What a session can keep beyond a transaction: statements, channels, locks and settings.
const KEPT: [&str; 4] = [
    "SELECT statement FROM pg_prepared_statements",
    "SELECT pg_listening_channels()",
    "SELECT locktype FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    "SELECT name FROM pg_settings WHERE name ~ '^(enable_|jit$|plan_cache_mode)' AND source = 'session'",
];

fn rows(messages: &[tokio_postgres::SimpleQueryMessage]) -> Vec<String> {
    let row = |message: &tokio_postgres::SimpleQueryMessage| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => {
            Some(row.get(0).unwrap_or_default().to_owned())
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

fn pooled(options: &mut PostgresOptions) {
    options.prepare = Prepare::Never;
    options.poll_interval = Duration::from_millis(50);
}

/// Schedule 81: from an empty database to every kind of call, by several handles at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_works_though_each_transaction_has_another_connection() {
    let site = Site::new();
    let opening: Vec<_> = (0..HANDLES)
        .map(|_| {
            let ground = site.ground.clone();
            tokio::spawn(async move { ground.open_with(pooled).await })
        })
        .collect();
    let mut stores = Vec::new();
    for opening in opening {
        stores.push(soon("a handle", opening).await.unwrap());
    }
    let callers = stores.iter().enumerate().flat_map(|(handle, store)| {
        (0..CALLERS).map(move |n| tokio::spawn(call(store.clone(), format!("{handle}-{n}"))))
    });
    for caller in callers.collect::<Vec<_>>() {
        soon("a caller", caller).await.unwrap();
    }
    check_what_is_there(&stores[0]).await;
    adjust_and_wait(&stores).await;
    assert_eq!(site.kept().await, Vec::<String>::new(), "something is left in a session");
}

async fn call(store: PostgresStore, name: String) {
    let total = RecordKey::new("total").unwrap();
    for nth in 0..COMMITS {
        committed(&store, append(&name, "alone")).await;
        committed(&store, append("crowd", "together")).await;
        let long = append(&format!("{name}-long"), "long")
            .write(RecordWrite::add(&total, 1, Bounds::NONE))
            .wake(Wake::at(item(&format!("{name}-{nth}")), When::NOW))
            .with_id(CommitId::fresh());
        let first = committed(&store, long.clone()).await;
        assert_eq!(committed(&store, long).await, first, "the same again is the first result");
        work(&store, &name).await;
        user_transaction(&store, &name, nth).await;
    }
}

/// Leases something, renews it, and settles it.
async fn work(store: &PostgresStore, name: &str) {
    for held in lease(store, name, 1).await {
        let renewed =
            soon("a renewal", store.renew(&[held.token()], Duration::from_secs(90))).await.unwrap();
        assert!(matches!(renewed[..], [Renewal::Renewed(_)]), "{renewed:?}");
        committed(store, Commit::new().settle(held.ack())).await;
    }
}

/// A user statement and a commit, in one transaction; sometimes rolled back.
async fn user_transaction(store: &PostgresStore, name: &str, nth: usize) {
    let own = soon("a connection", store.begin()).await.unwrap();
    let rows = own.query("SELECT $1::int8 + 1", &[&(nth as i64)]).await.unwrap();
    assert_eq!(rows[0].get::<_, i64>(0), nth as i64 + 1);
    if nth.is_multiple_of(3) {
        drop(own);
        return;
    }
    let stream = stream(&format!("{name}-user"));
    let guarded = Commit::new().append(&stream, ExpectedVersion::Any, [event("own")]);
    accepted(soon("a commit", own.commit(guarded)).await.unwrap());
}

async fn check_what_is_there(store: &PostgresStore) {
    let (callers, doors) = (HANDLES * CALLERS, COMMITS - COMMITS.div_ceil(3));
    let feed = feed_after(store, Position::START).await;
    assert_eq!(feed.len(), callers * (3 * COMMITS + doors));
    assert!(feed.iter().map(|event| event.position).is_sorted());
    let crowd = store.read_whole_stream(&stream("crowd")).await.unwrap();
    assert!(crowd.iter().map(|event| event.version.get()).eq(1..=(callers * COMMITS) as u64));
    let total =
        store.get_one(&RecordKey::new("total").unwrap()).await.unwrap().into_live().unwrap();
    assert_eq!(total.value.to::<usize>().unwrap(), callers * COMMITS);
}

/// The rest: adjustments, conflicts, and waiting, which is by polling here.
async fn adjust_and_wait(stores: &[PostgresStore]) {
    let (one, other) = (&stores[0], &stores[1]);
    for held in lease(one, "worker", 1_000).await {
        committed(one, Commit::new().settle(held.ack())).await;
    }
    let mut signal = one.signal(Topic::Queue(queue()));
    committed(other, wake("adjusted")).await;
    soon("a poll", signal.wait()).await;
    let filter = ItemFilter::queue("mail").key(tidelock_store::NamePattern::is("adjusted"));
    let until = When::In(Duration::from_secs(60));
    assert_eq!(one.adjust(filter, Adjustment::Defer { until }).await.unwrap().changed, 1);
    assert!(lease(other, "worker", 1).await.is_empty());
    let taken = Commit::new().append(&stream("crowd"), ExpectedVersion::NoStream, [event("taken")]);
    let conflict = one.commit(taken).await.unwrap().conflict().unwrap();
    assert!(conflict.has(ViolationKind::Taken), "{conflict}");
}

/// Schedule 81, control: through this pooler, session state leaks to others and is not there for
/// the next transaction.
#[tokio::test]
async fn what_a_session_keeps_is_lost_behind_this_pooler() {
    let site = Site::new();
    let (one, other) = (site.client().await, site.client().await);
    one.batch_execute("SET jit = off; LISTEN channel; SELECT pg_advisory_lock(1)").await.unwrap();
    let prepared = one.prepare("SELECT 1").await.unwrap();
    assert_eq!(site.kept().await, ["SELECT 1", "channel", "advisory", "jit"]);
    // It gets the connection that was used last, which is the one with the statement.
    other.batch_execute("BEGIN; SELECT 1").await.unwrap();
    let lost = one.query(&prepared, &[]).await;
    other.batch_execute("COMMIT").await.unwrap();
    let again = one.query(&prepared, &[]).await;
    let lost = lost.and(again).unwrap_err();
    assert_eq!(lost.code(), Some(&SqlState::INVALID_SQL_STATEMENT_NAME), "{lost}");
}

/// Schedule 81, control: a store that prepares its statements fails here.
#[tokio::test]
async fn a_store_that_prepares_fails_behind_this_pooler() {
    let site = Site::new();
    site.open().await.close().await.unwrap();
    let options =
        PostgresOptions { schema: site.ground.schema.clone(), ..PostgresOptions::default() };
    let failed = match PostgresStore::open_with(&site.ground.url, options).await {
        Ok(store) => site.fails(&store).await,
        Err(_) => true,
    };
    assert!(failed, "nothing was lost between two transactions");
}
