//! Supervisor: keeps the application of a test running, like a process manager.
//!
//! An application that dies by a [fault](super::Fault), or that cannot start, is started again. Its
//! successor has its own handle, caches and worker, and shares only the store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::faults::Faults;
use crate::handle::Tidelock;
use crate::reactions::free_routes;
use crate::{App, AppBuilder};

/// Between an application that could not start and the next one.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Builds the application, in each of its lives.
pub(super) type Build = Arc<dyn Fn(&Tidelock) -> AppBuilder + Send + Sync>;

/// Runs the application until the test drops it.
pub(super) struct Supervisor {
    build: Build,
    faults: Faults,
    life: Mutex<CancellationToken>,
    lives: Mutex<u32>,
}

impl Supervisor {
    pub(super) fn new(build: Build, faults: Faults) -> Arc<Self> {
        Arc::new(Self { build, faults, life: Mutex::default(), lives: Mutex::default() })
    }

    /// Ends the application where it is.
    pub(super) fn crash(&self) {
        self.life().cancel();
    }

    /// How often the application was started.
    pub(super) fn lives(&self) -> u32 {
        *self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the application, and again whenever it ends.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let (app, died) = self.start();
            let stopped = died.run_until_cancelled(app.run()).await;
            // Their leases last longer in simulated time than they would in real time.
            let freed = free_routes(self.faults.store()).await;
            freed.expect("a store in memory is writable");
            if stopped.is_some() {
                tokio::time::sleep(RESTART_PAUSE).await;
            }
        }
    }

    /// The application of the next life.
    pub(super) fn start(&self) -> (App, CancellationToken) {
        let died = CancellationToken::new();
        *self.life() = died.clone();
        *self.lives.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        (self.app(&Tidelock::over(self.faults.layer(died.clone()))), died)
    }

    /// The application on this handle.
    pub(super) fn app(&self, tidelock: &Tidelock) -> App {
        let app = (self.build)(tidelock).for_simulated_time().build();
        app.unwrap_or_else(|error| panic!("the application cannot be built: {error}"))
    }

    fn life(&self) -> MutexGuard<'_, CancellationToken> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
