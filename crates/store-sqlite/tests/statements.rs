//! User SQL in a commit's transaction: both are committed, or neither is.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tidelock_store::{
    Commit, CommitId, ExpectedVersion, ItemRef, LeaseRequest, NewEvent, Store, StoreErrorKind,
    StreamName, Wake, When, WorkerName,
};
use tidelock_store_sqlite::{SqlStatement, SqliteOptions, SqliteStore, Value};

struct Shop {
    folder: TempDir,
    store: SqliteStore,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::open(folder.path().join("shop.db"), &SqliteOptions::default()).unwrap();
        let shop = Self { folder, store };
        shop.plain()
            .execute_batch(
                "CREATE TABLE sold (product TEXT PRIMARY KEY, units INTEGER CHECK (units < 10))",
            )
            .unwrap();
        shop
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    /// A connection that knows nothing of the store.
    fn plain(&self) -> Connection {
        let plain = Connection::open(self.file()).unwrap();
        plain.busy_timeout(Duration::from_secs(10)).unwrap();
        plain
    }

    fn units(&self) -> i64 {
        self.plain()
            .query_row("SELECT coalesce(sum(units), 0) FROM sold", [], |row| row.get(0))
            .unwrap()
    }

    async fn events(&self) -> usize {
        use tidelock_store::StoreExt;
        self.store.read_whole_stream(&stream()).await.unwrap().len()
    }
}

fn stream() -> StreamName {
    StreamName::new("sales").unwrap()
}

fn sale(expected: ExpectedVersion) -> Commit {
    Commit::new().append(&stream(), expected, [NewEvent::of("sold", &1).unwrap()])
}

fn sell(units: i64) -> SqlStatement {
    let sql =
        "INSERT INTO sold VALUES (?1, ?2) ON CONFLICT (product) DO UPDATE SET units = units + ?2";
    SqlStatement::new(sql).with("tea").with(units)
}

#[tokio::test]
async fn rows_and_commit_land_together() {
    let shop = Shop::open();
    let outcome = shop
        .store
        .commit_with(sale(ExpectedVersion::NoStream), vec![sell(1), sell(2)])
        .await
        .unwrap();
    outcome.committed().unwrap();
    assert_eq!((shop.units(), shop.events().await), (3, 1));
}

#[tokio::test]
async fn a_commit_that_is_refused_leaves_no_row() {
    let shop = Shop::open();
    let outcome =
        shop.store.commit_with(sale(ExpectedVersion::Exists), vec![sell(1)]).await.unwrap();
    assert!(outcome.conflict().is_some());
    assert_eq!((shop.units(), shop.events().await), (0, 0));
}

#[tokio::test]
async fn a_refused_statement_leaves_nothing_and_affects_no_other_commit() {
    let shop = Shop::open();
    let too_much = shop.store.commit_with(sale(ExpectedVersion::Any), vec![sell(1), sell(100)]);
    let (refused, beside) = tokio::join!(too_much, shop.store.commit(sale(ExpectedVersion::Any)));
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{refused}");
    assert!(refused.to_string().contains("CHECK constraint"), "{refused}");
    beside.unwrap().committed().unwrap();
    assert_eq!((shop.units(), shop.events().await), (0, 1));
}

#[tokio::test]
async fn what_was_made_before_runs_no_statement_again() {
    let shop = Shop::open();
    let commit = sale(ExpectedVersion::NoStream).with_id(CommitId::fresh());
    let same_events = Commit { id: None, ..commit.clone() };
    for again in [&commit, &commit, &same_events] {
        shop.store.commit_with(again.clone(), vec![sell(1)]).await.unwrap().committed().unwrap();
    }
    assert_eq!((shop.units(), shop.events().await), (1, 1));

    let item = ItemRef::parse("mail", "a").unwrap();
    shop.store
        .commit(Commit::new().wake(Wake::at(item.clone(), When::NOW)))
        .await
        .unwrap()
        .committed()
        .unwrap();
    let worker = WorkerName::new("worker").unwrap();
    let request = LeaseRequest::new(&item.queue, &worker, Duration::from_secs(60), 1);
    let lease = shop.store.lease(request).await.unwrap().leases.remove(0);
    for _ in 0..2 {
        let ack = Commit::new().settle(lease.ack());
        shop.store.commit_with(ack, vec![sell(1)]).await.unwrap().committed().unwrap();
    }
    assert_eq!(shop.units(), 2, "the second ack was the first one's echo");
}

#[tokio::test]
async fn what_would_break_the_store_is_refused_by_name() {
    let shop = Shop::open();
    let hostile = [
        ("DELETE FROM tidelock_events", "are the store's"),
        ("COMMIT", "changes no row"),
        ("ROLLBACK", "changes no row"),
        ("SELECT 1", "changes no row"),
        ("INSERT INTO nowhere VALUES (1)", "no such table"),
        ("", "statement"),
    ];
    for (sql, why) in hostile {
        let refused =
            shop.store.commit_with(sale(ExpectedVersion::Any), vec![SqlStatement::new(sql)]).await;
        let refused = refused.expect_err(sql);
        assert!(
            refused.kind() == StoreErrorKind::Invalid && refused.to_string().contains(why),
            "{sql}: {refused}"
        );
    }
    let secret = SqlStatement::new("INSERT INTO sold VALUES (?1, ?2, ?3)")
        .with("hush")
        .with(Value::Null)
        .with(1.5);
    let refused =
        shop.store.commit_with(sale(ExpectedVersion::Any), vec![secret]).await.unwrap_err();
    assert!(!refused.to_string().contains("hush"), "{refused}");
    assert_eq!((shop.units(), shop.events().await), (0, 0));
}
