//! A store of a test case, with several handles and a clock.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tidelock::Timestamp;
use tidelock::prelude::*;
use tidelock::store::{Clock, MemoryStore, Store};
use tokio::time::Instant;

use crate::past;
use crate::stingy::{Stingy, stingy_seed};

/// A lease in real time: short enough to wait for its expiry, and long enough for a worker on a
/// busy machine to renew it.
pub const LEASE: Duration = Duration::from_millis(1_500);

/// The store of one case.
#[derive(Debug)]
pub struct TestStore {
    place: Place,
    /// Whether its pages are as small as possible.
    stingy: bool,
}

#[derive(Debug)]
enum Place {
    Memory(Arc<MemoryStore>),
    Sqlite(TempDir),
    Postgres(String),
}

/// The runtime's clock: in a runtime with a paused clock, time passes when all tasks wait.
#[derive(Debug)]
struct RuntimeClock {
    began: Instant,
}

impl Clock for RuntimeClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(1_893_456_000_000_000).unwrap().plus(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl TestStore {
    /// In memory, with the runtime's time.
    pub fn memory() -> Self {
        let clock = RuntimeClock { began: Instant::now() };
        Self::at(Place::Memory(Arc::new(MemoryStore::with_clock(Arc::new(clock)))))
    }

    /// In memory, with pages as small as possible.
    pub fn stingy() -> Self {
        Self { stingy: true, ..Self::memory() }
    }

    fn at(place: Place) -> Self {
        Self { place, stingy: stingy_seed().is_some() }
    }

    /// On a new file.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        past::lay_file(&folder.path().join("store.db"));
        Self::at(Place::Sqlite(folder))
    }

    /// In a new schema on the tests' server, in a database that few others share.
    pub fn postgres() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::SeqCst);
        let url = tidelock_test_postgres::shared_database().unwrap();
        let schema = format!("stage_{}_{nth}", std::process::id());
        past::lay_schema(&url, &schema);
        // Connections are most of the cost of a case there. Two are enough to read on another
        // connection than before.
        Self::at(Place::Postgres(format!("{url}?readers=2&schema={schema}")))
    }

    /// Whether time passes by itself and costs nothing.
    pub fn is_simulated(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }

    /// Whether its pages are as small as possible: then batches are small, too.
    pub fn is_stingy(&self) -> bool {
        self.stingy
    }

    /// A lease that renewals can keep, and that a test can wait out.
    pub fn lease(&self) -> Duration {
        if self.is_simulated() { Duration::from_secs(10) } else { LEASE }
    }

    /// The URL for other processes; none in memory.
    pub fn url(&self) -> Option<String> {
        match &self.place {
            Place::Memory(_) => None,
            Place::Sqlite(folder) => {
                Some(format!("sqlite:{}", folder.path().join("store.db").display()))
            }
            Place::Postgres(url) => Some(url.clone()),
        }
    }

    /// A new handle of the store, with its own connections, as in another process.
    pub async fn store(&self) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = match (&self.place, self.url()) {
            (Place::Memory(store), _) => store.clone(),
            (_, Some(url)) => tidelock::open(&url).await.unwrap(),
            (_, None) => unreachable!("only memory has no URL"),
        };
        if self.stingy { Stingy::at_random(store) } else { store }
    }

    /// A new handle that shares only the store with others.
    pub async fn tidelock(&self) -> Tidelock {
        Tidelock::over(self.store().await)
    }
}

/// Runs a case with simulated time.
pub fn in_memory<F: Future<Output = ()>>(case: impl FnOnce(TestStore) -> F) {
    simulated(async || case(TestStore::memory()).await);
}

/// Runs a case with simulated time, and with pages as small as possible.
pub fn in_memory_stingily<F: Future<Output = ()>>(case: impl FnOnce(TestStore) -> F) {
    simulated(async || case(TestStore::stingy()).await);
}

fn simulated(case: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(case());
}

/// Runs a case on this store, in real time.
pub fn for_real<F: Future<Output = ()>>(stage: TestStore, case: impl FnOnce(TestStore) -> F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(case(stage));
}
