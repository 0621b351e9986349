//! Migrations: tables are created once, under concurrency and crashes; and a foreign schema is left
//! alone.

// Clippy lets tests unwrap, but does not see that a binary without the usual harness is one.
#![allow(clippy::unwrap_used)]

#[path = "first_schema/mod.rs"]
mod first_schema;
mod ground;
#[path = "../../store-sqlite/tests/worker/mod.rs"]
mod worker;

use std::process::ExitCode;

use ground::{Ground, Plain, append, committed};
use libtest_mimic::{Arguments, Trial};
use tidelock_store::{RetryAdvice, Store, StoreError, StoreErrorKind};
use tidelock_store_postgres::{PostgresStore, SCHEMA_VERSION};
use worker::{Part, Worker, order, say};

/// How many processes open a schema at once.
const PROCESSES: u64 = 10;
/// How often they do.
const ROUNDS: usize = 4;

fn main() -> ExitCode {
    if let Some(part) = Part::to_play() {
        block_on(opener(&part));
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        trial(
            "ten_processes_open_an_empty_schema_at_once",
            ten_processes_open_an_empty_schema_at_once,
        ),
        trial(
            "a_migration_cut_short_is_done_by_the_next",
            a_migration_cut_short_is_done_by_the_next,
        ),
        trial("a_dead_process_still_at_it_is_waited_for", a_dead_process_still_at_it_is_waited_for),
        trial(
            "a_schema_from_a_newer_version_is_left_alone",
            a_schema_from_a_newer_version_is_left_alone,
        ),
        trial(
            "a_schema_from_a_newer_version_is_used_if_all_of_it_works_with_this_one",
            a_schema_from_a_newer_version_is_used_if_all_of_it_works_with_this_one,
        ),
        trial(
            "a_schema_with_another_migration_is_left_alone",
            a_schema_with_another_migration_is_left_alone,
        ),
        trial("a_foreign_schema_is_left_alone", a_foreign_schema_is_left_alone),
        trial("without_migrate_nothing_is_made", without_migrate_nothing_is_made),
        trial(
            "the_statements_name_every_column_of_an_item",
            the_statements_name_every_column_of_an_item,
        ),
        trial(
            "a_store_of_the_first_schema_goes_on",
            first_schema::a_store_of_the_first_schema_goes_on,
        ),
        trial(
            "a_migration_in_a_deadlock_with_a_program_at_work_is_made_again",
            first_schema::a_migration_in_a_deadlock_with_a_program_at_work_is_made_again,
        ),
        trial(
            "a_program_of_the_first_schema_works_on_the_next",
            first_schema::a_program_of_the_first_schema_works_on_the_next,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial<F: Future<Output = ()> + 'static>(name: &str, test: fn() -> F) -> Trial {
    Trial::test(name, move || {
        block_on(test());
        Ok(())
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime starts").block_on(future)
}

/// Opens the store when it is told to, and appends.
async fn opener(part: &Part) {
    say("ready");
    order();
    let store = PostgresStore::open(part.argument(0)).await.unwrap();
    say(format!("appended {}", append_one(&store).await));
    store.close().await.unwrap();
}

async fn append_one(store: &PostgresStore) -> u64 {
    committed(store, append("openings", "opened")).await.appends[0].version.get()
}

/// Opens the store with these options, and closes it again.
async fn open(ground: &Ground, options: &str) -> Result<(), StoreError> {
    PostgresStore::open(&format!("{}{options}", url(ground))).await?.close().await
}

fn url(ground: &Ground) -> String {
    format!("{}?schema={1}&application_name={1}", ground.url, ground.schema)
}

async fn migrations(plain: &Plain) -> i64 {
    plain.one("SELECT count(*) FROM tidelock.migrations").await
}

/// Schedule 80.
async fn ten_processes_open_an_empty_schema_at_once() {
    for _ in 0..ROUNDS {
        let ground = Ground::shared();
        let mut openers: Vec<_> =
            (0..PROCESSES).map(|_| Worker::start("opener", &[&url(&ground)])).collect();
        openers.iter().for_each(|opener| drop(opener.hear("ready")));
        openers.iter_mut().for_each(|opener| opener.tell("open"));
        let mut versions: Vec<u64> =
            openers.iter().map(|opener| opener.hear("appended").parse().unwrap()).collect();
        openers.into_iter().for_each(|opener| drop(opener.finish()));
        versions.sort_unstable();
        assert_eq!(versions, (1..=PROCESSES).collect::<Vec<_>>(), "each of them appended, once");
        assert_eq!(migrations(&ground.connect().await).await, 2);
    }
}

/// A process in the middle of its migration: some tables are created, and for the next one it waits
/// for a session that creates one of that name.
struct HalfWay {
    opener: Worker,
    obstacle: Plain,
}

impl HalfWay {
    async fn through(ground: &Ground) -> Self {
        let obstacle = ground.connect().await;
        obstacle.run("CREATE SCHEMA @").await;
        obstacle.run("BEGIN; CREATE TABLE tidelock.items (n int)").await;
        let mut opener = Worker::start("opener", &[&url(ground)]);
        opener.hear("ready");
        opener.tell("open");
        let plain = ground.connect().await;
        plain.until_blocked(1).await;
        assert!(
            plain.one::<bool>(&turns("granted")).await,
            "it has its turn, and waits for something else"
        );
        Self { opener, obstacle }
    }
}

/// Whether a session has the lock by which migrations take turns, or waits for it.
fn turns(how: &str) -> String {
    format!(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE {how} AND mode = 'ShareRowExclusiveLock'
            AND relation = to_regclass('tidelock.migrations'))"
    )
}

/// Schedule 80, with a crash: each step is complete, or has not happened.
async fn a_migration_cut_short_is_done_by_the_next() {
    let ground = Ground::shared();
    let HalfWay { opener, obstacle } = HalfWay::through(&ground).await;
    opener.kill();
    obstacle.run("ROLLBACK").await;
    assert_eq!(append_one(&ground.open().await).await, 1);
    assert_eq!(migrations(&obstacle).await, 2);
}

/// Schedule 80: the server continues for a while with a dead process's statement.
async fn a_dead_process_still_at_it_is_waited_for() {
    let ground = Ground::shared();
    let HalfWay { opener, obstacle } = HalfWay::through(&ground).await;
    opener.kill();
    let mut next = Worker::start("opener", &[&url(&ground)]);
    next.hear("ready");
    next.tell("open");
    ground.connect().await.until("the next one waits for its turn", &turns("NOT granted")).await;
    obstacle.run("ROLLBACK").await;
    assert_eq!(next.hear("appended"), "1");
    next.finish();
    assert_eq!(migrations(&obstacle).await, 2);
}

/// Everything that the catalogs say about the schema; a rewritten row has another transaction's
/// number.
async fn catalog(plain: &Plain) -> String {
    let sql = "SELECT string_agg(concat_ws(' ', oid, xmin), ', ' ORDER BY oid) FROM (
        SELECT oid, xmin FROM pg_class WHERE relnamespace = '@'::regnamespace
        UNION ALL SELECT oid, xmin FROM pg_proc WHERE pronamespace = '@'::regnamespace
        UNION ALL SELECT oid, xmin FROM pg_namespace WHERE nspname = '@') AS everything";
    plain.one(sql).await
}

/// Corrupts the list of migrations of a valid store: it must be refused with this message, and left
/// unchanged.
async fn check_left_alone(spoil: &str, said: &str) {
    let ground = Ground::shared();
    open(&ground, "").await.unwrap();
    let plain = ground.connect().await;
    plain.run(spoil).await;
    let rows = "SELECT string_agg(m::text, ', ' ORDER BY number) FROM tidelock.migrations m";
    let before = (catalog(&plain).await, plain.one::<String>(rows).await);
    for options in ["&migrate=1", "&migrate=0"] {
        check_incompatible(&open(&ground, options).await.unwrap_err(), said);
    }
    assert_eq!((catalog(&plain).await, plain.one::<String>(rows).await), before);
}

fn check_incompatible(refused: &StoreError, said: &str) {
    assert_eq!(
        (refused.kind(), refused.advice()),
        (StoreErrorKind::Incompatible, RetryAdvice::Never),
        "{refused}"
    );
    assert!(refused.to_string().contains(said), "{said:?} in {refused}");
}

async fn a_schema_from_a_newer_version_is_left_alone() {
    let spoil = "INSERT INTO tidelock.migrations VALUES (3, 'archive', 'x', now())";
    check_left_alone(spoil, "made by a newer version of Tidelock (it has migration 3, \"archive\"")
        .await;
}

/// Schedule 120. Each migration that was added since has to say so; and nothing is changed.
async fn a_schema_from_a_newer_version_is_used_if_all_of_it_works_with_this_one() {
    let ground = Ground::shared();
    open(&ground, "").await.unwrap();
    let (plain, own) = (ground.connect().await, SCHEMA_VERSION);
    let insert = |number, works_with| {
        format!(
            "INSERT INTO tidelock.migrations VALUES ({number}, 'next', 'x', now(), {works_with})"
        )
    };
    plain.run(&insert(own + 1, own)).await;
    let before = catalog(&plain).await;
    for options in ["&migrate=1", "&migrate=0"] {
        open(&ground, options).await.unwrap();
    }
    assert_eq!(catalog(&plain).await, before);
    plain.run(&insert(own + 2, own + 1)).await;
    for options in ["&migrate=1", "&migrate=0"] {
        let said = format!("it has migration {}, \"next\"", own + 2);
        check_incompatible(&open(&ground, options).await.unwrap_err(), &said);
    }
}

async fn a_schema_with_another_migration_is_left_alone() {
    let spoil = "UPDATE tidelock.migrations SET checksum = 'x' WHERE number = 1";
    check_left_alone(
        spoil,
        "migration 1 (\"store\") of the schema is not the one that this version",
    )
    .await;
}

/// A foreign schema is not mixed with ours.
async fn a_foreign_schema_is_left_alone() {
    let ground = Ground::shared();
    let plain = ground.connect().await;
    plain.run("CREATE SCHEMA @; CREATE TABLE tidelock.events (mine int)").await;
    let refused = open(&ground, "").await.unwrap_err();
    assert!(refused.to_string().contains("\"events\" already exists"), "{refused}");
    assert!(plain.one::<bool>("SELECT to_regclass('tidelock.streams') IS NULL").await);

    let ground = Ground::shared();
    let plain = ground.connect().await;
    plain.run("CREATE SCHEMA @; CREATE TABLE tidelock.migrations (id int)").await;
    for options in ["&migrate=1", "&migrate=0"] {
        let refused = open(&ground, options).await.unwrap_err();
        check_incompatible(&refused, "is not Tidelock's: give the store a schema of its own");
    }
    assert!(plain.one::<bool>("SELECT to_regclass('tidelock.streams') IS NULL").await);
}

async fn without_migrate_nothing_is_made() {
    let ground = Ground::shared();
    let plain = ground.connect().await;
    let refused = open(&ground, "&migrate=0").await.unwrap_err();
    check_incompatible(&refused, "there is no Tidelock store in schema");
    assert!(plain.one::<bool>("SELECT to_regnamespace('@') IS NULL").await);

    open(&ground, "").await.unwrap();
    let before = catalog(&plain).await;
    open(&ground, "&migrate=0").await.unwrap();
    assert_eq!(catalog(&plain).await, before);
}

/// The columns of an item are spelled in two files, and once more in the scripts that make them.
async fn the_statements_name_every_column_of_an_item() {
    let (ground, names) = (Ground::shared(), include_str!("../sql/item_columns.sql"));
    open(&ground, "").await.unwrap();
    let columns: Vec<String> = ground
        .connect()
        .await
        .all(
            "SELECT column_name::text FROM information_schema.columns
             WHERE table_schema = '@' AND table_name = 'items' ORDER BY ordinal_position",
        )
        .await;
    assert_eq!(names.split(',').map(str::trim).collect::<Vec<_>>(), columns);
    let changed = include_str!("../sql/change_items.sql");
    for column in columns.iter().filter(|column| !["queue", "key"].contains(&column.as_str())) {
        assert!(changed.contains(&format!(" {column} = n.{column}")), "{column}");
    }
}
