//! Where a workload is measured: a store of its own, filled for it, and what is needed to measure
//! below it.
//!
//! No two workloads share a store, so that none runs on what another left behind. The bare loop's
//! SQLite file is a copy of the store's after filling: the same tables, indexes and rows, laid out
//! in the same way. On PostgreSQL the bare clients have a schema beside the store's.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tidelock::Store;

use crate::bare;
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

/// What the bare limit is measured on.
#[derive(Debug)]
pub(crate) enum Below {
    /// The store is all there is.
    Nothing,
    /// A copy of the store's file.
    File(PathBuf),
    /// A schema of its own, beside the store's.
    Schema(StoreFixture),
}

/// The two schemas of a site on PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct StoreFixture {
    pub(crate) database: Database,
    pub(crate) store: String,
    pub(crate) bare: String,
}

/// What goes away with the site, also when a workload fails.
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
                let bare = format!("{schema}_bare");
                let traces = Traces::Schemas(Schemas::make(database, &[schema, &bare]).await?);
                let store = target.open().await?;
                fill(&*store).await?;
                let ground =
                    StoreFixture { database: database.clone(), store: schema.clone(), bare };
                Ok(Self { store, below: Below::Schema(ground), traces })
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
        let bare = beside(path, "-bare");
        bare::copy(path, &bare)?;
        Ok(Self { store: target.open().await?, below: Below::File(bare), traces })
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

/// Files that go away when this does.
#[derive(Debug)]
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        for file in self
            .0
            .iter()
            .flat_map(|file| [file.clone(), beside(file, "-wal"), beside(file, "-shm")])
        {
            // Most often because it is not there.
            let _ = fs::remove_file(file);
        }
    }
}
