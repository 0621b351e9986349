//! [`TestApp`]: an application on a store in memory, with simulated time.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{MemoryStore, Timestamp};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::busy::Served;
use super::faults::Faults;
use super::runtime_clock::RuntimeClock;
use super::supervisor::Supervisor;
use super::{TestEvents, TestJobs, TestQueue, TestRun, finish};
use crate::AppBuilder;
use crate::handle::Tidelock;
use crate::jobs::Job;

/// Simulated time for which an application may stay busy.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Calls of the store without simulated time between them; more is a loop that feeds itself.
const ENDLESS: u64 = 1_000_000;

/// Rounds of the runtime in which every task that can go on does.
const ROUNDS: usize = 32;

/// An application under test, on a store in memory, with simulated time.
///
/// The runtime's time is paused, so waiting costs nothing: a test of a process that takes weeks
/// takes milliseconds. Time passes only in [`advance`](Self::advance), and in
/// [`run_until_idle`](Self::run_until_idle) as far as work in progress needs it. Dropping this stops
/// the application.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tidelock::prelude::*;
/// use tidelock::testing::TestApp;
///
/// const REMINDER: Workflow<String, String> = Workflow::new("reminder");
///
/// async fn remind(ctx: RunCtx, name: String) -> Result<String, StepError> {
///     ctx.sleep("two days", Duration::from_secs(2 * 24 * 3600)).await?;
///     ctx.step("mail", |_key| async { Ok::<_, HandlerError>(format!("dear {name}")) }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // In a test: #[tokio::test(start_paused = true)]
/// let test = TestApp::start(|tidelock| tidelock.app().workflow(REMINDER, remind)).await;
/// test.tidelock().start(REMINDER, "ada", "Ada").await?;
/// test.run_until_idle().await;
/// test.run("ada").assert_steps([]);
///
/// test.advance(Duration::from_secs(2 * 24 * 3600)).await;
/// test.run("ada").assert_steps(["mail"]).assert_completed("dear Ada");
/// # Ok(())
/// # }
/// ```
pub struct TestApp {
    store: MemoryStore,
    tidelock: Tidelock,
    faults: Faults,
    supervisor: Arc<Supervisor>,
    served: Served,
    running: AbortOnDropHandle<()>,
}

impl fmt::Debug for TestApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestApp").field("store", &self.store).finish_non_exhaustive()
    }
}

impl TestApp {
    /// Starts an application on a new store in memory, and waits until it is idle.
    ///
    /// `build` registers what the application runs, as the program does; it is called again for
    /// each life of the application.
    ///
    /// # Panics
    /// If the runtime's time is not paused (`#[tokio::test(start_paused = true)]`), or the
    /// application cannot be built.
    #[track_caller]
    pub fn start(
        build: impl Fn(&Tidelock) -> AppBuilder + Send + Sync + 'static,
    ) -> impl Future<Output = Self> + Send {
        Self::begin(Arc::new(build), Location::caller())
    }

    async fn begin(build: super::supervisor::Build, place: &'static Location<'static>) -> Self {
        assert!(
            RuntimeClock::is_paused(),
            "{place}: the runtime's time runs; a test app needs simulated time: \
             #[tokio::test(start_paused = true)], with tokio's feature test-util"
        );
        let store = MemoryStore::with_clock(Arc::new(RuntimeClock::begin()));
        let faults = Faults::new(Arc::new(store.clone()));
        let supervisor = Supervisor::new(build, faults.clone());
        let tidelock = Tidelock::over(Arc::new(store.clone()));
        let served = Served::by(&supervisor.app(&tidelock));
        let running = AbortOnDropHandle::new(tokio::spawn(supervisor.clone().run()));
        let test = Self { store, tidelock, faults, supervisor, served, running };
        test.until_idle(place).await;
        test
    }

    /// Returns the test's own handle on the store, as in another process. Its calls never fail, and
    /// are not counted.
    pub fn tidelock(&self) -> &Tidelock {
        &self.tidelock
    }

    /// Returns the current simulated time.
    pub fn now(&self) -> Timestamp {
        finish(tidelock_store::Store::now(&self.store)).expect("a store in memory is readable")
    }

    /// Runs the application until it has nothing more to do before a later time, a signal or an
    /// event.
    ///
    /// Events are routed and handled, due items are worked on and runs are driven. Work in progress
    /// takes the simulated time that it needs: a handler that sleeps wakes up, and a lease of an
    /// application that died expires. A retry that is due later is not waited for.
    ///
    /// # Panics
    /// If the application stays busy for an hour of simulated time; the message says with what.
    #[track_caller]
    pub fn run_until_idle(&self) -> impl Future<Output = ()> + Send {
        self.until_idle(Location::caller())
    }

    /// Lets this much time pass while the application works, then runs it until it is idle.
    ///
    /// # Panics
    /// As [`run_until_idle`](Self::run_until_idle).
    #[track_caller]
    pub fn advance(&self, time: Duration) -> impl Future<Output = ()> + Send {
        let place = Location::caller();
        async move {
            self.settle(place).await;
            tokio::time::sleep(time).await;
            self.until_idle(place).await;
        }
    }

    /// Ends the application where it is, as a killed process, and starts it again. Its leases
    /// expire later.
    pub fn crash(&self) {
        self.supervisor.crash();
    }

    /// Returns how often the application was started: 1, plus 1 for each crash.
    pub fn lives(&self) -> u32 {
        self.supervisor.lives()
    }

    /// Returns the failures of the application's store.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Reads the events of a stream.
    ///
    /// # Panics
    /// If the name is not that of a stream.
    #[track_caller]
    pub fn events(&self, stream: impl AsRef<str>) -> TestEvents {
        TestEvents::of_stream(&self.store, stream.as_ref())
    }

    /// Reads the events of all streams, in the order of the feed, without those that Tidelock keeps
    /// for itself.
    pub fn all_events(&self) -> TestEvents {
        TestEvents::of_all_streams(&self.store)
    }

    /// Reads the items of a queue that have work.
    ///
    /// # Panics
    /// If the name is not that of a queue.
    #[track_caller]
    pub fn queue(&self, queue: impl AsRef<str>) -> TestQueue {
        TestQueue::of(&self.store, queue.as_ref())
    }

    /// Reads the unfinished jobs of a type.
    ///
    /// # Panics
    /// If the payload of one is not a `J`.
    #[track_caller]
    pub fn jobs<J: Job>(&self) -> TestJobs<J> {
        TestJobs::of(&self.queue(J::QUEUE))
    }

    /// Returns the run with this id.
    pub fn run(&self, id: impl AsRef<str>) -> TestRun {
        TestRun::of(&self.tidelock, id.as_ref())
    }

    async fn until_idle(&self, place: &'static Location<'static>) {
        let begun = Instant::now();
        loop {
            self.settle(place).await;
            let busy = self.served.busy(&self.store).await.expect("a store in memory is readable");
            let Some(busy) = busy else { return };
            assert!(
                begun.elapsed() < PATIENCE,
                "{place}: still busy after {PATIENCE:?} of simulated time: {busy}"
            );
            // Longer steps the longer it takes: a test that waits for a lease reads little.
            tokio::time::sleep((begun.elapsed() / 100).max(Duration::from_millis(1))).await;
        }
    }

    /// Lets every task go on that can without time.
    async fn settle(&self, place: &'static Location<'static>) {
        let begun = self.faults.all_calls();
        let mut calls = begun;
        loop {
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            assert!(
                !self.running.is_finished(),
                "{place}: the application cannot be started again; the panic above says why"
            );
            let now = self.faults.all_calls();
            if now == calls {
                return;
            }
            assert!(
                now - begun < ENDLESS,
                "{place}: {ENDLESS} calls of the store without an end: does a handler cause the \
                 event that it handles?"
            );
            calls = now;
        }
    }
}
