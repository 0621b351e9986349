//! A fresh SQLite file on a clock that the suite moves; every handle is opened anew, with connections of its own.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidelock_store::{ManualClock, Store, async_trait};
use tidelock_store_conformance::Subject;
use tidelock_store_sqlite::{SqliteOptions, SqliteStore};

pub(crate) struct SqliteSubject {
    clock: ManualClock,
    folder: TempDir,
}

impl SqliteSubject {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the file");
        Self { clock: ManualClock::default(), folder }
    }
}

#[async_trait]
impl Subject for SqliteSubject {
    async fn open(&self) -> Arc<dyn Store> {
        let options = SqliteOptions { clock: Arc::new(self.clock.clone()), ..SqliteOptions::default() };
        Arc::new(SqliteStore::open(self.folder.path().join("store.db"), &options).expect("the file opens"))
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
}
