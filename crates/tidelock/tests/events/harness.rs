//! A new store of each kind, and handles to it that share nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tidelock::prelude::*;
use tidelock::store::{MemoryStore, Store};
use tidelock_test_stage::{Stingy, past, stingy_seed};

/// The store of a test.
pub(crate) enum Ground {
    Memory(MemoryStore),
    /// In memory, with the smallest pages.
    Stingy(MemoryStore),
    Sqlite(TempDir),
    Postgres(String),
}

impl Ground {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryStore::new())
    }

    pub(crate) fn stingy() -> Self {
        Self::Stingy(MemoryStore::new())
    }

    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        past::lay_file(&folder.path().join("store.db"));
        Self::Sqlite(folder)
    }

    pub(crate) fn postgres() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::SeqCst);
        let server = tidelock_test_postgres::shared_database().unwrap();
        let schema = format!("events_{}_{nth}", std::process::id());
        past::lay_schema(&server, &schema);
        Self::Postgres(format!("{server}?readers=2&schema={schema}"))
    }

    /// The store, with its own connections.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        let store = self.plain_store().await;
        if self.is_stingy() { Stingy::at_random(store) } else { store }
    }

    /// Whether it has the smallest pages.
    pub(crate) fn is_stingy(&self) -> bool {
        matches!(self, Self::Stingy(_)) || stingy_seed().is_some()
    }

    async fn plain_store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) | Self::Stingy(store) => Arc::new(store.clone()),
            Self::Sqlite(folder) => {
                let file = folder.path().join("store.db");
                tidelock::open(&format!("sqlite:{}", file.display())).await.unwrap()
            }
            Self::Postgres(url) => tidelock::open(url).await.unwrap(),
        }
    }

    /// A handle like another process's: it shares nothing but the store. It retries as long as a
    /// test can take.
    pub(crate) async fn open(&self) -> Tidelock {
        Tidelock::over(self.store().await).with_retry(Retry::attempts(1_000))
    }
}

/// Makes four tests of each case: one per store, and one with the smallest pages (schedule 103).
macro_rules! on_every_store {
    ($($case:ident),+ $(,)?) => {$(
        mod $case {
            use crate::harness::Ground;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn memory() {
                super::$case(Ground::memory()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$case(Ground::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$case(Ground::postgres()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn stingy() {
                super::$case(Ground::stingy()).await;
            }
        }
    )+};
}

pub(crate) use on_every_store;
