//! A read model: your own table that follows the store's feed, and counts every event exactly once.
//!
//! The rows of a page and the cursor land in one transaction. Kill this at any time: it continues
//! where the table is. Two of them concurrently do no harm either, because the cursor is compared
//! before it is replaced; one of them loses, and its rows are rolled back.
//!
//! ```sh
//! cargo run -p tidelock --example read_model -- postgres://USER@HOST/DATABASE sell tea 2
//! cargo run -p tidelock --example read_model -- postgres://USER@HOST/DATABASE follow
//! ```
//!
//! It runs on PostgreSQL only: the table has to be in the store's database.

use std::error::Error;
use tidelock::store::{
    Commit, ExpectedRevision, FeedQuery, NewEvent, Position, RawJson, RecordKey, RecordWrite,
    RetryAdvice, Store, StoreExt, StreamName, Topic,
};

use serde::{Deserialize, Serialize};
use tidelock::postgres::PostgresStore;
use tidelock::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CREATE: &str =
    "CREATE TABLE IF NOT EXISTS totals (product text PRIMARY KEY, units bigint NOT NULL)";
const ADD: &str = "INSERT INTO totals (product, units) VALUES ($1, $2)
                   ON CONFLICT (product) DO UPDATE SET units = totals.units + excluded.units";

/// The payload of an event of type `sold`.
#[derive(Debug, Serialize, Deserialize)]
struct Sale {
    product: String,
    units: i64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [url, "sell", product, units] => sell(url, product, units.parse()?).await,
        [url, "follow"] => follow(url).await,
        _ => Err("say: URL sell PRODUCT UNITS, or: URL follow".into()),
    }
}

async fn sell(url: &str, product: &str, units: i64) -> Result<()> {
    let store = PostgresStore::open(url).await?;
    let sale = NewEvent::of("sold", &Sale { product: product.to_owned(), units })?;
    let stream = StreamName::new(format!("product-{product}"))?;
    store.append(&stream, ExpectedVersion::Any, vec![sale]).await?.committed()?;
    Ok(store.close().await?)
}

/// Keeps the table up to date until it is stopped.
pub(crate) async fn follow(url: &str) -> Result<()> {
    let store = PostgresStore::open(url).await?;
    begin(&store).await?;
    let mut signal = store.signal(Topic::Log); // subscribed before the first read
    loop {
        while take_page(&store).await? {}
        signal.wait().await;
    }
}

fn cursor() -> RecordKey {
    RecordKey::new("read-model/totals").expect("it is short and plain")
}

/// Creates the table together with the cursor.
async fn begin(store: &PostgresStore) -> Result<()> {
    if store.get_one(&cursor()).await?.live().is_none() {
        let own = store.begin().await?;
        own.execute(CREATE, &[]).await?;
        let start =
            RecordWrite::put(&cursor(), ExpectedRevision::Absent, RawJson::new(&Position::START)?);
        // A conflict is fine: another process has created them.
        let _ = own.commit(Commit::new().write(start)).await?;
    }
    Ok(())
}

/// Counts the next events, if any; returns whether to read again.
async fn take_page(store: &PostgresStore) -> Result<bool> {
    let read = store.get_one(&cursor()).await?.into_live().ok_or("the cursor was deleted")?;
    let after: Position = read.value.to()?;
    let page =
        store.read_feed(FeedQuery::after(after).stream_prefix("product-").limit(100)).await?;
    if page.next == after {
        return Ok(false);
    }
    let own = store.begin().await?;
    for event in &page.events {
        let sale: Sale = event.payload.to()?;
        own.execute(ADD, &[&sale.product, &sale.units]).await?;
    }
    let moved = RecordWrite::put(
        &cursor(),
        ExpectedRevision::Revision(read.revision),
        RawJson::new(&page.next)?,
    );
    match own.commit(Commit::new().write(moved)).await {
        // Whether it landed, conflicted, or has an unknown outcome: the cursor decides.
        Ok(_) => Ok(true),
        Err(error) if error.advice() != RetryAdvice::Never => Ok(true),
        Err(error) => Err(error.into()),
    }
}
