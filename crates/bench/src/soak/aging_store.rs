//! A store whose clock can be set forward, and whose rows and bytes can be counted.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;
use tidelock::Timestamp;
use tidelock::postgres::PostgresStore;
use tidelock::sqlite::{SqliteOptions, SqliteStore};
use tidelock::store::{Clock, Store, SystemClock};
use tokio_postgres::Client;

use crate::database::connect;
use crate::failure::Failure;
use crate::schemas::Schemas;
use crate::target::Target;

/// The tables that hold rows of users, on every store.
const TABLES: [&str; 5] = ["streams", "events", "records", "items", "commits"];

/// Rows and bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Size {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Size {
    /// With the larger number of rows.
    pub(super) fn max(self, rows: u64) -> Self {
        Self { rows: self.rows.max(rows), ..self }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} KiB", self.rows, self.bytes / 1024)
    }
}

/// The machine's clock, set forward.
#[derive(Debug, Default)]
pub(super) struct ShiftedClock {
    machine: SystemClock,
    micros: AtomicU64,
}

impl ShiftedClock {
    fn shift(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }
}

impl Clock for ShiftedClock {
    fn wall(&self) -> Timestamp {
        self.machine.wall().plus(self.shift())
    }

    fn elapsed(&self) -> Duration {
        self.machine.elapsed() + self.shift()
    }
}

pub(super) enum AgingStore {
    Sqlite { store: Arc<SqliteStore>, clock: Arc<ShiftedClock>, path: PathBuf },
    Postgres { store: Arc<PostgresStore>, client: Box<Client>, schema: String, schemas: Schemas },
}

impl AgingStore {
    pub(super) async fn open(target: &Target) -> Result<Self, Failure> {
        match target {
            Target::Memory => Err(Failure::Usage {
                what: "a soak counts rows, and memory: has none that can be counted".to_owned(),
                hint: "sqlite: or postgres:".to_owned(),
            }),
            Target::Sqlite { path, .. } => {
                let clock = Arc::new(ShiftedClock::default());
                let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
                let store = Arc::new(SqliteStore::open(path, &options)?);
                Ok(Self::Sqlite { store, clock, path: path.clone() })
            }
            Target::Postgres { database, schema } => {
                let schemas = Schemas::make(database, &[schema]).await?;
                let store = Arc::new(PostgresStore::open(&target.url()).await?);
                let client = Box::new(connect(&database.config(&[])).await?);
                client.batch_execute(&shifted_calendar(schema)).await?;
                Ok(Self::Postgres { store, client, schema: schema.clone(), schemas })
            }
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite { store, .. } => store.clone(),
            Self::Postgres { store, .. } => store.clone(),
        }
    }

    /// Sets the store's clock forward.
    pub(super) async fn pass(&self, time: Duration) -> Result<(), Failure> {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        match self {
            Self::Sqlite { clock, .. } => drop(clock.micros.fetch_add(micros, Ordering::SeqCst)),
            Self::Postgres { client, schema, .. } => {
                client
                    .batch_execute(&format!("UPDATE {schema}.soak SET shift = shift + {micros}"))
                    .await?;
            }
        }
        Ok(())
    }

    /// Removes everything past its retention.
    pub(super) async fn sweep(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite { store, .. } => store.sweep().await?,
            Self::Postgres { store, .. } => store.sweep().await?,
        }
        Ok(())
    }

    pub(super) async fn rows(&self) -> Result<u64, Failure> {
        let mut rows = 0;
        match self {
            Self::Sqlite { path, .. } => {
                let connection = Connection::open(path)?;
                for table in TABLES {
                    let sql = format!("SELECT count(*) FROM tidelock_{table}");
                    rows += connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?;
                }
            }
            Self::Postgres { client, schema, .. } => {
                for table in TABLES {
                    let sql = format!("SELECT count(*) FROM {schema}.{table}");
                    rows += client.query_one(&sql, &[]).await?.get::<_, i64>(0);
                }
            }
        }
        Ok(rows.unsigned_abs())
    }

    /// Rows, and the bytes that they and their indexes need: without free pages on SQLite, after a
    /// vacuum on PostgreSQL.
    pub(super) async fn size(&self) -> Result<Size, Failure> {
        Ok(Size { rows: self.rows().await?, bytes: self.bytes().await? })
    }

    async fn bytes(&self) -> Result<u64, Failure> {
        let bytes = match self {
            Self::Sqlite { path, .. } => {
                let connection = Connection::open(path)?;
                let pragma = |name: &str| {
                    connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
                };
                (pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?
            }
            Self::Postgres { client, schema, .. } => {
                let mut bytes = 0;
                for table in TABLES {
                    client
                        .batch_execute(&format!("VACUUM (FULL, ANALYZE) {schema}.{table}"))
                        .await?;
                    let sql = format!("SELECT pg_total_relation_size('{schema}.{table}')");
                    bytes += client.query_one(&sql, &[]).await?.get::<_, i64>(0);
                }
                bytes
            }
        };
        Ok(bytes.unsigned_abs())
    }

    /// Closes the store, and removes everything created for it.
    pub(super) async fn remove(self) -> Result<(), Failure> {
        self.store().close().await?;
        match self {
            Self::Sqlite { path, .. } => {
                for ending in ["", "-wal", "-shm"] {
                    let _gone = std::fs::remove_file(crate::target::beside(&path, ending));
                }
                Ok(())
            }
            Self::Postgres { schemas, .. } => schemas.clear().await,
        }
    }
}

/// A calendar that is ahead of the machine's by as much as a table says.
fn shifted_calendar(schema: &str) -> String {
    format!(
        "CREATE TABLE {schema}.soak (shift bigint NOT NULL);
         INSERT INTO {schema}.soak VALUES (0);
         CREATE OR REPLACE FUNCTION {schema}.calendar() RETURNS bigint LANGUAGE sql VOLATILE AS
             'SELECT (date_part(''epoch'', clock_timestamp()) * 1000000)::bigint
                 + (SELECT shift FROM {schema}.soak)'"
    )
}
