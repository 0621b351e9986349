//! Copies of a database, made by PostgreSQL's own tools.

use std::process::Command;
use std::sync::LazyLock;
use std::time::Instant;

use tidelock_store::{RetryAdvice, Store, StoreErrorKind};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Server;

use crate::careful::note;
use crate::given::Given;
use crate::ground::PATIENCE;

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start().unwrap());

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_is_restored_elsewhere_gives_nothing_out_again() {
    SERVER.create_database("dumped").unwrap();
    let kept = Given::before_the_copy(&url("dumped")).await;
    let dump = dump("dumped", "--no-owner");
    let lost = Given::after_the_copy(&url("dumped")).await;

    SERVER.create_database("restored").unwrap();
    SERVER.run_sql("restored", &dump).unwrap();
    Given::by_the_copy(&url("restored"), &kept, &[lost]).await;
}

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_is_restored_in_place_gives_nothing_out_again() {
    SERVER.create_database("reset").unwrap();
    let kept = Given::before_the_copy(&url("reset")).await;
    let dump = dump("reset", "--clean");
    let lost = Given::after_the_copy(&url("reset")).await;

    SERVER.run_sql("reset", &dump).unwrap();
    Given::by_the_copy(&url("reset"), &kept, &[lost]).await;
}

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5.
#[tokio::test(flavor = "multi_thread")]
async fn a_copied_database_gives_nothing_out_again() {
    SERVER.create_database("copied").unwrap();
    let kept = Given::before_the_copy(&url("copied")).await;
    copy("copied", "copy");
    let lost = Given::after_the_copy(&url("copied")).await;

    Given::by_the_copy(&url("copy"), &kept, &[lost]).await;
    assert_eq!(epochs("copy"), 2, "one at the original, one here");
    PostgresStore::open(&url("copied")).await.unwrap();
    assert_eq!(epochs("copied"), 1, "the original has not moved");
}

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5. The tables are the same as
/// before.
#[tokio::test(flavor = "multi_thread")]
async fn data_that_is_restored_into_emptied_tables_gives_nothing_out_again() {
    SERVER.create_database("refilled").unwrap();
    let kept = Given::before_the_copy(&url("refilled")).await;
    let dump = dump("refilled", "--data-only");
    let lost = Given::after_the_copy(&url("refilled")).await;

    let tables = "SELECT string_agg(oid::regclass::text, ',') FROM pg_class
                  WHERE relkind = 'r' AND relnamespace = 'tidelock'::regnamespace";
    let tables = SERVER.run_sql("refilled", tables).unwrap();
    SERVER.run_sql("refilled", &format!("TRUNCATE {tables};\n{dump}")).unwrap();
    Given::by_the_copy(&url("refilled"), &kept, &[lost]).await;
}

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5. The first copy was wrong, so
/// another is made.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_copy_gives_nothing_out_again_that_the_first_one_did() {
    SERVER.create_database("twice").unwrap();
    let kept = Given::before_the_copy(&url("twice")).await;
    copy("twice", "first");
    copy("twice", "second");
    let by_original = Given::after_the_copy(&url("twice")).await;

    let by_first = Given::by_the_copy(&url("first"), &kept, &[]).await;
    Given::by_the_copy(&url("second"), &kept, &[by_original, by_first]).await;
}

/// Schedules 77 and 105; LOG-7, LOG-10, REC-2, LEASE-2 and LEASE-5. The application's rights are
/// enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_only_the_application_opens_gives_nothing_out_again() {
    SERVER.create_database("owned").unwrap();
    PostgresStore::open(&url("owned")).await.unwrap();
    SERVER.run_sql("owned", include_str!("../../sql/roles.sql")).unwrap();
    SERVER.run_sql("owned", "CREATE ROLE application LOGIN IN ROLE tidelock_app").unwrap();

    let kept = Given::before_the_copy(&SERVER.url_of("application", "owned")).await;
    copy("owned", "lent");
    let lost = Given::after_the_copy(&SERVER.url_of("application", "owned")).await;
    Given::by_the_copy(&SERVER.url_of("application", "lent"), &kept, &[lost]).await;
}

/// Schedules 76 and 77. The copies have the same name, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_used_one_copy_refuses_another() {
    SERVER.create_database("forked").unwrap();
    note(&PostgresStore::open(&url("forked")).await.unwrap(), "before").await;
    copy("forked", "one");
    copy("forked", "other");
    // It connects when it is called, and not by itself in the middle of the renaming.
    let quiet = url("one") + "?notify=never&sweep_interval_ms=3600000";
    let store = PostgresStore::open(&quiet).await.unwrap();
    note(&store, "after").await;

    rename("one", "gone");
    rename("other", "one");
    let newcomer = PostgresStore::open(&url("one")).await.unwrap();
    note(&newcomer, "after").await;
    let error = store.now().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.advice()),
        (StoreErrorKind::Rewound, RetryAdvice::Later),
        "{error}"
    );
}

fn url(database: &str) -> String {
    SERVER.url_of("postgres", database)
}

/// The database as an SQL dump.
fn dump(database: &str, how: &str) -> String {
    let mut pg_dump = Command::new("pg_dump");
    let output = pg_dump.arg(how).arg("--dbname").arg(url(database)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn copy(database: &str, to: &str) {
    disconnect_all(database);
    SERVER.run_sql("postgres", &format!("CREATE DATABASE {to} TEMPLATE {database}")).unwrap();
}

fn rename(database: &str, to: &str) {
    disconnect_all(database);
    SERVER.run_sql("postgres", &format!("ALTER DATABASE {database} RENAME TO {to}")).unwrap();
}

/// A database that is copied or renamed must have no connections.
fn disconnect_all(database: &str) {
    let begun = Instant::now();
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
    );
    while !SERVER.run_sql("postgres", &sql).unwrap().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "a session stays connected to {database}");
    }
}

fn epochs(database: &str) -> usize {
    SERVER.run_sql(database, "SELECT count(*) FROM tidelock.epochs").unwrap().parse().unwrap()
}
