//! The schemas of a fixture, removed with it.

use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::database::{Database, connect};
use crate::failure::Failure;

/// Removed when dropped, also when a workload fails.
#[derive(Debug)]
pub(crate) struct Schemas {
    database: Database,
    names: Vec<String>,
}

impl Schemas {
    /// Creates them; fails if one of them exists already, because it is foreign.
    pub(crate) async fn make(database: &Database, names: &[&str]) -> Result<Self, Failure> {
        let client = connect(&database.config(names)).await?;
        let mut made = Self { database: database.clone(), names: Vec::new() };
        for name in names {
            client.batch_execute(&format!("CREATE SCHEMA {name}")).await?;
            made.names.push((*name).to_owned());
        }
        Ok(made)
    }

    /// Removes them.
    pub(crate) async fn clear(mut self) -> Result<(), Failure> {
        self.remove().await
    }

    async fn remove(&mut self) -> Result<(), Failure> {
        let names = std::mem::take(&mut self.names);
        if names.is_empty() {
            return Ok(());
        }
        let client = connect(&self.database.config(&[])).await?;
        let drop = format!("SET lock_timeout = '30s'; DROP SCHEMA {} CASCADE", names.join(", "));
        Ok(client.batch_execute(&drop).await?)
    }
}

impl Drop for Schemas {
    fn drop(&mut self) {
        // The original failure is reported; the next run reports leftover schemas.
        let _ = block_in_place(|| Handle::current().block_on(self.remove()));
    }
}
