//! Records: new ones, an existing one, and a counter.

use std::hint::black_box;

use tokio_postgres::{Client, Statement};

use super::driver;
use crate::failure::Failure;
use crate::fixture::StoreFixture;
use crate::measure::{Baseline, Caller};
use crate::rows;

/// The same as in the store.
const FILLFACTOR: u8 = 80;

const SET: &str =
    "INSERT INTO records (key, revision, value) VALUES ($1, 1, $2) ON CONFLICT (key) DO NOTHING";

const ADD: &str = "UPDATE records SET revision = revision + 1, value = value::bigint + $2
    WHERE key = $1 AND value::bigint + $2 <= $3 RETURNING revision, value";

/// A new record with every statement of every client.
pub(in crate::baseline) async fn sets(
    schemas: &StoreFixture,
    clients: usize,
) -> Result<Vec<Baseline>, Failure> {
    setters(schemas, clients, rows::record_key, 1).await
}

/// A refused write with every statement of every client, which does not return the existing record.
pub(in crate::baseline) async fn refused_sets(
    schemas: &StoreFixture,
    clients: usize,
) -> Result<Vec<Baseline>, Failure> {
    setters(schemas, clients, |_, _| rows::HOT_KEY.to_owned(), 0).await
}

async fn setters(
    schemas: &StoreFixture,
    clients: usize,
    key: Key,
    written: u64,
) -> Result<Vec<Baseline>, Failure> {
    schemas.copy("records", FILLFACTOR).await?;
    let mut setters = Vec::with_capacity(clients);
    for number in 0..clients {
        let client = schemas.client().await?;
        let set = client.prepare(SET).await?;
        setters.push(Setter { client, set, key, written, number, next: 0, value: rows::payload() });
    }
    Ok(vec![driver(setters)])
}

/// An addition with every statement of every client, which returns the sum.
pub(in crate::baseline) async fn adds(
    schemas: &StoreFixture,
    clients: usize,
) -> Result<Vec<Baseline>, Failure> {
    schemas.copy("records", FILLFACTOR).await?;
    let mut adders = Vec::with_capacity(clients);
    for _ in 0..clients {
        let client = schemas.client().await?;
        let add = client.prepare(ADD).await?;
        adders.push(Adder { client, add });
    }
    Ok(vec![driver(adders)])
}

/// The next key of a client.
type Key = fn(usize, u64) -> String;

struct Setter {
    client: Client,
    set: Statement,
    key: Key,
    /// Rows that a statement must write.
    written: u64,
    number: usize,
    next: u64,
    value: String,
}

impl Caller for Setter {
    async fn call(&mut self) -> Result<u64, Failure> {
        let key = (self.key)(self.number, self.next);
        self.next += 1;
        let written = self.client.execute(&self.set, &[&key, &self.value]).await?;
        if written != self.written {
            return Err(Failure::Answer(format!("baseline: setting {key:?} wrote {written} rows")));
        }
        Ok(1)
    }
}

struct Adder {
    client: Client,
    add: Statement,
}

impl Caller for Adder {
    async fn call(&mut self) -> Result<u64, Failure> {
        let row = self.client.query_one(&self.add, &[&rows::HOT_KEY, &1_i64, &rows::BOUND]).await?;
        black_box((row.get::<_, i64>(0), row.get::<_, String>(1)));
        Ok(1)
    }
}
