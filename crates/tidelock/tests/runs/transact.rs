//! Transactional steps: exactly once, under contention.

use serde_json::json;
use tidelock::prelude::*;
use tidelock::store::{
    Bounds, Commit, ExpectedRevision, NewEvent, RawJson, RecordKey, RecordWrite, Slot, StoreExt,
    StreamName,
};
use tidelock_test_stage::{Observed, Running, TestStore, for_real, on_every_store};

use crate::flow::Register;
use crate::helpers::{count, error, history, millis, process, result, start, with};

on_every_store!(
    staged_writes_land_atomically_with_the_step,
    a_decision_is_retried_after_a_conflict,
    a_part_that_does_not_hold_fails_the_attempt_and_writes_nothing,
    a_decision_that_panics_when_it_is_taken_again_fails_the_attempt,
);

#[derive(Debug, Default, Clone)]
struct Stock {
    left: i64,
}

#[derive(Debug, Event)]
enum StockEvent {
    Received { units: i64 },
    Sold { units: i64 },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Sold { units } => self.left -= units,
        }
    }
}

fn sell(stock: &Stock) -> Result<StockEvent, &'static str> {
    if stock.left > 0 { Ok(StockEvent::Sold { units: 1 }) } else { Err("sold out") }
}

/// RUN-17. Events, records and the step's record land atomically; events have the run's
/// correlation.
async fn staged_writes_land_atomically_with_the_step(stage: TestStore) {
    let write = with("write", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            ctx.transact("write", |tx: Tx| async move {
                tx.append_to(
                    "diary",
                    ExpectedVersion::NoStream,
                    [NewEvent::of("noted", &json!({ "text": "hi" }))?],
                )?;
                tx.put("mood", "good")?;
                Ok::<_, HandlerError>(tx.effect_key().to_owned())
            })
            .await
        })
    });
    let run = start(&stage, "write", "w", &()).await;
    let running = Running::start(process(&stage, "one").await.register(write));
    assert_eq!(result::<String>(&run).await, "w:write");
    let store = stage.store().await;
    let events = store.read_whole_stream(&StreamName::new("diary").unwrap()).await.unwrap();
    assert_eq!(events.len(), 1);
    assert!(Metadata::of(&events[0]).correlation.is_some());
    let mood = store.get_one(&RecordKey::new("mood").unwrap()).await.unwrap();
    assert_eq!(mood.into_live().unwrap().value.to::<String>().unwrap(), "good");
    running.stop().await;
}

/// RUN-17. Ten runs and a caller sell ten units: none twice, and none is left.
async fn a_decision_is_retried_after_a_conflict(stage: TestStore) {
    let sale = with("sale", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            let sold = ctx.transact("sell", |tx: Tx| async move {
                match tx.execute(&tx.tidelock().aggregate("sku"), sell).await {
                    Ok(()) => Ok(true),
                    Err(ExecuteError::Refused(_)) => Ok(false),
                    Err(error) => Err(HandlerError::again(error.to_string())),
                }
            });
            sold.await
        })
    });
    let tidelock = stage.tidelock().await;
    let stock = tidelock.aggregate::<Stock>("sku");
    stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 10 })).await.unwrap();
    let mut runs = Vec::new();
    for nth in 0..12 {
        runs.push(start(&stage, "sale", &format!("s-{nth}"), &()).await);
    }
    let one = Running::start(process(&stage, "one").await.register(sale.clone()));
    let two = Running::start(process(&stage, "two").await.register(sale));
    let mut sold = 0;
    for run in &runs {
        sold += u32::from(result::<bool>(run).await);
    }
    assert_eq!((sold, stock.load().await.unwrap().left), (10, 0));
    one.stop().await;
    two.stop().await;
}

/// RUN-17.
async fn a_part_that_does_not_hold_fails_the_attempt_and_writes_nothing(stage: TestStore) {
    let taken = with("taken", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            let step = ctx.transact("take", |tx: Tx| async move {
                let key = RecordKey::new("seat")?;
                tx.write(RecordWrite::put(&key, ExpectedRevision::Absent, RawJson::new("mine")?))?;
                tx.put(&RecordKey::new("also")?, "mine")?;
                Ok::<_, HandlerError>(())
            });
            step.retry(Retry::attempts(2).backoff(Backoff::fixed(millis(1)))).await
        })
    });
    let store = stage.store().await;
    let seat = RecordKey::new("seat").unwrap();
    store
        .put(&seat, ExpectedRevision::Absent, RawJson::new("theirs").unwrap())
        .await
        .unwrap()
        .committed()
        .unwrap();
    let run = start(&stage, "taken", "t", &()).await;
    let running = Running::start(process(&stage, "one").await.register(taken));
    let error = error(&run).await;
    assert!(error.contains("failed after 2 attempts") && error.contains("seat"), "{error}");
    assert_eq!(store.get_one(&RecordKey::new("also").unwrap()).await.unwrap(), Slot::Absent);
    assert_eq!(count(&stage, "t", "attempt-failed").await, 1);
    running.stop().await;
}

/// Schedule 115. RUN-6, RUN-17. After a conflict the decision panics on the new state: that fails
/// the attempt, too.
async fn a_decision_that_panics_when_it_is_taken_again_fails_the_attempt(stage: TestStore) {
    let (tidelock, calls) = (stage.tidelock().await, Observed::default());
    let sale =
        with("sale", &(tidelock.clone(), calls.clone()), |ctx, (): (), (tidelock, calls)| {
            Box::pin(async move {
                let sold = ctx.transact("sell", |tx: Tx| {
                    let (tidelock, calls) = (tidelock.clone(), calls.clone());
                    async move {
                        calls.note("staged");
                        let frail = |stock: &Stock| match stock.left {
                            1 => panic!("only one is left"),
                            _ => sell(stock),
                        };
                        tx.execute(&tx.tidelock().aggregate("sku"), frail)
                            .await
                            .map_err(|e| HandlerError::again(e.to_string()))?;
                        let stock = tidelock.aggregate::<Stock>("sku");
                        let _sold = stock.execute(sell).await;
                        Ok::<_, HandlerError>(())
                    }
                });
                let sold = sold.retry(Retry::attempts(2).backoff(Backoff::fixed(millis(1)))).await;
                Ok(sold.unwrap_err().to_string())
            })
        });
    let stock = tidelock.aggregate::<Stock>("sku");
    stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 2 })).await.unwrap();
    let run = start(&stage, "sale", "s", &()).await;
    let running = Running::start(process(&stage, "one").await.register(sale));
    let error = result::<String>(&run).await;
    assert_eq!(error, r#"step "sell" failed after 2 attempts: it panicked: only one is left"#);
    assert_eq!((calls.count(), count(&stage, "s", "attempt-failed").await), (2, 1));
    assert_eq!(stock.load().await.unwrap().left, 1, "nothing of the step's was written");
    running.stop().await;
}

/// RUN-17. Rows in the user's own table, in the same file. The first attempt writes its row and has
/// a refused commit; if that row stayed, the second could not write it.
#[test]
fn rows_land_with_the_step_on_sqlite() {
    for_real(TestStore::sqlite(), async |stage| {
        let path = stage.url().unwrap().trim_start_matches("sqlite:").to_owned();
        let options = tidelock::sqlite::SqliteOptions::default();
        let store = tidelock::sqlite::SqliteStore::open(&path, &options).unwrap();
        let plain = rusqlite::Connection::open(&path).unwrap();
        plain.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        plain.execute_batch("CREATE TABLE sold (run TEXT PRIMARY KEY)").unwrap();
        let rows = with("rows", &Observed::default(), |ctx, (): (), seen| {
            Box::pin(async move {
                let step = ctx.transact("sell", |tx: Tx| {
                    let seen = seen.clone();
                    async move {
                        seen.note(tx.effect_key().to_owned());
                        let insert =
                            tidelock::sqlite::SqlStatement::new("INSERT INTO sold VALUES (?1)");
                        tx.sqlite([insert.with(tx.effect_key().to_owned())])?;
                        if seen.count() == 1 {
                            tx.write(RecordWrite::delete(
                                &RecordKey::new("nothing")?,
                                ExpectedRevision::Exists,
                            ))?;
                        }
                        Ok::<_, HandlerError>(())
                    }
                });
                step.retry(Retry::attempts(2).backoff(Backoff::fixed(millis(1)))).await
            })
        });
        let app = Tidelock::over(std::sync::Arc::new(store.clone())).app().register(rows);
        let run = start(&stage, "rows", "r", &()).await;
        let running = Running::start(app);
        result::<()>(&run).await;
        let sold: String = plain.query_row("SELECT run FROM sold", [], |row| row.get(0)).unwrap();
        assert_eq!(sold, "r:sell");
        assert_eq!(history(&stage, "r").await, ["started", "attempt-failed", "step", "completed"]);
        running.stop().await;
    });
}

/// RUN-17. Rows in the user's own table, in the same database. The first attempt writes its row and
/// has a refused commit; if that row stayed, the second could not write it.
#[test]
fn rows_land_with_the_step_on_postgres() {
    for_real(TestStore::postgres(), async |stage| {
        let store = tidelock::postgres::PostgresStore::open(&stage.url().unwrap()).await.unwrap();
        own(&store, "CREATE TABLE IF NOT EXISTS sold_in_steps (step text PRIMARY KEY)").await;
        own(&store, "DELETE FROM sold_in_steps").await;
        let rows = with("rows", &Observed::default(), |ctx, (): (), seen| {
            Box::pin(async move {
                let step = ctx.transact("sell", |tx: Tx| {
                    let seen = seen.clone();
                    async move {
                        seen.note(tx.effect_key().to_owned());
                        let insert = "INSERT INTO sold_in_steps VALUES ($1)";
                        let own = tx.postgres().await?;
                        own.execute(insert, &[&tx.effect_key().to_owned()]).await?;
                        if seen.count() == 1 {
                            tx.write(RecordWrite::delete(
                                &RecordKey::new("nothing")?,
                                ExpectedRevision::Exists,
                            ))?;
                        }
                        Ok::<_, HandlerError>(())
                    }
                });
                step.retry(Retry::attempts(2).backoff(Backoff::fixed(millis(1)))).await
            })
        });
        let app = Tidelock::over(std::sync::Arc::new(store.clone())).app().register(rows);
        let run = start(&stage, "rows", "r", &()).await;
        let running = Running::start(app);
        result::<()>(&run).await;
        assert_eq!(own(&store, "SELECT step FROM sold_in_steps").await, ["r:sell"]);
        assert_eq!(history(&stage, "r").await, ["started", "attempt-failed", "step", "completed"]);
        running.stop().await;
    });
}

/// Runs a statement outside any step, and returns its texts.
async fn own(store: &tidelock::postgres::PostgresStore, sql: &str) -> Vec<String> {
    let own = store.begin().await.unwrap();
    let rows = own.query(sql, &[]).await.unwrap();
    let noted = RecordWrite::add(&RecordKey::new("statements").unwrap(), 1, Bounds::NONE);
    own.commit(Commit::new().write(noted)).await.unwrap().committed().unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}
