//! The baseline of PostgreSQL: clients with one connection each that send prepared statements in
//! autocommit mode.
//!
//! They wait for their answers as our callers do, on the same threads. PostgreSQL's own `pgbench`
//! runs the plainest of the workloads beside them, as a check of the driver.

mod commits;
mod leases;
mod pgbench;
mod reads;
mod records;

use tokio_postgres::Client;

use crate::database::connect;
use crate::failure::Failure;
use crate::fixture::StoreFixture;
use crate::measure::{Baseline, Caller, Callers};

pub(super) use commits::commits;
pub(super) use leases::leases;
pub(crate) use pgbench::has_pgbench;
pub(super) use reads::{feed, loads};
pub(super) use records::{adds, refused_sets, sets};

impl StoreFixture {
    /// A client whose search path has the baseline's tables first, then the store's.
    async fn client(&self) -> Result<Client, Failure> {
        connect(&self.database.config(&[&self.baseline, &self.store])).await
    }

    /// A baseline table like one of the store's: the same columns, indexes and rows.
    async fn copy(&self, table: &str, fillfactor: u8) -> Result<(), Failure> {
        let Self { store, baseline, .. } = self;
        let sql = format!(
            "CREATE TABLE {baseline}.{table} (LIKE {store}.{table} INCLUDING ALL) WITH (fillfactor = {fillfactor});
             INSERT INTO {baseline}.{table} SELECT * FROM {store}.{table};
             ANALYZE {baseline}.{table}"
        );
        Ok(self.client().await?.batch_execute(&sql).await?)
    }
}

/// The side of the clients.
fn driver<C: Caller>(clients: Vec<C>) -> Baseline {
    Baseline { name: "driver", side: Box::new(Callers(clients)) }
}
