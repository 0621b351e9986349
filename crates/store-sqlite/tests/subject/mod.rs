//! A new SQLite file on a clock that the suite moves; every handle is a separate open, with its own
//! connections.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use tidelock_store::{ManualClock, Store, async_trait};
use tidelock_store_conformance::Subject;
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};

pub(crate) struct SqliteSubject {
    clock: ManualClock,
    folder: TempDir,
    /// The first handle. Its clock has followed the calendar from the beginning.
    first: OnceLock<SqliteStore>,
}

impl SqliteSubject {
    /// A new file, or one that this prepares.
    pub(crate) fn over(prepare: fn(&Path, &SqliteOptions)) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the file");
        let new = Self { clock: ManualClock::default(), folder, first: OnceLock::new() };
        prepare(&new.path(), &new.options());
        new
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions { clock: Arc::new(self.clock.clone()), ..SqliteOptions::default() }
    }
}

#[async_trait]
impl Subject for SqliteSubject {
    async fn open(&self) -> Arc<dyn Store> {
        let store = SqliteStore::open(self.path(), &self.options()).expect("the file opens");
        self.first.get_or_init(|| store.clone());
        Arc::new(store)
    }

    async fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    async fn set_forward(&self, duration: Duration) {
        self.clock.set_forward(duration);
    }

    async fn set_back(&self, duration: Duration) {
        self.clock.set_back(duration);
    }

    async fn sweep(&self) {
        self.first
            .get()
            .expect("the store was opened")
            .sweep()
            .await
            .expect("an open store can be swept");
    }
}
