//! Conformance cases: what a case is, its test fixture, and the test harness that runs the list.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use libtest_mimic::{Arguments, Trial};
use tidelock_store::Store;
use tokio::sync::Mutex;

use crate::model::{Runs, check_model};

/// One empty store under test.
#[async_trait]
pub trait Subject: Send + Sync + 'static {
    /// Opens a handle to the store. Each call gives a separate one: another connection, where the
    /// store has connections.
    async fn open(&self) -> Arc<dyn Store>;

    /// Lets time pass on the store's clock.
    async fn advance(&self, duration: Duration);

    /// Sets the calendar under the store's clock forward, without time passing.
    async fn set_forward(&self, duration: Duration);

    /// Sets the calendar under the store's clock back, without time passing.
    async fn set_back(&self, duration: Duration);

    /// Makes the store remove everything that is past its retention now.
    async fn sweep(&self);
}

/// The fixture of a case: its own empty store, and the store's clock.
pub(crate) struct World {
    /// A handle to the store.
    pub(crate) store: Arc<dyn Store>,
    subject: Box<dyn Subject>,
    others: Mutex<Vec<Arc<dyn Store>>>,
}

impl World {
    async fn of(subject: impl Subject) -> Self {
        let store = subject.open().await;
        Self { store, subject: Box::new(subject), others: Mutex::default() }
    }

    /// Opens another handle to the same store.
    pub(crate) async fn another(&self) -> Arc<dyn Store> {
        self.subject.open().await
    }

    /// The nth of some other handles, each opened on first use and kept for later rounds: a race is
    /// closer if no racer has to connect first.
    pub(crate) async fn nth(&self, nth: usize) -> Arc<dyn Store> {
        let mut others = self.others.lock().await;
        while others.len() <= nth {
            others.push(self.subject.open().await);
        }
        others[nth].clone()
    }

    /// Lets time pass.
    pub(crate) async fn advance(&self, duration: Duration) {
        self.subject.advance(duration).await;
    }

    /// Sets the calendar forward.
    pub(crate) async fn set_forward(&self, duration: Duration) {
        self.subject.set_forward(duration).await;
    }

    /// Sets the calendar back.
    pub(crate) async fn set_back(&self, duration: Duration) {
        self.subject.set_back(duration).await;
    }

    /// Makes the store remove everything that is past its retention now.
    pub(crate) async fn sweep(&self) {
        self.subject.sweep().await;
    }
}

/// A claim about every store, and its check.
pub(crate) struct Case {
    /// The claim, as a path: `log::second_creator_is_refused`.
    pub(crate) name: String,
    /// The promises of docs/guarantees.md that it is about.
    pub(crate) promises: &'static str,
    /// Fails by panicking.
    pub(crate) run: fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Lists the cases of a module: the promises, then the name of the function.
macro_rules! cases {
    ($module:literal: $($promises:literal $name:ident,)*) => {
        pub(crate) fn cases() -> Vec<$crate::case::Case> {
            vec![$($crate::case::Case {
                name: format!(concat!($module, "::", stringify!($name))),
                promises: $promises,
                run: |world| Box::pin($name(world)),
            }),*]
        }
    };
}
pub(crate) use cases;

fn all() -> Vec<Case> {
    [
        crate::log::cases(),
        crate::records::cases(),
        crate::leases::cases(),
        crate::commit::cases(),
        crate::limits::cases(),
        crate::time::cases(),
        crate::retention::cases(),
        crate::signals::cases(),
        crate::contention::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs every case, each on its own store, as a test harness would, and exits.
pub fn main<S, F>(make: impl Fn() -> F + Send + Sync + 'static)
where
    S: Subject,
    F: Future<Output = S> + Send,
{
    let trials = tests(make).into_iter().map(|test| {
        let run = move || {
            (test.run)();
            Ok(())
        };
        Trial::test(test.name, run)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

/// The promises of each case, by the case's name.
pub fn promises() -> Vec<(String, &'static str)> {
    all().into_iter().map(|case| (case.name, case.promises)).collect()
}

/// The result of a run without output.
#[derive(Debug)]
pub struct Report {
    /// How many tests passed.
    pub passed: usize,
    /// The names of those that failed, each with its promises.
    pub failed: Vec<String>,
}

/// Runs every case as [`main`] does and returns the result, to show that the suite fails a wrong
/// store.
pub fn run_quietly<S, F>(make: impl Fn() -> F + Send + Sync + 'static) -> Report
where
    S: Subject,
    F: Future<Output = S> + Send,
{
    let mut report = Report { passed: 0, failed: Vec::new() };
    for test in tests(make) {
        match std::panic::catch_unwind(AssertUnwindSafe(test.run)) {
            Ok(()) => report.passed += 1,
            Err(_) => report.failed.push(test.name),
        }
    }
    report
}

/// How many random histories are part of the suite, from a new seed each time. `./test --long`
/// tries many more.
const HISTORIES: u32 = 64;

/// A test of the suite on one kind of store; fails by panicking.
struct Test {
    name: String,
    run: Box<dyn FnOnce() + Send>,
}

fn tests<S, F>(make: impl Fn() -> F + Send + Sync + 'static) -> Vec<Test>
where
    S: Subject,
    F: Future<Output = S> + Send,
{
    let make = Arc::new(make);
    let mut tests: Vec<Test> = all().into_iter().map(|case| case.on(make.clone())).collect();
    tests.push(Test {
        name: "model::random_histories_match_the_model [all]".to_owned(),
        run: Box::new(move || check_model(&*make, Runs::new(HISTORIES))),
    });
    tests
}

impl Case {
    /// Binds this case to a store that is made for it.
    fn on<S, F>(self, make: Arc<impl Fn() -> F + Send + Sync + 'static>) -> Test
    where
        S: Subject,
        F: Future<Output = S> + Send,
    {
        let name = format!("{} [{}]", self.name, self.promises);
        let run = move || {
            runtime().block_on(async {
                (self.run)(World::of(make().await).await).await;
            });
        };
        Test { name, run: Box::new(run) }
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime can be started")
}
