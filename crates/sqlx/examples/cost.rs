//! What a commit in your own transaction costs: commits a second beside Tidelock's own, in turns in
//! one run.
//!
//! `cargo run --release -p tidelock-sqlx --example cost -- postgres://user@host/database`

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::PgPoolOptions;
use sqlx08 as sqlx; // in your program it is just `sqlx`
use tidelock::postgres::tokio_postgres;
use tidelock::prelude::*;
use tidelock::store::{Commit, NewEvent, StreamName};
use tokio::task::JoinSet;

const ROUNDS: usize = 6;
const SLICE: Duration = Duration::from_millis(700);
const CALLERS: [usize; 2] = [1, 16];

#[derive(Debug, Clone, Copy)]
enum Way {
    /// `store.commit`, and no row.
    Commit,
    /// A row and a commit in a transaction of the store.
    Transact,
    /// A row in a transaction of sqlx, and nothing of Tidelock.
    Row,
    /// A row and a commit in a transaction of sqlx.
    Sqlx,
    /// A row and a commit in a transaction of tokio-postgres.
    TokioPostgres,
}

const WAYS: [(Way, &str); 5] = [
    (Way::Commit, "an event"),
    (Way::Row, "a row of yours with sqlx"),
    (Way::Transact, "a row and an event, with tx.postgres()"),
    (Way::Sqlx, "a row and an event, in a transaction of sqlx"),
    (Way::TokioPostgres, "a row and an event, in one of tokio-postgres"),
];

struct Place {
    tidelock: Tidelock,
    pool: sqlx::PgPool,
    database: String,
}

fn event(caller: usize) -> Result<Commit, Box<dyn Error + Send + Sync>> {
    let stream = StreamName::new(format!("cost-{caller}"))?;
    Ok(Commit::new().append(&stream, ExpectedVersion::Any, [NewEvent::of("sold", &1)?]))
}

const INSERT: &str = "INSERT INTO cost (cents) VALUES (1)";

/// Commits until the time is over; returns how often.
async fn call(
    place: Arc<Place>,
    way: Way,
    caller: usize,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let (mut client, connection) =
        tokio_postgres::connect(&place.database, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let (mut count, begun) = (0, Instant::now());
    while begun.elapsed() < SLICE {
        match way {
            Way::Commit => {
                place.tidelock.store().commit(event(caller)?).await?.committed()?;
            }
            Way::Transact => {
                place
                    .tidelock
                    .transact(async |tx: Tx| -> tidelock::Result<()> {
                        let sql = tx.postgres().await?;
                        sql.execute(INSERT, &[]).await?;
                        let commit = event(caller).map_err(HandlerError::fatal)?;
                        tx.parts(commit)
                    })
                    .await?;
            }
            Way::Row => {
                let mut sql = place.pool.begin().await?;
                sqlx::query(INSERT).execute(&mut *sql).await?;
                sql.commit().await?;
            }
            Way::Sqlx => {
                let mut sql = place.pool.begin().await?;
                sqlx::query(INSERT).execute(&mut *sql).await?;
                let pending =
                    tidelock_sqlx::commit_in(&place.tidelock, &mut sql, &event(caller)?).await?;
                sql.commit().await?;
                pending.announce();
            }
            Way::TokioPostgres => {
                let mut sql = client.transaction().await?;
                sql.execute(INSERT, &[]).await?;
                let pending = place.tidelock.commit_in(&mut sql, &event(caller)?).await?;
                sql.commit().await?;
                pending.announce();
            }
        }
        count += 1;
    }
    Ok(count)
}

async fn slice(
    place: &Arc<Place>,
    way: Way,
    callers: usize,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let mut calls = JoinSet::new();
    (0..callers).for_each(|caller| {
        calls.spawn(call(place.clone(), way, caller));
    });
    calls.join_all().await.into_iter().sum()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let database = std::env::args().nth(1).ok_or("usage: cost postgres://USER@HOST/DATABASE")?;
    let pool = PgPoolOptions::new().max_connections(16).connect(&database).await?;
    let tidelock = Tidelock::open(&format!("{database}?transactions=16&schema=cost")).await?;
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS cost (cents bigint)").execute(&pool).await?;
    let place = Arc::new(Place { tidelock, pool, database });
    println!("commits a second");
    for callers in CALLERS {
        for (way, _) in WAYS {
            slice(&place, way, callers).await?; // connections and plans
        }
        let mut counts = [0; WAYS.len()];
        for _ in 0..ROUNDS {
            for (count, (way, _)) in counts.iter_mut().zip(WAYS) {
                *count += slice(&place, way, callers).await?;
            }
        }
        for (count, (_, name)) in counts.into_iter().zip(WAYS) {
            let speed = count as f64 / (SLICE.as_secs_f64() * ROUNDS as f64);
            let ratio = count as f64 / counts[0] as f64;
            println!("{callers:>3} callers  {name:<46} {speed:>8.0}  {ratio:.2}");
        }
    }
    Ok(())
}
