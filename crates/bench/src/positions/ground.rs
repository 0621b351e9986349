//! Where a mechanism writes: a schema of its own, so that none runs on what another left behind.

use tokio_postgres::{Client, Config};

use super::mechanism::Mechanism;
use crate::database::connect;
use crate::failure::Failure;

const TABLES: &str = "
    CREATE TABLE heads (stream text COLLATE \"C\" PRIMARY KEY, version bigint NOT NULL) WITH (fillfactor = 70);
    CREATE TABLE events (
        position bigint PRIMARY KEY,
        stream text COLLATE \"C\" NOT NULL,
        version bigint NOT NULL,
        id uuid NOT NULL UNIQUE,
        type text NOT NULL,
        payload text NOT NULL,
        metadata text NOT NULL,
        recorded_at bigint NOT NULL,
        UNIQUE (stream, version)
    );";

/// The schema of a mechanism.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) url: String,
    pub(super) mechanism: Mechanism,
}

impl Ground {
    /// Fails if the schema is there already: it is not ours then.
    pub(super) async fn make(url: &str, mechanism: Mechanism) -> Result<Self, Failure> {
        let ground = Self { url: url.to_owned(), mechanism };
        let client = ground.connect().await?;
        client.batch_execute(&format!("CREATE SCHEMA {};", ground.schema())).await?;
        client.batch_execute(&format!("{TABLES}{}", mechanism.sql().tables)).await?;
        Ok(ground)
    }

    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let mut config: Config = self.url.parse()?;
        // Left to itself, the server plans some of the statements anew each time: it takes the few rows of the first
        // batches for what is to come.
        config.options(format!("-c search_path={} -c plan_cache_mode=force_generic_plan", self.schema()));
        connect(&config).await
    }

    /// The highest position there is.
    pub(super) async fn end(&self) -> Result<i64, Failure> {
        let sql = "SELECT coalesce(max(position), 0) FROM events";
        Ok(self.connect().await?.query_one(sql, &[]).await?.get(0))
    }

    /// How many events there are after a position.
    pub(super) async fn count_after(&self, position: i64) -> Result<i64, Failure> {
        let sql = "SELECT count(*) FROM events WHERE position > $1";
        Ok(self.connect().await?.query_one(sql, &[&position]).await?.get(0))
    }

    pub(super) async fn clear(&self) -> Result<(), Failure> {
        let drop = format!("DROP SCHEMA {} CASCADE", self.schema());
        Ok(self.connect().await?.batch_execute(&drop).await?)
    }

    fn schema(&self) -> String {
        format!("bench_positions_{}", self.mechanism.name())
    }
}
