//! A store that several handles can be had on, and time that passes on it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tidelock::prelude::*;
use tidelock::{Clock, MemoryStore, Timestamp};
use tokio::time::Instant;

use crate::past;
use crate::stingy::{Stingy, stingy_seed};

/// A lease in real time: short enough to wait for its end, and so long that a worker on a busy
/// machine gets round to renewing it.
pub const LEASE: Duration = Duration::from_millis(1_500);

/// Where one case plays.
#[derive(Debug)]
pub struct TestStore {
    place: Place,
    /// Whether its pages are as small as they may be.
    stingy: bool,
}

#[derive(Debug)]
enum Place {
    Memory(Arc<MemoryStore>),
    Sqlite(TempDir),
    Postgres(String),
}

/// Time as the runtime has it: in a runtime whose clock is paused, it passes when everybody waits.
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

    /// In memory, with pages as small as they may be.
    pub fn stingy() -> Self {
        Self { stingy: true, ..Self::memory() }
    }

    fn at(place: Place) -> Self {
        Self { place, stingy: stingy_seed().is_some() }
    }

    /// A file of its own.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        past::lay_file(&folder.path().join("store.db"));
        Self::at(Place::Sqlite(folder))
    }

    /// A schema of its own on the tests' server, in a database that only some others have.
    pub fn postgres() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::SeqCst);
        let url = tidelock_test_postgres::shared_database().unwrap();
        let schema = format!("stage_{}_{nth}", std::process::id());
        past::lay_schema(&url, &schema);
        // Connections are most of what a case costs there. Two are enough to read with another than
        // before.
        Self::at(Place::Postgres(format!("{url}?readers=2&schema={schema}")))
    }

    /// Whether time passes by itself and costs nothing.
    pub fn is_simulated(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }

    /// Whether its pages are as small as they may be: then what is read or routed at once is
    /// little, too.
    pub fn is_stingy(&self) -> bool {
        self.stingy
    }

    /// A lease that renewals keep, and that can be outlived.
    pub fn lease(&self) -> Duration {
        if self.is_simulated() { Duration::from_secs(10) } else { LEASE }
    }

    /// By which other processes open it; nothing in memory.
    pub fn url(&self) -> Option<String> {
        match &self.place {
            Place::Memory(_) => None,
            Place::Sqlite(folder) => {
                Some(format!("sqlite:{}", folder.path().join("store.db").display()))
            }
            Place::Postgres(url) => Some(url.clone()),
        }
    }

    /// The store, over connections of its own, as another process has them.
    pub async fn store(&self) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = match (&self.place, self.url()) {
            (Place::Memory(store), _) => store.clone(),
            (_, Some(url)) => tidelock::open(&url).await.unwrap(),
            (_, None) => unreachable!("only memory has no URL"),
        };
        if self.stingy { Stingy::at_random(store) } else { store }
    }

    /// A handle that has nothing in common with others but the store.
    pub async fn tidelock(&self) -> Tidelock {
        Tidelock::over(self.store().await)
    }
}

/// Runs a case with simulated time.
pub fn in_memory<F: Future<Output = ()>>(case: impl FnOnce(TestStore) -> F) {
    simulated(async || case(TestStore::memory()).await);
}

/// Runs a case with simulated time, and with pages as small as they may be.
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

/// Runs a case on this stage, in real time.
pub fn for_real<F: Future<Output = ()>>(stage: TestStore, case: impl FnOnce(TestStore) -> F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(case(stage));
}
