//! The fixture of a workload: its own store, filled for it, and what its baseline needs.
//!
//! No two workloads share a store, so that none depends on what another left behind. The baseline's
//! SQLite file is a copy of the store's after filling: the same tables, indexes and rows, laid out
//! in the same way. On PostgreSQL the baseline clients have a schema beside the store's.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tidelock::store::Store;

use crate::baseline;
use crate::database::Database;
use crate::failure::Failure;
use crate::schemas::Schemas;
use crate::target::{Target, beside};

/// A store that was filled for one workload.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) below: Below,
    traces: Traces,
}

/// What the baseline is measured on.
#[derive(Debug)]
pub(crate) enum Below {
    /// Nothing below the store.
    Nothing,
    /// A copy of the store's file.
    File(PathBuf),
    /// A separate schema, beside the store's.
    Schema(StoreFixture),
}

/// The two schemas of a fixture on PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct StoreFixture {
    pub(crate) database: Database,
    pub(crate) store: String,
    pub(crate) baseline: String,
}

/// What is removed with the fixture, also when a workload fails.
#[derive(Debug)]
enum Traces {
    Files(Files),
    Schemas(Schemas),
}

impl Fixture {
    /// Makes a new store and fills it.
    pub(crate) async fn filled(
        target: &Target,
        fill: impl AsyncFnOnce(&dyn Store) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        match target {
            Target::Postgres { database, schema } => {
                let baseline = format!("{schema}_baseline");
                let traces = Traces::Schemas(Schemas::make(database, &[schema, &baseline]).await?);
                let store = target.open().await?;
                fill(&*store).await?;
                let schemas =
                    StoreFixture { database: database.clone(), store: schema.clone(), baseline };
                Ok(Self { store, below: Below::Schema(schemas), traces })
            }
            _ => Self::filled_file(target, fill).await,
        }
    }

    async fn filled_file(
        target: &Target,
        fill: impl AsyncFnOnce(&dyn Store) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        target.check_free()?;
        let traces = Traces::Files(Files(target.files()));
        let store = target.open().await?;
        fill(&*store).await?;
        let Target::Sqlite { path, .. } = target else {
            return Ok(Self { store, below: Below::Nothing, traces });
        };
        store.close().await?;
        drop(store);
        let baseline = beside(path, "-baseline");
        baseline::copy(path, &baseline)?;
        Ok(Self { store: target.open().await?, below: Below::File(baseline), traces })
    }

    /// Closes the store and removes all of it.
    pub(crate) async fn clear(self) -> Result<(), Failure> {
        self.store.close().await?;
        match self.traces {
            Traces::Files(files) => drop(files),
            Traces::Schemas(schemas) => schemas.clear().await?,
        }
        Ok(())
    }
}

/// Files that are removed when this is dropped.
#[derive(Debug)]
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        for file in self
            .0
            .iter()
            .flat_map(|file| [file.clone(), beside(file, "-wal"), beside(file, "-shm")])
        {
            // Most often because it does not exist.
            let _ = fs::remove_file(file);
        }
    }
}
