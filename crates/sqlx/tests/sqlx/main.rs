//! Commits of Tidelock in transactions of sqlx, on a real PostgreSQL.
//!
//! What a commit in a caller's transaction means is tested with the store, over another driver.
//! Here is what sqlx adds: its encoding, its transactions and connections; and what the patterns
//! add: decisions, scopes, claims, items, runs, and the caches of the process.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

#[path = "../../examples/invoice.rs"]
mod invoice;

use sqlx08::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx08::{self as sqlx, Connection, PgPool, Postgres, Transaction};
use tidelock::prelude::*;
use tidelock::store::{
    Bounds, Commit, CommitId, ExpectedRevision, NewEvent, RawJson, RecordKey, RecordWrite,
    StoreExt, StreamName,
};
use tidelock::{Error, ErrorKind};
use tidelock_test_stage::{TestStore, until};

/// Units of one product.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Stock {
    left: i64,
}

#[derive(Debug, Clone, Event)]
enum StockEvent {
    Received { units: i64 },
    Reserved { units: i64 },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Reserved { units } => self.left -= units,
        }
    }
}

impl Stock {
    fn reserve(&self, units: i64) -> Result<StockEvent, String> {
        match self.left {
            left if units > left => Err(format!("only {left} left")),
            _ => Ok(StockEvent::Reserved { units }),
        }
    }
}

/// A store, and a pool of sqlx to its database.
struct Shop {
    stage: TestStore,
    tidelock: Tidelock,
    pool: PgPool,
    table: String,
}

impl Shop {
    async fn new(stage: TestStore) -> Self {
        let url = stage.url().unwrap();
        let (database, options) = url.split_once('?').unwrap();
        let (_, schema) = options.split_once("schema=").unwrap();
        let connect: PgConnectOptions = database.parse().unwrap();
        let pool = PgPoolOptions::new().max_connections(4).connect_with(connect).await.unwrap();
        let table = format!("{schema}_sold");
        sqlx::raw_sql(&format!("CREATE TABLE {table} (what text)")).execute(&pool).await.unwrap();
        Self { tidelock: Tidelock::open(&url).await.unwrap(), stage, pool, table }
    }

    async fn begin(&self) -> Transaction<'static, Postgres> {
        let mut sql = self.pool.begin().await.unwrap();
        self.sell(&mut sql).await;
        sql
    }

    async fn sell(&self, sql: &mut Transaction<'_, Postgres>) {
        let insert = format!("INSERT INTO {} VALUES ($1)", self.table);
        sqlx::query(&insert).bind("tea").execute(&mut **sql).await.unwrap();
    }

    async fn sold(&self) -> i64 {
        let count = format!("SELECT count(*) FROM {}", self.table);
        sqlx::query_scalar(&count).fetch_one(&self.pool).await.unwrap()
    }

    async fn with_tea(stage: TestStore, units: i64) -> Self {
        let shop = Self::new(stage).await;
        shop.tea().append(StockEvent::Received { units }).await.unwrap();
        shop
    }

    fn tea(&self) -> tidelock::events::AggregateRef<Stock> {
        self.tidelock.aggregate("tea")
    }
}

macro_rules! on_postgres {
    ($($case:ident),* $(,)?) => {
        mod on_postgres {
            $(#[test] fn $case() {
                tidelock_test_stage::for_real(tidelock_test_stage::TestStore::postgres(), super::$case);
            })*
        }
    };
}

on_postgres!(
    every_pattern_lands_with_the_callers_commit,
    a_rollback_leaves_nothing_of_any_pattern,
    a_dropped_transaction_leaves_nothing,
    a_conflict_is_an_error_of_its_kind_and_leaves_the_transaction_as_it_was,
    a_stale_decision_is_taken_again_without_the_closure,
    a_decision_that_refuses_is_the_closures_error,
    a_lock_that_was_lost_fences_the_commit,
    a_cached_state_never_shows_what_is_not_committed,
    a_cached_state_does_not_miss_what_was_committed,
    a_connection_with_an_open_transaction_will_do,
    a_connection_without_a_transaction_is_refused,
    a_nested_transaction_is_a_savepoint,
    a_stricter_isolation_level_will_do,
    a_commit_with_an_id_is_made_once,
    large_and_empty_values_go_through_sqlx,
    a_call_that_is_dropped_cannot_be_committed,
    a_store_of_another_kind_is_refused,
    concurrent_callers_lose_no_update,
    a_reaction_handles_the_event_without_an_announcement,
    the_example_runs,
);

/// TX-11.
async fn every_pattern_lands_with_the_callers_commit(stage: TestStore) {
    let shop = Shop::with_tea(stage, 3).await;
    let (tidelock, tea) = (&shop.tidelock, shop.tea());
    let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
    basket.set(&vec!["tea".into()]).await.unwrap();
    let daily = tidelock.quota("orders", 2);
    let IdempotencyClaim::Won(won) = tidelock.idempotency("order-7").claim::<i64>().await.unwrap()
    else {
        panic!("it is free")
    };
    let mut sql = shop.begin().await;
    let (items, pending) =
        tidelock_sqlx::transact_in(tidelock, &mut sql, async |tx: Tx| -> tidelock::Result<usize> {
            let items = tx.mutate(&basket, std::mem::take).await?;
            tx.execute(&tea, |stock: &Stock| stock.reserve(2)).await?;
            tx.take(&daily, 1).await?.granted()?;
            tx.put("orders/7", &items)?;
            tx.enqueue_item(tx.tidelock().queue("mail").enqueue("order-7"))?;
            tx.start("delivery", "order-7", &()).version(1).await?;
            tx.complete(&won, &7)?;
            Ok(items.len())
        })
        .by("ada")
        .await
        .unwrap();
    assert_eq!((items, shop.sold().await), (1, 0));
    let other = shop.stage.tidelock().await;
    assert_eq!(other.aggregate::<Stock>("tea").load().await.unwrap().left, 3);
    sql.commit().await.unwrap();
    assert!(pending.committed().is_some());
    pending.announce();
    assert_eq!(shop.sold().await, 1);
    assert_eq!(tea.load().await.unwrap().left, 1);
    assert_eq!(basket.get().await.unwrap(), Vec::<String>::new());
    assert_eq!(daily.usage().await.unwrap().used, 1);
    let key = RecordKey::new("orders/7").unwrap();
    assert!(tidelock.store().get_one(&key).await.unwrap().live().is_some());
    assert!(tidelock.runs().run("order-7").get().await.is_ok());
    assert_eq!(tidelock.queue("mail").lease("w").await.unwrap().len(), 1);
    let again = tidelock.idempotency("order-7").claim::<i64>().await.unwrap();
    assert!(matches!(again, IdempotencyClaim::Done(7)), "{again:?}");
}

/// TX-11.
async fn a_rollback_leaves_nothing_of_any_pattern(stage: TestStore) {
    let shop = Shop::with_tea(stage, 3).await;
    let (tidelock, tea) = (&shop.tidelock, shop.tea());
    let mut sql = shop.begin().await;
    let ((), pending) =
        tidelock_sqlx::transact_in(tidelock, &mut sql, async |tx: Tx| -> tidelock::Result<()> {
            tx.execute(&tea, |stock: &Stock| stock.reserve(2)).await?;
            tx.enqueue_item(tx.tidelock().queue("mail").enqueue("order-7"))?;
            tx.start("delivery", "order-7", &()).version(1).await?;
            Ok(())
        })
        .await
        .unwrap();
    sql.rollback().await.unwrap();
    pending.announce();
    assert_eq!(shop.sold().await, 0);
    assert_eq!(tea.load().await.unwrap().left, 3);
    assert!(tidelock.runs().run("order-7").get().await.is_err());
    assert!(tidelock.queue("mail").lease("w").await.unwrap().is_empty());
    tea.execute(|stock: &Stock| stock.reserve(3)).await.unwrap();
}

async fn a_dropped_transaction_leaves_nothing(stage: TestStore) {
    let shop = Shop::with_tea(stage, 3).await;
    let tea = shop.tea();
    let mut sql = shop.begin().await;
    let staged = tidelock_sqlx::transact_in(&shop.tidelock, &mut sql, async |tx: Tx| {
        tx.execute(&tea, |stock: &Stock| stock.reserve(2)).await.map_err(Error::from)
    });
    let ((), _) = staged.await.unwrap();
    drop(sql);
    tea.execute(|stock: &Stock| stock.reserve(3)).await.unwrap();
    assert_eq!((shop.sold().await, tea.load().await.unwrap().left), (0, 0));
}

/// COMMIT-9.
async fn a_conflict_is_an_error_of_its_kind_and_leaves_the_transaction_as_it_was(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let mut sql = shop.begin().await;
    let other = shop.stage.tidelock().await;
    let refused = tidelock_sqlx::transact_in(
        &shop.tidelock,
        &mut sql,
        async |tx: Tx| -> tidelock::Result<()> {
            let seen: Option<i64> = tx.get("counter").await?;
            let key = RecordKey::new("counter")?;
            let write = RecordWrite::put(&key, ExpectedRevision::Any, RawJson::new(&1)?);
            other.store().commit(Commit::new().write(write)).await?.committed()?;
            tx.put("seen", &seen)
        },
    )
    .await
    .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let again = tidelock_sqlx::transact_in(
        &shop.tidelock,
        &mut sql,
        async |tx: Tx| -> tidelock::Result<()> {
            let seen: Option<i64> = tx.get("counter").await?;
            tx.put("seen", &seen)
        },
    );
    again.await.unwrap().1.announce();
    sql.commit().await.unwrap();
    assert_eq!(shop.sold().await, 1);
}

/// TX-3, in a transaction of the caller.
async fn a_stale_decision_is_taken_again_without_the_closure(stage: TestStore) {
    let shop = Shop::with_tea(stage, 3).await;
    let (tea, other) = (shop.tea(), shop.stage.tidelock().await);
    let mut sql = shop.begin().await;
    let calls = std::sync::atomic::AtomicU32::new(0);
    let staged = tidelock_sqlx::transact_in(
        &shop.tidelock,
        &mut sql,
        async |tx: Tx| -> tidelock::Result<()> {
            calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tx.execute(&tea, |stock: &Stock| stock.reserve(1)).await?;
            other.aggregate::<Stock>("tea").append(StockEvent::Reserved { units: 1 }).await?;
            Ok(())
        },
    );
    staged.await.unwrap().1.announce();
    sql.commit().await.unwrap();
    assert_eq!((tea.load().await.unwrap().left, calls.into_inner()), (1, 1));
}

async fn a_decision_that_refuses_is_the_closures_error(stage: TestStore) {
    let shop = Shop::with_tea(stage, 3).await;
    let tea = shop.tea();
    let mut sql = shop.begin().await;
    let refused = tidelock_sqlx::transact_in(
        &shop.tidelock,
        &mut sql,
        async |tx: Tx| -> tidelock::Result<()> {
            tx.put("never", &1)?;
            Ok(tx.execute(&tea, |stock: &Stock| stock.reserve(4)).await?)
        },
    )
    .await
    .unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().as_str()), (ErrorKind::Refused, "only 3 left"));
    sql.commit().await.unwrap();
    assert_eq!(shop.sold().await, 1, "the transaction is the caller's");
}

/// TX-6, in a transaction of the caller.
async fn a_lock_that_was_lost_fences_the_commit(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let lock = shop.tidelock.lock("till");
    let Outcome::Granted(guard) = lock.acquire().await.unwrap() else { panic!("it is free") };
    let held = lock.attach(guard.fence());
    drop(guard.detach());
    let stage_one = async |tx: Tx| -> tidelock::Result<()> {
        tx.fence(&held)?;
        tx.put("total", &1)
    };
    let mut sql = shop.begin().await;
    tidelock_sqlx::transact_in(&shop.tidelock, &mut sql, stage_one).await.unwrap().1.announce();
    sql.commit().await.unwrap();
    held.release().await.unwrap();
    let mut sql = shop.begin().await;
    let lost = tidelock_sqlx::transact_in(&shop.tidelock, &mut sql, stage_one).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::LeaseLost, "{lost}");
}

/// TX-12. While a caller's transaction is open, and after it was rolled back, the process that
/// wrote in it sees the committed state.
async fn a_cached_state_never_shows_what_is_not_committed(stage: TestStore) {
    let shop = Shop::with_tea(stage, 3).await;
    let (tidelock, tea) = (&shop.tidelock, shop.tea());
    let basket = tidelock.scope::<i64>(ScopeKind::SESSION, "alice");
    basket.set(&1).await.unwrap();
    tea.execute(|stock: &Stock| stock.reserve(1)).await.unwrap();
    for _ in 0..3 {
        let mut sql = shop.begin().await;
        let staged = tidelock_sqlx::transact_in(
            tidelock,
            &mut sql,
            async |tx: Tx| -> tidelock::Result<()> {
                tx.mutate(&basket, |count| *count += 10).await?;
                tx.execute(&tea, |stock: &Stock| stock.reserve(2)).await?;
                Ok(())
            },
        );
        let ((), pending) = staged.await.unwrap();
        assert_eq!((tea.load().await.unwrap().left, basket.get().await.unwrap()), (2, 1));
        sql.rollback().await.unwrap();
        pending.announce();
        assert_eq!((tea.load().await.unwrap().left, basket.get().await.unwrap()), (2, 1));
        let none = tea.execute(|stock: &Stock| stock.reserve(3)).await.unwrap_err();
        assert!(none.to_string().contains("only 2 left"), "{none}");
    }
    tea.execute(|stock: &Stock| stock.reserve(2)).await.expect("both are there");
    assert_eq!(basket.mutate(|count| *count + 1).await.unwrap().value, 2);
}

/// TX-12. Without an announcement too.
async fn a_cached_state_does_not_miss_what_was_committed(stage: TestStore) {
    let shop = Shop::with_tea(stage, 100).await;
    let (tidelock, tea) = (&shop.tidelock, shop.tea());
    let basket = tidelock.scope::<i64>(ScopeKind::SESSION, "alice");
    basket.set(&0).await.unwrap();
    for round in 1..=5 {
        let mut sql = shop.begin().await;
        let staged = tidelock_sqlx::transact_in(
            tidelock,
            &mut sql,
            async |tx: Tx| -> tidelock::Result<()> {
                tx.mutate(&basket, |count| *count += 1).await?;
                tx.execute(&tea, |stock: &Stock| stock.reserve(1)).await?;
                Ok(())
            },
        );
        drop(staged.await.unwrap());
        sql.commit().await.unwrap();
        assert_eq!(tea.load().await.unwrap().left, 100 - 2 * round + 1);
        assert_eq!(basket.get().await.unwrap(), round);
        // The cached state is from before; the decision is made on the one after.
        tea.execute(|stock: &Stock| match stock.left == 100 - 2 * round + 1 {
            true => stock.reserve(1),
            false => Err(format!("round {round}: it is decided on {stock:?}")),
        })
        .await
        .unwrap();
    }
}

fn sale() -> Commit {
    let event = NewEvent::of("sold", &1).unwrap();
    Commit::new().append(&StreamName::new("sales").unwrap(), ExpectedVersion::Any, [event])
}

async fn sales(tidelock: &Tidelock) -> usize {
    tidelock.feed().streams("sales").limit(100).await.unwrap().items.len()
}

async fn a_connection_with_an_open_transaction_will_do(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let mut connection = shop.pool.acquire().await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
    tidelock_sqlx::commit_in(&shop.tidelock, &mut *connection, &sale()).await.unwrap().announce();
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await.unwrap();
    assert_eq!(sales(&shop.tidelock).await, 1);
}

async fn a_connection_without_a_transaction_is_refused(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let mut connection = shop.pool.acquire().await.unwrap();
    let refused = tidelock_sqlx::commit_in(&shop.tidelock, &mut *connection, &sale()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("no transaction is open"), "{refused}");
    assert_eq!(sales(&shop.tidelock).await, 0);
}

/// COMMIT-8.
async fn a_nested_transaction_is_a_savepoint(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let mut sql = shop.begin().await;
    let mut inner = sql.begin().await.unwrap();
    tidelock_sqlx::commit_in(&shop.tidelock, &mut inner, &sale()).await.unwrap().announce();
    inner.rollback().await.unwrap();
    let mut inner = sql.begin().await.unwrap();
    tidelock_sqlx::commit_in(&shop.tidelock, &mut inner, &sale()).await.unwrap().announce();
    inner.commit().await.unwrap();
    sql.commit().await.unwrap();
    assert_eq!((shop.sold().await, sales(&shop.tidelock).await), (1, 1));
}

async fn a_stricter_isolation_level_will_do(stage: TestStore) {
    let shop = Shop::with_tea(stage, 9).await;
    let tea = shop.tea();
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut sql = shop.pool.begin().await.unwrap();
        let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        sqlx::query(&set).execute(&mut *sql).await.unwrap();
        shop.sell(&mut sql).await;
        let staged = tidelock_sqlx::transact_in(&shop.tidelock, &mut sql, async |tx: Tx| {
            tx.execute(&tea, |stock: &Stock| stock.reserve(1)).await.map_err(Error::from)
        });
        staged.await.unwrap().1.announce();
        sql.commit().await.unwrap();

        // After the snapshot another writer is faster, and nothing is decided on what is gone.
        let mut sql = shop.pool.begin().await.unwrap();
        sqlx::query(&set).execute(&mut *sql).await.unwrap();
        shop.sell(&mut sql).await;
        tea.append(StockEvent::Reserved { units: 1 }).await.unwrap();
        let staged = tidelock_sqlx::transact_in(&shop.tidelock, &mut sql, async |tx: Tx| {
            tx.execute(&tea, |stock: &Stock| stock.reserve(1)).await.map_err(Error::from)
        });
        let refused = staged.await.unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        sql.rollback().await.unwrap();
    }
    assert_eq!((shop.sold().await, tea.load().await.unwrap().left), (2, 5));
}

/// COMMIT-4.
async fn a_commit_with_an_id_is_made_once(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let once = sale().with_id(CommitId::fresh());
    for attempt in 0..3 {
        let mut sql = shop.begin().await;
        let made = tidelock_sqlx::commit_in(&shop.tidelock, &mut sql, &once).await.unwrap();
        assert_eq!(made.made_before(), attempt > 0);
        match made.made_before() {
            true => sql.rollback().await.unwrap(),
            false => sql.commit().await.unwrap(),
        }
    }
    assert_eq!((shop.sold().await, sales(&shop.tidelock).await), (1, 1));
}

/// What is encoded by one driver and sent by another: NULL, empty text, long text, other alphabets.
async fn large_and_empty_values_go_through_sqlx(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let long = "ä\u{1F980}\"\\'".repeat(10_000);
    for (nth, text) in ["", "null", &long].into_iter().enumerate() {
        let key = RecordKey::new(format!("r/{nth}")).unwrap();
        let value = RawJson::new(text).unwrap();
        let event = NewEvent::of("sold", text).unwrap();
        let write = RecordWrite::put(&key, ExpectedRevision::Absent, value.clone());
        let stream = StreamName::new(format!("sales-{nth}")).unwrap();
        let both = Commit::new().write(write).append(&stream, ExpectedVersion::NoStream, [event]);
        let both =
            both.write(RecordWrite::add(&RecordKey::new("n").unwrap(), 1, Bounds::from_range(..)));
        let mut sql = shop.begin().await;
        tidelock_sqlx::commit_in(&shop.tidelock, &mut sql, &both).await.unwrap().announce();
        // And read again by the next commit of the same transaction.
        let rest = Commit::new().guard_record(&key, ExpectedRevision::Exists);
        let held = tidelock_sqlx::commit_in(&shop.tidelock, &mut sql, &rest).await.unwrap();
        assert!(held.outcome().clone().committed().is_ok());
        sql.commit().await.unwrap();
        let stored = shop.tidelock.store().get_one(&key).await.unwrap();
        assert_eq!(stored.live().unwrap().value, value);
    }
}

/// COMMIT-10. Another transaction has the row, so the call waits when it is dropped.
async fn a_call_that_is_dropped_cannot_be_committed(stage: TestStore) {
    let shop = Shop::with_tea(stage, 3).await;
    let tea = shop.tea();
    let reserve = async |tx: Tx| -> tidelock::Result<()> {
        Ok(tx.execute(&tea, |stock: &Stock| stock.reserve(1)).await?)
    };
    let mut first = shop.begin().await;
    tidelock_sqlx::transact_in(&shop.tidelock, &mut first, reserve).await.unwrap().1.announce();
    let mut second = shop.begin().await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                 AND query LIKE '%streams%' AND application_name = ''";
    tokio::select! {
        made = tidelock_sqlx::transact_in(&shop.tidelock, &mut second, reserve) => panic!("{made:?}"),
        () = until("it waits for the row", async || {
            sqlx::query_scalar::<_, i64>(waits).fetch_one(&shop.pool).await.unwrap() > 0
        }) => {}
    }
    first.rollback().await.unwrap();
    let refused = second.commit().await.unwrap_err();
    assert!(refused.to_string().contains("cut off"), "{refused}");
    assert_eq!((shop.sold().await, tea.load().await.unwrap().left), (0, 3));
}

async fn a_store_of_another_kind_is_refused(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let memory = Tidelock::open("memory:").await.unwrap();
    let mut sql = shop.begin().await;
    let refused = tidelock_sqlx::transact_in(&memory, &mut sql, async |tx: Tx| tx.put("a", &1));
    let refused = refused.await.unwrap_err();
    assert!(refused.to_string().contains("not in PostgreSQL"), "{refused}");
    let nothing = async |_: Tx| -> tidelock::Result<()> { Ok(()) };
    let ((), nothing) =
        tidelock_sqlx::transact_in(&shop.tidelock, &mut sql, nothing).await.unwrap();
    assert!(nothing.committed().is_none());
}

/// TX-4, in transactions of the callers.
async fn concurrent_callers_lose_no_update(stage: TestStore) {
    const CALLERS: i64 = 4;
    const EACH: i64 = 5;
    let shop = std::sync::Arc::new(Shop::with_tea(stage, CALLERS * EACH).await);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let shop = shop.clone();
        callers.spawn(async move {
            let tea = shop.tea();
            let mut left = EACH;
            while left > 0 {
                let mut sql = shop.begin().await;
                let staged =
                    tidelock_sqlx::transact_in(&shop.tidelock, &mut sql, async |tx: Tx| {
                        tx.execute(&tea, |stock: &Stock| stock.reserve(1))
                            .await
                            .map_err(Error::from)
                    });
                match staged.await {
                    Ok(((), pending)) => {
                        sql.commit().await.unwrap();
                        pending.announce();
                        left -= 1;
                    }
                    Err(error) => assert!(
                        error.is_retryable() || error.kind() == ErrorKind::Conflict,
                        "{error}"
                    ),
                }
            }
        });
    }
    callers.join_all().await;
    assert_eq!((shop.sold().await, shop.tea().load().await.unwrap().left), (CALLERS * EACH, 0));
}

/// A missed announcement delays, and loses nothing.
async fn a_reaction_handles_the_event_without_an_announcement(stage: TestStore) {
    let shop = Shop::new(stage).await;
    let app = shop.tidelock.app().worker(tidelock_test_stage::brisk("w")).reaction(
        "count",
        on_any(),
        |_event: tidelock::store::StoredEvent, ctx: ReactionCtx| async move {
            Ok(ctx.add("count", 1, ..)?)
        },
    );
    let running = tidelock_test_stage::Running::start(app);
    let mut sql = shop.begin().await;
    drop(tidelock_sqlx::commit_in(&shop.tidelock, &mut sql, &sale()).await.unwrap());
    sql.commit().await.unwrap();
    let key = RecordKey::new("count").unwrap();
    until("it is handled", async || {
        shop.tidelock.store().get_one(&key).await.unwrap().live().is_some()
    })
    .await;
    running.stop().await;
}

async fn the_example_runs(stage: TestStore) {
    let url = stage.url().unwrap();
    let (database, _) = url.split_once('?').unwrap();
    invoice::run(&url, database).await.expect("the example runs to its end");
}
