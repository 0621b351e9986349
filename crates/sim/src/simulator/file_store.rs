//! The SQLite store in a simulation: a real file, on which every call happens at one virtual
//! moment.
//!
//! The simulation's one thread waits for each call, so that the threads of the store decide nothing
//! about its order, and shows them a calendar that stands still meanwhile.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tempfile::TempDir;
use tidelock::Timestamp;
use tidelock::sqlite::{SqliteOptions, SqliteStore};
use tidelock::store::{
    Adjusted, Adjustment, Capabilities, ChangeHint, ChangeHints, Clock, Commit, CommitOutcome,
    FeedPage, FeedQuery, HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, LeaseRequest,
    LeaseToken, Leased, RecordKey, RecordPage, RecordQuery, Renewal, Result, Slot, Store,
    StreamPage, StreamQuery, Topic, async_trait,
};
use tokio::task::unconstrained;

use super::clock::SimulatedClock;

/// A store in a temporary file.
#[derive(Debug)]
pub(crate) struct FileStore {
    calendar: Arc<SimulatedClock>,
    shown: Arc<ShownClock>,
    folder: TempDir,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    store: SqliteStore,
    /// How often the file was replaced by its backup.
    restored: u64,
}

/// The calendar as the threads of the store see it.
#[derive(Debug)]
struct ShownClock(Mutex<(Timestamp, Duration)>);

impl FileStore {
    pub(crate) fn new(calendar: Arc<SimulatedClock>) -> Self {
        let folder = temporary_folder().expect("the machine has a folder for temporary files");
        let shown = Arc::new(ShownClock(Mutex::new((calendar.wall(), calendar.elapsed()))));
        let store = open(&folder, 0, &shown);
        Self { calendar, shown, folder, open: Mutex::new(Open { store, restored: 0 }) }
    }

    /// The time of the store's own clock.
    pub(crate) fn time(&self) -> Timestamp {
        at_once(self.store().now()).expect("an open file tells its time")
    }

    /// Closes the file, and opens it again.
    pub(crate) fn restart(&self) {
        at_once(self.store().close()).expect("a file that is in order can be closed");
        let mut now = self.lock();
        now.store = open(&self.folder, now.restored, &self.shown);
    }

    /// Closes the file, and opens a backup of it in its place, which begins an epoch.
    pub(crate) fn restore(&self) {
        at_once(self.store().close()).expect("a file that is in order can be closed");
        let mut now = self.lock();
        let (from, to) = (name(&self.folder, now.restored), name(&self.folder, now.restored + 1));
        SqliteStore::back_up_file(&from, &to, &SqliteOptions::default())
            .expect("a file that is in order can be backed up");
        std::fs::remove_file(from).expect("the old file can be removed");
        now.restored += 1;
        now.store = open(&self.folder, now.restored, &self.shown);
    }

    /// The store, at this moment.
    fn store(&self) -> SqliteStore {
        *self.shown.lock() = (self.calendar.wall(), self.calendar.elapsed());
        self.lock().store.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In memory where that can be, because there a flush takes no time; what flushes keep is tested on
/// a disk that fails.
fn temporary_folder() -> io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

fn name(folder: &TempDir, restored: u64) -> PathBuf {
    folder.path().join(format!("store-{restored}.db"))
}

fn open(folder: &TempDir, restored: u64, shown: &Arc<ShownClock>) -> SqliteStore {
    let options = SqliteOptions {
        // By real time. Every commit sweeps, too.
        sweep_interval: Duration::from_secs(86_400),
        restored: restored > 0,
        clock: shown.clone(),
        ..SqliteOptions::default()
    };
    SqliteStore::open(name(folder, restored), &options).expect("a temporary file can be opened")
}

impl ShownClock {
    fn lock(&self) -> MutexGuard<'_, (Timestamp, Duration)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ShownClock {
    fn wall(&self) -> Timestamp {
        self.lock().0
    }

    fn elapsed(&self) -> Duration {
        self.lock().1
    }
}

/// Waits for a call, and lets no other task run meanwhile.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    // The runtime would have it yield to tasks that do not run before it is over.
    let mut call = pin!(unconstrained(call));
    loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

#[async_trait]
impl Store for FileStore {
    fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }

    async fn now(&self) -> Result<Timestamp> {
        at_once(self.store().now())
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        at_once(self.store().commit(commit))
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        at_once(self.store().read_stream(query))
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        at_once(self.store().read_feed(query))
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        at_once(self.store().heads(query))
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        at_once(self.store().get(keys))
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        at_once(self.store().scan(query))
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        at_once(self.store().lease(request))
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        at_once(self.store().renew(leases, duration))
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        at_once(self.store().items(query))
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        at_once(self.store().adjust(filter, adjustment))
    }

    /// Never comes: the world has the change hints.
    fn signal(&self, topic: Topic) -> ChangeHint {
        ChangeHints::default().signal(topic)
    }

    async fn close(&self) -> Result<()> {
        at_once(self.store().close())
    }
}
