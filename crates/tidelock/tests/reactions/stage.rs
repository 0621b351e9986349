//! Where a case plays: a store, handles on it, and applications that run on it.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tidelock::prelude::*;
use tidelock::reactions::{AppBuilder, Followed};
use tidelock::worker::{Pace, Stopped, WorkerOptions};
use tidelock::{Clock, MemoryStore, StoredEvent, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Against hanging only; no test is slower for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How often a fact is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// A store that several handles can be had on.
pub(crate) struct Stage {
    place: Place,
}

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

impl Stage {
    pub(crate) fn memory() -> Self {
        let clock = RuntimeClock { began: Instant::now() };
        Self { place: Place::Memory(Arc::new(MemoryStore::with_clock(Arc::new(clock)))) }
    }

    pub(crate) fn sqlite() -> Self {
        Self { place: Place::Sqlite(tempfile::tempdir().unwrap()) }
    }

    pub(crate) fn postgres() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::SeqCst);
        let url = tidelock_test_postgres::shared_url().unwrap();
        Self { place: Place::Postgres(format!("{url}?schema=reactions_{}_{nth}", std::process::id())) }
    }

    /// Whether time passes by itself and costs nothing.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }

    pub(crate) fn url(&self) -> Option<String> {
        match &self.place {
            Place::Memory(_) => None,
            Place::Sqlite(folder) => Some(format!("sqlite:{}", folder.path().join("store.db").display())),
            Place::Postgres(url) => Some(url.clone()),
        }
    }

    /// A handle with connections of its own, as another process has them.
    pub(crate) async fn tidelock(&self) -> Tidelock {
        match (&self.place, self.url()) {
            (Place::Memory(store), _) => Tidelock::over(store.clone()),
            (_, Some(url)) => Tidelock::open(&url).await.unwrap(),
            (_, None) => unreachable!("only memory has no URL"),
        }
    }
}

/// Quick polls, so that a test on real time does not wait for a lost hint, and a name to be known by.
pub(crate) fn brisk(name: &str) -> WorkerOptions {
    let pace = Pace { least: Duration::from_millis(50), per_queue: Duration::ZERO };
    let mut options = WorkerOptions::new(WorkerName::new(name).unwrap());
    (options.pace, options.grace, options.patience) = (pace, Duration::from_millis(50), PATIENCE);
    options
}

/// An application in the background, stopped when it goes away.
pub(crate) struct Running {
    stop: CancellationToken,
    ended: Option<JoinHandle<Stopped>>,
}

impl Running {
    pub(crate) fn start(app: AppBuilder) -> Self {
        let app = app.build().unwrap();
        let stop = CancellationToken::new();
        let shutdown = stop.clone().cancelled_owned();
        let ended = tokio::spawn(async move { app.run_until(shutdown).await.unwrap() });
        Self { stop, ended: Some(ended) }
    }

    /// Begins the shutdown.
    pub(crate) fn tell(&self) {
        self.stop.cancel();
    }

    /// Waits for the end.
    pub(crate) async fn stop(mut self) -> Stopped {
        self.tell();
        let ended = self.ended.take().unwrap();
        tokio::time::timeout(PATIENCE, ended).await.expect("the application ends").unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What handlers saw, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Seen {
    pub(crate) fn note(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    pub(crate) async fn until(&self, count: usize) {
        until(&format!("{count} were seen, of {:?}", self.lines()), async || self.count() >= count).await;
    }
}

/// Looks until this is so. `what` completes the sentence "waited in vain until …".
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(GLANCE).await;
    }
}

/// An event of type `noted` in a stream.
pub(crate) async fn note(tidelock: &Tidelock, stream: &str, text: &str) -> StoredEvent {
    append(tidelock, stream, "noted", &json!({ "text": text })).await
}

pub(crate) async fn append(
    tidelock: &Tidelock,
    stream: &str,
    event_type: &str,
    payload: &serde_json::Value,
) -> StoredEvent {
    let stream = StreamName::new(stream).unwrap();
    let event = NewEvent::of(event_type, payload).unwrap();
    let store = tidelock.store();
    let outcome = store.append(&stream, ExpectedVersion::Any, vec![event]).await.unwrap();
    let version = outcome.committed().unwrap().appends[0].version;
    let page = store.read_stream(StreamQuery::forward(&stream).from(version).limit(1)).await.unwrap();
    page.events.into_iter().next().unwrap()
}

/// The text of an event of type `noted`.
pub(crate) fn text(event: &StoredEvent) -> String {
    event.payload.to::<serde_json::Value>().unwrap()["text"].as_str().unwrap_or("?").to_owned()
}

/// One target, as operators see it.
pub(crate) async fn target(tidelock: &Tidelock, reaction: &str, target: &str) -> Option<Followed> {
    tidelock.reactions().target(reaction, target).await.unwrap()
}

/// Waits until a target is blocked.
pub(crate) async fn until_blocked(tidelock: &Tidelock, reaction: &str, name: &str) -> Followed {
    let blocked = async || target(tidelock, reaction, name).await.is_some_and(|target| target.blocked);
    until(&format!("{reaction} of {name} is blocked"), blocked).await;
    target(tidelock, reaction, name).await.unwrap()
}

/// Waits until all targets of a reaction have nothing to do.
pub(crate) async fn until_quiet(tidelock: &Tidelock, reaction: &str) {
    let filter = ReactionFilter::named(reaction);
    let quiet = async || {
        let listed = tidelock.reactions().list(&filter).await.unwrap();
        listed.iter().all(|target| target.lag() == 0 && target.holder.is_none())
    };
    until(&format!("{reaction} is quiet"), quiet).await;
}

/// Runs a case with simulated time.
pub(crate) fn in_memory<F: Future<Output = ()>>(case: impl FnOnce(Stage) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async { case(Stage::memory()).await });
}

/// Runs a case on this stage, in real time.
pub(crate) fn for_real<F: Future<Output = ()>>(stage: Stage, case: impl FnOnce(Stage) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(case(stage));
}

/// Makes three tests of each case.
macro_rules! on_every_store {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $case() { crate::stage::in_memory(super::$case); })*
        }
        mod sqlite {
            $(#[test] fn $case() { crate::stage::for_real(crate::stage::Stage::sqlite(), super::$case); })*
        }
        mod postgres {
            $(#[test] fn $case() { crate::stage::for_real(crate::stage::Stage::postgres(), super::$case); })*
        }
    };
}
pub(crate) use on_every_store;
