//! Server selection: which of the servers of a URL is used, and the error when none can be.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidelock_store::{
    Adjustment, Commit, FeedQuery, ItemFilter, ItemRef, Lease, LeaseRequest, Mark, Position,
    RetryAdvice, Store, StoreError, StoreErrorKind, Wake, WorkerName,
};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::{Server, run_script};

fn url(ports: &[u16], options: &str) -> String {
    let hosts: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://postgres@{}/postgres?{options}", hosts.join(","))
}

async fn refusal(url: &str) -> StoreError {
    PostgresStore::open(url).await.map(drop).expect_err("no server can be used")
}

/// A port that never answers: the system accepts connections, and no process reads from them.
fn silence() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A port that is closed.
fn nothing() -> u16 {
    silence().1
}

/// Schedule 74 in part: after a failover the URL leads to the new primary by itself.
#[tokio::test]
async fn a_standby_and_a_silent_server_are_passed_over() {
    let primary = Server::start().unwrap();
    let standby = primary.standby("second").unwrap();
    let (_listener, silent) = silence();
    let ports = [nothing(), silent, standby.port(), primary.port()];
    PostgresStore::open(&url(&ports, "connect_timeout_ms=8000")).await.unwrap();

    let refused = refusal(&url(&[standby.port()], "")).await;
    assert_eq!(
        (refused.kind(), refused.advice()),
        (StoreErrorKind::Unavailable, RetryAdvice::Later),
        "{refused}"
    );
    assert!(refused.context().contains("standby"), "{refused}");

    standby.promote().unwrap();
    PostgresStore::open(&url(&[standby.port()], "")).await.unwrap();
}

#[tokio::test]
async fn servers_that_cannot_be_reached_are_worth_another_try() {
    let (_listener, silent) = silence();
    let closed = nothing();
    let refused = refusal(&url(&[silent, closed], "connect_timeout_ms=200")).await;
    assert_eq!(
        (refused.kind(), refused.advice()),
        (StoreErrorKind::Unavailable, RetryAdvice::Later),
        "{refused}"
    );
    for said in [
        format!("127.0.0.1:{silent},127.0.0.1:{closed}/postgres: none of the servers can be used"),
        format!("127.0.0.1:{silent}: no connection within 100ms"),
        format!("127.0.0.1:{closed}: cannot be reached: Connection refused"),
    ] {
        assert!(refused.context().contains(&said), "{said:?} in {refused}");
    }
}

#[tokio::test]
async fn a_server_is_reached_through_its_socket() {
    let server = Server::start().unwrap();
    let (folder, port) = (server.socket_folder().display(), server.port());
    let url = |port| {
        format!("postgres://postgres@/postgres?host={folder}&port={port}&sslmode=verify-full")
    };
    PostgresStore::open(&url(port)).await.unwrap();

    let refused = refusal(&url(nothing())).await;
    assert_eq!(
        (refused.kind(), refused.advice()),
        (StoreErrorKind::Unavailable, RetryAdvice::Later),
        "{refused}"
    );
}

/// As roles for reports often are. Such a program can open the store all the same, and the error
/// says how.
#[tokio::test]
async fn a_role_that_never_writes_is_told_how_to_read() {
    let server = Server::start().unwrap();
    PostgresStore::open(&server.url()).await.unwrap();
    server
        .run_sql(
            "postgres",
            "CREATE ROLE report LOGIN SUPERUSER; ALTER ROLE report SET default_transaction_read_only = on",
        )
        .unwrap();
    let url = server.url_of("report", "postgres");
    let refused = refusal(&url).await;
    assert!(
        refused.context().contains("default_transaction_read_only is on for this role"),
        "{refused}"
    );
    let (_, option) = refused.context().rsplit_once("write ").unwrap();
    let store = PostgresStore::open(&format!("{url}?{option}")).await.unwrap();
    assert!(store.read_feed(FeedQuery::after(Position::START)).await.unwrap().at_end);
}

#[tokio::test]
async fn a_wrong_option_for_the_session_is_said_to_be_one() {
    let server = Server::start().unwrap();
    for setting in ["fsyn%3D1", "statement_timeout%3Dsoon"] {
        let refused = refusal(&format!("{}?options=-c%20{setting}", server.url())).await;
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Invalid, RetryAdvice::Never),
            "{refused}"
        );
        assert!(refused.context().contains("check what options= sets"), "{refused}");
    }
}

#[tokio::test]
async fn a_wrong_user_or_database_is_said_for_good_and_a_full_server_is_not() {
    let server = Server::start().unwrap();
    server.run_sql("postgres", "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0").unwrap();
    let cases = [
        ("postgres", "nowhere", "create the database", StoreErrorKind::Invalid, RetryAdvice::Never),
        ("stranger", "postgres", "check the user", StoreErrorKind::Invalid, RetryAdvice::Never),
        ("crowd", "postgres", "max_connections", StoreErrorKind::Unavailable, RetryAdvice::Later),
    ];
    for (user, database, said, kind, advice) in cases {
        let refused = refusal(&server.url_of(user, database)).await;
        assert_eq!((refused.kind(), refused.advice()), (kind, advice), "{refused}");
        assert!(refused.context().contains(said), "{refused}");
        assert!(refused.context().contains(&format!("{}/{database}", server.port())), "{refused}");
    }
}

/// Schedule 119. The server's own `version()` and `pg_locks` come second on this search path.
#[tokio::test]
async fn a_server_that_only_looks_like_postgresql_is_refused() {
    let server = Server::start().unwrap();
    let lying = |schema: &str| {
        format!("{}?options=-csearch_path%3D{schema},pg_catalog,public", server.url())
    };
    let sql = "CREATE SCHEMA named; CREATE SCHEMA blind;
               CREATE FUNCTION named.version() RETURNS text LANGUAGE sql
               AS $$ SELECT 'CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)' $$;
               CREATE VIEW blind.pg_locks AS SELECT * FROM pg_catalog.pg_locks WHERE false";
    run_script(&server.url(), sql).unwrap();
    for (schema, why) in [("named", "CockroachDB"), ("blind", "does not show the advisory lock")] {
        let refused = refusal(&lying(schema)).await;
        let (kind, advice) = (refused.kind(), refused.advice());
        assert_eq!((kind, advice), (StoreErrorKind::Incompatible, RetryAdvice::Never), "{refused}");
        assert!(refused.context().contains(why), "{refused}");
    }
    PostgresStore::open(&lying("public")).await.unwrap();
}

/// The budget in docs/guides/postgres.md: 6 and `readers`, however much is asked for at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_uses_at_most_eight_connections() {
    let server = Server::start().unwrap();
    let url = format!("{}?application_name=counted", server.url());
    let store = PostgresStore::open(&url).await.unwrap();
    let (client, connection) =
        tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let (client, most) = (Arc::new(client), Arc::new(AtomicI64::new(0)));
    let load: Vec<_> = (0..64)
        .map(|nth| {
            let (store, client, most) = (store.clone(), client.clone(), most.clone());
            tokio::spawn(async move {
                let item = ItemRef::parse("q", &format!("i-{nth}")).unwrap();
                let (queue, worker) = (item.queue.clone(), WorkerName::new("w").unwrap());
                for round in 0..20 {
                    let commit = Commit::new()
                        .wake(Wake::to_mark(item.clone(), Mark::new(round + 1).unwrap()));
                    store.commit(commit).await.unwrap().committed().unwrap();
                    let request = LeaseRequest::new(&queue, &worker, Duration::from_secs(60), 1);
                    let leases = store.lease(request).await.unwrap().leases;
                    let tokens: Vec<_> = leases.iter().map(Lease::token).collect();
                    store.renew(&tokens, Duration::from_secs(60)).await.unwrap();
                    store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
                    let acks = leases.iter().map(Lease::ack);
                    let again = Wake::to_mark(item.clone(), Mark::new(round + 1).unwrap());
                    let settled = acks.fold(Commit::new().wake(again), Commit::settle);
                    store.commit(settled).await.unwrap().committed().unwrap();
                    let count =
                        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'";
                    let row = client.query_one(count, &[]).await.unwrap();
                    most.fetch_max(row.get(0), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in load {
        task.await.unwrap();
    }
    let most = most.load(Ordering::Relaxed);
    assert!((5..=8).contains(&most), "{most} connections");
    let adjusted = store.adjust(ItemFilter::queue("q"), Adjustment::Unblock).await.unwrap();
    assert!(adjusted.matched <= 64);
}
