//! An invoice in a table of yours, written with sqlx, and what follows from it in Tidelock, in one
//! transaction.
//!
//! `cargo run -p tidelock-sqlx --example invoice -- postgres://user@host/shop`

use std::error::Error;
use std::future::Future;

use sqlx::PgPool;
use sqlx08 as sqlx; // in your program it is just `sqlx`
use tidelock::prelude::*;
use tidelock::{ErrorKind, Pending};

#[derive(Debug, Default, Clone)]
struct Account {
    open: i64,
}

#[derive(Debug, Clone, Event)]
enum AccountEvent {
    Charged { cents: i64 },
}

impl Aggregate for Account {
    const KIND: &'static str = "account";
    type Event = AccountEvent;

    fn apply(&mut self, event: &AccountEvent) {
        match event {
            AccountEvent::Charged { cents } => self.open += cents,
        }
    }
}

impl Account {
    fn charge(&self, cents: i64) -> Result<AccountEvent, String> {
        match self.open + cents {
            ..=1_000 => Ok(AccountEvent::Charged { cents }),
            open => Err(format!("{open} cents would be open")),
        }
    }
}

/// Your rows first, then the store's, then one COMMIT.
async fn charge(tidelock: &Tidelock, pool: &PgPool, cents: i64) -> Result<i64, Box<dyn Error>> {
    let account = tidelock.aggregate::<Account>("ada");
    let mut sql = pool.begin().await?;
    let id: i64 = sqlx::query_scalar("INSERT INTO invoices (cents) VALUES ($1) RETURNING id")
        .bind(cents)
        .fetch_one(&mut *sql)
        .await?;
    let staged =
        tidelock_sqlx::transact_in(tidelock, &mut sql, async |tx: Tx| -> tidelock::Result<()> {
            tx.execute(&account, move |account: &Account| account.charge(cents)).await?;
            tx.enqueue_item(tx.tidelock().queue("mail").enqueue(format!("invoice-{id}")))?;
            tx.start("collect", format!("invoice-{id}"), &cents).version(1).await?;
            Ok(())
        });
    // After an error nothing of the store is in the transaction. Dropped, it is rolled back.
    let ((), pending): ((), Pending) = staged.await?;
    sql.commit().await?;
    pending.announce();
    Ok(id)
}

/// Repeats the whole transaction while another one is faster: only you know your statements.
async fn until_it_lands<T, F: Future<Output = Result<T, Box<dyn Error>>>>(
    attempt: impl Fn() -> F,
) -> Result<T, Box<dyn Error>> {
    let is_race = |error: &(dyn Error + 'static)| match error.downcast_ref::<tidelock::Error>() {
        Some(error) => error.kind() == ErrorKind::Conflict || error.is_retryable(),
        None => false,
    };
    for _ in 0..10 {
        match attempt().await {
            Err(error) if is_race(&*error) => {}
            ended => return ended,
        }
    }
    attempt().await
}

pub(crate) async fn run(url: &str, database: &str) -> Result<(), Box<dyn Error>> {
    let tidelock = Tidelock::open(url).await?;
    let pool = PgPool::connect(database).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS invoices (id bigint GENERATED ALWAYS AS IDENTITY, cents bigint NOT NULL)",
    )
    .execute(&pool)
    .await?;

    let before: i64 = sqlx::query_scalar("SELECT count(*) FROM invoices").fetch_one(&pool).await?;
    let open = tidelock.aggregate::<Account>("ada").load().await?.state.open;
    let id = until_it_lands(|| charge(&tidelock, &pool, 900)).await?;
    let run = tidelock.runs().run(format!("invoice-{id}")).get().await?;
    assert_eq!(run.workflow.as_str(), "collect");

    // The decision refuses, so there is no second invoice either.
    let refused = charge(&tidelock, &pool, 900).await.expect_err("1800 cents would be open");
    println!("{refused}");
    let after: i64 = sqlx::query_scalar("SELECT count(*) FROM invoices").fetch_one(&pool).await?;
    assert_eq!(after, before + 1);
    assert_eq!(tidelock.aggregate::<Account>("ada").load().await?.state.open, open + 900);
    println!("invoice {id}, its event, its mail and its run are there");
    Ok(())
}

#[allow(dead_code)] // a test calls `run`
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: invoice postgres://USER@HOST/DATABASE")?;
    let (database, _) = url.split_once('?').unwrap_or((&url, ""));
    run(&url, database).await
}
