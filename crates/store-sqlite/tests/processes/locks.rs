//! Schedule 69: another program, with plain SQL, reads and writes the same file.
//!
//! A writer that reads first and writes later (a deferred transaction) is refused immediately when
//! another one was faster. The store takes the write lock first, so it only ever waits.

use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tidelock_store::{
    Commit, CommitOutcome, ExpectedVersion, NewEvent, Result, RetryAdvice, Store, StoreErrorKind,
    StoreExt, StreamName, Version,
};
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};

use crate::worker::{Part, Worker, order, say};
use crate::{block_on, open};

pub(crate) fn foreign_transactions_never_fail_a_commit() {
    /// At least this many, and on until the other writer has had its share too; SQLite's own busy
    /// handler is not the most successful.
    const COMMITS: u64 = 150;
    const ENOUGH_FOR_BOTH: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    let onlooker = Connection::open(&path).unwrap();
    create_foreign_rows(&onlooker);
    let mut reader = Worker::start("foreigner", &[&path]);
    let mut writer = Worker::start("foreigner", &[&path]);
    writer.tell("write without pause");
    writer.hear("done");
    let foreign_rows =
        || onlooker.query_row("SELECT count(*) FROM foreign_rows", [], |row| row.get::<_, u32>(0));
    block_on(async {
        let mut version = 0;
        while version < COMMITS || foreign_rows().unwrap() <= 10 {
            // A transaction that began to read a few commits ago keeps its snapshot.
            if version % 10 == 0 {
                reader.tell(if version % 20 == 0 { "begin to read" } else { "end" });
                reader.hear("done");
            }
            let expected =
                Version::new(version).map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
            let outcome =
                append(&store, expected).await.expect("it waits for its turn and never gives up");
            assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
            version += 1;
            assert!(
                version < ENOUGH_FOR_BOTH,
                "the other writer wrote {} rows",
                foreign_rows().unwrap()
            );
        }
        assert_eq!(store.read_whole_stream(&stream()).await.unwrap().len() as u64, version);
    });
    writer.tell("enough");
    writer.hear("written");
    writer.finish();
}

pub(crate) fn a_lock_held_for_too_long_is_unavailable_and_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let patience = Duration::from_millis(250);
    let options = SqliteOptions { busy_timeout: patience, ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, &options).unwrap();
    block_on(async {
        let _ = append(&store, ExpectedVersion::NoStream).await.unwrap();
        create_foreign_rows(&Connection::open(&path).unwrap());
        let mut foreigner = Worker::start("foreigner", &[&path]);
        foreigner.tell("begin to write");
        foreigner.hear("done");

        let begun = Instant::now();
        let refused = append(&store, ExpectedVersion::Any).await.expect_err("the file is locked");
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Later),
            "{refused}"
        );
        assert!(refused.to_string().contains("locked by another process"), "{refused}");
        assert!(begun.elapsed() >= patience, "it waited for as long as it was told to");
        assert_eq!(
            store.read_whole_stream(&stream()).await.unwrap().len(),
            1,
            "reading needs no lock"
        );

        foreigner.tell("end");
        foreigner.hear("done");
        let _ =
            append(&store, ExpectedVersion::Exact(Version::FIRST)).await.expect("it was released");

        // A lock that is released in time is waited for.
        foreigner.tell("begin to write");
        foreigner.hear("done");
        let patient = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        let waiting = tokio::spawn(async move { append(&patient, ExpectedVersion::Any).await });
        foreigner.tell("end");
        foreigner.hear("done");
        assert!(matches!(waiting.await.unwrap(), Ok(CommitOutcome::Committed(_))));
    });
}

async fn append(store: &SqliteStore, expected: ExpectedVersion) -> Result<CommitOutcome> {
    store
        .commit(Commit::new().append(&stream(), expected, [NewEvent::of("done", &0).unwrap()]))
        .await
}

fn stream() -> StreamName {
    StreamName::new("deeds").unwrap()
}

/// Before any other process writes: SQLite does not wait for a schema change.
fn create_foreign_rows(connection: &Connection) {
    connection.execute_batch("CREATE TABLE foreign_rows (n INTEGER)").unwrap();
}

/// Plain SQL on the same file, one order after another.
pub(crate) fn foreigner(part: &Part) {
    let connection = Connection::open(part.argument(0)).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    let run = |sql: &str| connection.execute_batch(sql).unwrap();
    while let Some(order) = order() {
        match order.as_str() {
            "begin to read" => run("BEGIN; SELECT count(*) FROM tidelock_events"),
            "begin to write" => run("BEGIN IMMEDIATE; INSERT INTO foreign_rows VALUES (0)"),
            "end" => run("COMMIT"),
            "write without pause" => {
                say("done");
                write_without_pause(&connection);
                return;
            }
            order => panic!("there is no order {order:?}"),
        }
        say("done");
    }
}

fn write_without_pause(connection: &Connection) {
    let enough = std::thread::spawn(order);
    let mut written = 0;
    while !enough.is_finished() {
        match connection.execute("INSERT INTO foreign_rows VALUES (1)", []) {
            Ok(_) => written += 1,
            // It has no guaranteed turn; the test decides whether it had enough.
            Err(busy) => {
                assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{busy}");
            }
        }
    }
    say(format!("written {written}"));
}
