//! The user's own SQL in units of work, on the stores that have SQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidelock::prelude::*;
use tidelock::sqlite::{SqlStatement, Value};
use tidelock::{ErrorKind, Retry};
use tidelock_test_stage::{TestStore, for_real};
use tokio::task::JoinSet;

use crate::shop::{Stock, receive};

macro_rules! on {
    ($place:ident: $($case:ident),* $(,)?) => {
        mod $place {
            $(#[test] fn $case() { super::for_real(super::TestStore::$place(), super::$case); })*
        }
    };
}

on!(postgres:
    rows_in_postgres_land_with_the_unit_of_work,
    a_conflict_undoes_the_rows_in_postgres_and_runs_the_closure_again,
    a_kept_transaction_is_refused,
    the_database_below_a_handle_is_there,
    concurrent_transfers_in_postgres_lose_nothing,
);

on!(sqlite:
    rows_in_sqlite_land_with_the_unit_of_work,
    a_read_of_rows_that_have_changed_runs_the_closure_again,
    a_query_that_never_repeats_is_contended,
    a_statement_that_is_no_query_is_refused,
    concurrent_transfers_in_sqlite_lose_nothing,
);

/// A handle on the store as it is, with nothing before it.
async fn open(stage: &TestStore) -> Tidelock {
    Tidelock::open(&stage.url().unwrap()).await.unwrap()
}

/// A table that no other test has.
async fn own_table(tidelock: &Tidelock, stage: &TestStore) -> String {
    let url = stage.url().unwrap();
    let name = format!("{}_own", url.rsplit('=').next().unwrap());
    let sql = tidelock.postgres().unwrap().begin().await.unwrap();
    let create = format!("CREATE TABLE {name} (cents bigint); INSERT INTO {name} VALUES (100)");
    for statement in create.split("; ") {
        sql.execute(statement, &[]).await.unwrap();
    }
    let landed = sql.commit(tidelock::store::Commit::new().guard_record(
        &tidelock::store::RecordKey::new("never").unwrap(),
        tidelock::store::ExpectedRevision::Absent,
    ));
    landed.await.unwrap().committed().unwrap();
    name
}

async fn cents(tidelock: &Tidelock, table: &str) -> i64 {
    let sql = tidelock.postgres().unwrap().begin().await.unwrap();
    let rows = sql.query(&format!("SELECT sum(cents)::bigint FROM {table}"), &[]).await.unwrap();
    rows[0].get(0)
}

/// TX-13.
async fn rows_in_postgres_land_with_the_unit_of_work(stage: TestStore) {
    let tidelock = open(&stage).await;
    let (table, tea) = (own_table(&tidelock, &stage).await, tidelock.aggregate::<Stock>("tea"));
    tea.execute(receive(1)).await.unwrap();
    let buy = || {
        tidelock.transact(async |tx: Tx| -> tidelock::Result<i64> {
            let sql = tx.postgres().await?;
            let read = format!("SELECT cents FROM {table} FOR UPDATE");
            let rows = sql.query(&read, &[]).await?;
            let before: i64 = rows[0].get(0);
            let pay = format!("UPDATE {table} SET cents = cents - 10");
            tx.postgres().await?.execute(&pay, &[]).await?;
            tx.execute(&tea, |stock: &Stock| stock.reserve(1, "a")).await?;
            Ok(before)
        })
    };
    assert_eq!(buy().await.unwrap(), 100);
    assert_eq!((cents(&tidelock, &table).await, tea.load().await.unwrap().left), (90, 0));
    let refused = buy().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    assert_eq!(cents(&tidelock, &table).await, 90, "the rows are undone with it");
}

/// TX-13; TX-3.
async fn a_conflict_undoes_the_rows_in_postgres_and_runs_the_closure_again(stage: TestStore) {
    let tidelock = open(&stage).await;
    let (table, other) = (own_table(&tidelock, &stage).await, open(&stage).await);
    let calls = AtomicU32::new(0);
    tidelock
        .transact(async |tx: Tx| -> tidelock::Result<()> {
            let seen: Option<i64> = tx.get("counter").await?;
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                other.transact(async |tx: Tx| tx.put("counter", &7)).await?;
            }
            let pay = format!("UPDATE {table} SET cents = cents - 10");
            tx.postgres().await?.execute(&pay, &[]).await?;
            tx.put("counter", &(seen.unwrap_or_default() + 1))
        })
        .await
        .unwrap();
    assert_eq!((cents(&tidelock, &table).await, calls.into_inner()), (90, 2));
}

/// The commit ends the transaction, so it cannot be used after it.
async fn a_kept_transaction_is_refused(stage: TestStore) {
    let tidelock = open(&stage).await;
    let kept = std::sync::Mutex::new(None);
    let refused = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<()> {
            *kept.lock().unwrap() = Some(tx.postgres().await?);
            tx.put("a", &1)
        })
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("kept its transaction"), "{refused}");
}

async fn the_database_below_a_handle_is_there(stage: TestStore) {
    let tidelock = open(&stage).await;
    assert!(tidelock.postgres().is_some() && tidelock.sqlite().is_none());
    let memory = Tidelock::open("memory:").await.unwrap();
    assert!(memory.postgres().is_none() && memory.sqlite().is_none());
    let refused = memory
        .transact(async |tx: Tx| -> tidelock::Result<()> { tx.postgres().await.map(drop) })
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert!(memory.transact(async |tx: Tx| tx.sqlite([])).await.is_err());
}

/// TX-13: what leaves the table arrives in the counter.
async fn concurrent_transfers_in_postgres_lose_nothing(stage: TestStore) {
    let tidelock = open(&stage).await;
    let table = own_table(&tidelock, &stage).await;
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (tidelock, table) = (tidelock.clone(), table.clone());
        callers.spawn(async move {
            for _ in 0..5 {
                tidelock
                    .transact(async |tx: Tx| -> tidelock::Result<()> {
                        let pay = format!("UPDATE {table} SET cents = cents - 1");
                        tx.postgres().await?.execute(&pay, &[]).await?;
                        tx.add("paid", 1, ..)
                    })
                    .await
                    .unwrap();
            }
        });
    }
    callers.join_all().await;
    assert_eq!((cents(&tidelock, &table).await, paid(&tidelock).await), (80, 20));
}

async fn paid(tidelock: &Tidelock) -> i64 {
    let paid = tidelock.transact(async |tx: Tx| tx.get::<i64>("paid").await);
    paid.await.unwrap().unwrap_or_default()
}

/// A table beside the store's, in the same file.
async fn own_file(stage: &TestStore) -> Tidelock {
    let tidelock = open(stage).await;
    let path = stage.url().unwrap().trim_start_matches("sqlite:").to_owned();
    let plain = rusqlite::Connection::open(path).unwrap();
    plain.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    plain.execute_batch("CREATE TABLE own (cents INTEGER); INSERT INTO own VALUES (100)").unwrap();
    tidelock
}

fn sum() -> SqlStatement {
    SqlStatement::new("SELECT sum(cents) FROM own")
}

fn pay(units: i64) -> SqlStatement {
    SqlStatement::new("UPDATE own SET cents = cents - ?1").with(units)
}

async fn own_cents(tidelock: &Tidelock) -> i64 {
    match tidelock.sqlite().unwrap().query(sum()).await.unwrap().into_rows()[0][0] {
        Value::Integer(cents) => cents,
        ref other => panic!("{other:?}"),
    }
}

/// TX-13.
async fn rows_in_sqlite_land_with_the_unit_of_work(stage: TestStore) {
    let tidelock = own_file(&stage).await;
    let tea = tidelock.aggregate::<Stock>("tea");
    tea.execute(receive(1)).await.unwrap();
    let buy = || {
        tidelock.transact(async |tx: Tx| -> tidelock::Result<Value> {
            let before = tx.sqlite_rows(sum()).await?.remove(0).remove(0);
            tx.sqlite([pay(6)])?;
            tx.sqlite([pay(4)])?;
            tx.execute(&tea, |stock: &Stock| stock.reserve(1, "a")).await?;
            Ok(before)
        })
    };
    assert_eq!(buy().await.unwrap(), Value::Integer(100));
    assert_eq!((own_cents(&tidelock).await, tea.load().await.unwrap().left), (90, 0));
    assert_eq!(buy().await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(own_cents(&tidelock).await, 90, "nothing was staged for good");
}

/// TX-13.
async fn a_read_of_rows_that_have_changed_runs_the_closure_again(stage: TestStore) {
    let (tidelock, calls) = (own_file(&stage).await, AtomicU32::new(0));
    let other = open(&stage).await;
    let seen = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<Value> {
            let seen = tx.sqlite_rows(sum()).await?.remove(0).remove(0);
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                other
                    .transact(async |tx: Tx| {
                        tx.sqlite([pay(1)])?;
                        tx.put("other", &1)
                    })
                    .await?;
            }
            tx.sqlite([pay(1)])?;
            tx.put("mine", &1)?;
            Ok(seen)
        })
        .await
        .unwrap();
    assert_eq!((seen, calls.into_inner()), (Value::Integer(99), 2));
    assert_eq!(own_cents(&tidelock).await, 98);
}

async fn a_query_that_never_repeats_is_contended(stage: TestStore) {
    let tidelock = own_file(&stage).await.with_retry(Retry::attempts(3));
    let never = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.sqlite_rows(SqlStatement::new("SELECT random()")).await?;
        tx.put("a", &1)
    });
    let contended = never.await.unwrap_err();
    assert_eq!(contended.kind(), ErrorKind::Contended, "{contended}");
    assert!(contended.to_string().contains("SELECT random()"), "{contended}");
}

async fn a_statement_that_is_no_query_is_refused(stage: TestStore) {
    let tidelock = own_file(&stage).await;
    for sql in ["UPDATE own SET cents = 0", "BEGIN", "SELECT * FROM tidelock_records", "nonsense"] {
        let refused = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
            tx.sqlite_rows(SqlStatement::new(sql)).await.map(drop)
        });
        assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Invalid, "{sql}");
    }
    assert_eq!(own_cents(&tidelock).await, 100);
}

/// TX-13: read, decide, write, by several at once and over two handles.
async fn concurrent_transfers_in_sqlite_lose_nothing(stage: TestStore) {
    let first = own_file(&stage).await.with_retry(Retry::attempts(1_000));
    let second = open(&stage).await.with_retry(Retry::attempts(1_000));
    let (mut callers, handles) = (JoinSet::new(), [Arc::new(first), Arc::new(second)]);
    for nth in 0..4 {
        let tidelock = handles[nth % 2].clone();
        callers.spawn(async move {
            for _ in 0..5 {
                tidelock
                    .transact(async |tx: Tx| -> tidelock::Result<()> {
                        let Value::Integer(seen) = tx.sqlite_rows(sum()).await?[0][0] else {
                            panic!("there is a sum")
                        };
                        let set = SqlStatement::new("UPDATE own SET cents = ?1");
                        tx.sqlite([set.with(seen - 1)])?;
                        tx.add("paid", 1, ..)
                    })
                    .await
                    .unwrap();
            }
        });
    }
    callers.join_all().await;
    assert_eq!((own_cents(&handles[0]).await, paid(&handles[1]).await), (80, 20));
}
