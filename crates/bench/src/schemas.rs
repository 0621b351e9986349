//! Schemas that were made for a site, and go away with it.

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
    /// Fails if one of them is there already: it is not ours then.
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
        // The failure that led here is told; that it left schemas behind, the next run will tell.
        let _ = block_in_place(|| Handle::current().block_on(self.remove()));
    }
}
