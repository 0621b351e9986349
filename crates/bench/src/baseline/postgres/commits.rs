//! Events at the end of streams: one INSERT, with UNIQUE(stream, version) as the only concurrency
//! control.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::{driver, pgbench};
use crate::failure::Failure;
use crate::fixture::StoreFixture;
use crate::measure::{Baseline, Caller};
use crate::rows;

/// A plain table; positions come from a sequence, so readers of this table can miss rows.
const TABLE: &str = "CREATE TABLE events (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream text COLLATE \"C\" NOT NULL,
    version bigint NOT NULL,
    type text NOT NULL,
    payload text NOT NULL,
    metadata text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (stream, version)
)";

/// Each client on its own stream; and `pgbench`, if it is installed, where a commit is one row.
pub(in crate::baseline) async fn commits(
    schemas: &StoreFixture,
    clients: usize,
    events: usize,
) -> Result<Vec<Baseline>, Failure> {
    schemas.client().await?.batch_execute(TABLE).await?;
    let mut writers = Vec::with_capacity(clients);
    for number in 0..clients {
        writers.push(Writer::new(schemas, number, events).await?);
    }
    let mut baselines = vec![driver(writers)];
    if events == 1 {
        baselines.extend(pgbench::inserts(schemas, clients)?);
    }
    Ok(baselines)
}

struct Writer {
    client: Client,
    insert: Statement,
    stream: String,
    version: i64,
    payloads: Vec<String>,
}

impl Writer {
    async fn new(schemas: &StoreFixture, number: usize, events: usize) -> Result<Self, Failure> {
        let client = schemas.client().await?;
        let insert = client.prepare(&insert(events)).await?;
        let (stream, payloads) = (rows::stream_name(number), vec![rows::payload(); events]);
        Ok(Self { client, insert, stream, version: 0, payloads })
    }
}

/// One row for each payload, which are the parameters from the fourth on.
fn insert(events: usize) -> String {
    let row = |nth: usize| format!("($1, $2::bigint + {nth}, $3, ${}, '{{}}')", nth + 4);
    let rows: Vec<_> = (0..events).map(row).collect();
    format!(
        "INSERT INTO events (stream, version, type, payload, metadata) VALUES {}",
        rows.join(", ")
    )
}

/// A parameter of a statement.
type Value<'a> = &'a (dyn ToSql + Sync);

impl Caller for Writer {
    async fn call(&mut self) -> Result<u64, Failure> {
        let next = self.version + 1;
        let mut values: Vec<Value<'_>> = vec![&self.stream, &next, &rows::EVENT_TYPE];
        values.extend(self.payloads.iter().map(|payload| payload as Value<'_>));
        self.client.execute(&self.insert, &values).await?;
        self.version += self.payloads.len() as i64;
        Ok(1)
    }
}
