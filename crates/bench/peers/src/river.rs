//! River for Rust.
//!
//! Its own benchmark (`riverqueue bench`) fetches every 2 ms at most and polls every 20 ms; so does
//! this. Jobs are inserted through its client, one at a time or with `insert_many`.

use std::time::Duration;

use riverqueue::database::{PostgresDatabase, SchemaName};
use riverqueue::migrate::PostgresMigrator;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::{
    BoxError, Client, Job, JobArgs, QUEUE_DEFAULT, QueueConfig, RunHandle, WorkContext,
    WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::counted::count_one;
use crate::protocol::{Enqueuer, Peer, Place, note};

/// Enough for 32 callers, and for fetches and completions.
const CONNECTIONS: u32 = 40;

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "work")]
struct Work {
    note: String,
}

async fn handle(_: WorkContext, _: Job<Work>) -> std::result::Result<WorkOutcome, BoxError> {
    count_one();
    Ok(WorkOutcome::Complete)
}

pub(crate) struct River {
    client: Client,
    running: Option<RunHandle>,
}

impl River {
    pub(crate) async fn open(place: &Place, slots: usize) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&place.url).await?;
        let schema = SchemaName::new(place.schema.clone())?;
        PostgresMigrator::new(pool.clone()).with_schema(schema.clone()).migrate_up().await?;
        let mut workers = Workers::new();
        workers.add_fn(handle)?;
        let queue = QueueConfig::new(slots)
            .with_fetch_cooldown(Duration::from_millis(2))
            .with_fetch_poll_interval(Duration::from_millis(20));
        let client = Client::builder(PostgresDatabase::new(pool).with_schema(schema))
            .workers(workers)
            .queue(QUEUE_DEFAULT, queue)
            .build()?;
        Ok(Self { client, running: None })
    }
}

impl Peer for River {
    type Enqueuer = Inserter;

    fn enqueuer(&self) -> Inserter {
        Inserter(self.client.clone())
    }

    async fn work(&mut self) -> Result<()> {
        self.running = Some(self.client.start()?);
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        let Some(mut running) = self.running else { return Ok(()) };
        Ok(running.stop().await?)
    }
}

pub(crate) struct Inserter(Client);

impl Enqueuer for Inserter {
    async fn enqueue(&self) -> Result<()> {
        self.0.insert(Work { note: note() }).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: usize) -> Result<()> {
        self.0.insert_many((0..jobs).map(|_| Work { note: note() })).await?;
        Ok(())
    }
}
