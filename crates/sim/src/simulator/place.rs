//! The place of all data: one store. An import begins another one.

use std::sync::Arc;

use tidelock::Timestamp;
use tidelock::store::{MemoryStore, Store, StoreClock};
use tidelock_test_stage::Stingy;

use super::clock::SimulatedClock;
use super::coverage::Coverage;
use super::fault::Fault;
use super::file_store::FileStore;
use super::mutants::{self, Mutant};
use super::plan::Plan;
use super::rng::Rng;
use super::server_store::ServerStore;

/// What a store keeps its data in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// The memory of this process, in virtual time.
    Memory,
    /// An SQLite file, in virtual time.
    File,
    /// A PostgreSQL server, in real time.
    Server,
}

/// A store, and how it is reached.
#[derive(Debug)]
pub(crate) struct Place {
    /// How many imports were before.
    pub(crate) era: u64,
    /// The store as processes reach it, with the mutant's defect and short pages.
    pub(crate) store: Arc<dyn Store>,
    /// The store itself, for the audit.
    pub(crate) base: Arc<dyn Store>,
    /// The store, if it is on a file.
    pub(crate) file: Option<Arc<FileStore>>,
    /// The server, if there is one.
    pub(crate) server: Option<Arc<ServerStore>>,
    clock: StoreClock,
}

impl Place {
    /// An empty store.
    pub(crate) async fn new(
        era: u64,
        plan: &Plan,
        calendar: &Arc<SimulatedClock>,
        coverage: &mut Coverage,
    ) -> Self {
        let mut place = match plan.medium {
            Medium::Memory => Self::over(Arc::new(MemoryStore::with_clock(calendar.clone()))),
            Medium::File => {
                let file = Arc::new(FileStore::new(
                    calendar.clone(),
                    Rng::seeded(plan.seed).fork(4 + era),
                    plan.mutant == Some(Mutant::ForgetsFlushes),
                ));
                Self { file: Some(file.clone()), ..Self::over(file) }
            }
            Medium::Server => {
                let server = Arc::new(ServerStore::start(plan.processes).await);
                Self { server: Some(server.clone()), ..Self::over(server.store()) }
            }
        };
        if plan.medium != Medium::Server {
            place.clock = StoreClock::new(calendar.clone());
        }
        place.era = era;
        if Rng::seeded(plan.seed).fork(1).happens(plan.often(Fault::ShortPages)) {
            place.store = Stingy::over(place.store, plan.seed + era);
            coverage.fault(Fault::ShortPages);
        }
        place.store = mutants::over(place.store, plan.mutant, plan.seed + era);
        place
    }

    fn over(base: Arc<dyn Store>) -> Self {
        let clock = StoreClock::default();
        Self { era: 0, store: base.clone(), base, file: None, server: None, clock }
    }

    /// The store as this process reaches it.
    pub(crate) fn store_of(&self, process: usize) -> Arc<dyn Store> {
        let own = self.server.as_ref().and_then(|server| server.store_of(process));
        own.unwrap_or_else(|| self.store.clone())
    }

    /// The time of the store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.file.as_ref().map_or_else(|| self.clock.now(), |file| file.time())
    }
}
