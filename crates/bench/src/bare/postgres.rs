//! The bare limit of PostgreSQL: clients that each have a connection, and send prepared statements
//! that commit by themselves.
//!
//! They wait for their answers as our callers do, on the same threads. That their driver is no
//! straw man is shown by PostgreSQL's own `pgbench`, which does the plainest of the workloads
//! beside them.

mod commits;
mod leases;
mod pgbench;
mod reads;
mod records;

use tokio_postgres::Client;

use crate::database::connect;
use crate::failure::Failure;
use crate::measure::{Baseline, Caller, Callers};
use crate::site::StoreFixture;

pub(super) use commits::commits;
pub(super) use leases::leases;
pub(crate) use pgbench::has_pgbench;
pub(super) use reads::{feed, loads};
pub(super) use records::{adds, refused_sets, sets};

impl StoreFixture {
    /// A client that finds the bare tables first, and the store's where there is no bare one.
    async fn client(&self) -> Result<Client, Failure> {
        connect(&self.database.config(&[&self.bare, &self.store])).await
    }

    /// A bare table like one of the store's: the same columns, indexes and rows.
    async fn copy(&self, table: &str, fillfactor: u8) -> Result<(), Failure> {
        let Self { store, bare, .. } = self;
        let sql = format!(
            "CREATE TABLE {bare}.{table} (LIKE {store}.{table} INCLUDING ALL) WITH (fillfactor = {fillfactor});
             INSERT INTO {bare}.{table} SELECT * FROM {store}.{table};
             ANALYZE {bare}.{table}"
        );
        Ok(self.client().await?.batch_execute(&sql).await?)
    }
}

/// The side of the clients.
fn driver<C: Caller>(clients: Vec<C>) -> Baseline {
    Baseline { name: "driver", side: Box::new(Callers(clients)) }
}
