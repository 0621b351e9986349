//! The SQLite store in a simulation: a real file, on which every call happens at one virtual
//! moment.
//!
//! The simulation's one thread waits for each call, so that the threads of the store decide nothing
//! about its order, and shows them a calendar that stands still meanwhile.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
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
    LeaseToken, Leased, RecordKey, RecordPage, RecordQuery, Renewal, Result, RetryAdvice, Slot,
    Store, StoreError, StoreErrorKind, StoreOperation, StreamPage, StreamQuery, Topic, async_trait,
};
use tokio::task::unconstrained;

use super::clock::SimulatedClock;
use super::power::{FOLDER, Power};
use super::rng::Rng;

/// A store in a temporary file.
#[derive(Debug)]
pub(crate) struct FileStore {
    calendar: Arc<SimulatedClock>,
    shown: Arc<ShownClock>,
    folder: TempDir,
    open: Mutex<Open>,
    power: Option<Mutex<Power>>,
}

#[derive(Debug)]
struct Open {
    store: SqliteStore,
    folder: PathBuf,
    /// How often the power was lost.
    lost: u64,
    /// How often the file was replaced by its backup.
    restored: u64,
}

/// The calendar as the threads of the store see it.
#[derive(Debug)]
struct ShownClock(Mutex<(Timestamp, Duration)>);

impl FileStore {
    pub(crate) fn new(calendar: Arc<SimulatedClock>, rng: Rng, is_careless: bool) -> Self {
        let folder = temporary_folder().expect("the machine has a folder for temporary files");
        let path = folder.path().canonicalize().expect("the folder is there");
        let power = Power::below(&path, rng, is_careless).map(Mutex::new);
        let shown = Arc::new(ShownClock(Mutex::new((calendar.wall(), calendar.elapsed()))));
        let store = open(&path, 0, &shown);
        let open = Mutex::new(Open { store, folder: path, lost: 0, restored: 0 });
        Self { calendar, shown, folder, open, power }
    }

    /// The time of the store's own clock.
    pub(crate) fn time(&self) -> Timestamp {
        at_once(self.store().now()).expect("an open file tells its time")
    }

    /// Closes the file, and opens it again.
    pub(crate) fn restart(&self) {
        at_once(self.store().close()).expect("a file that is in order can be closed");
        let mut now = self.lock();
        now.store = open(&now.folder, now.restored, &self.shown);
    }

    /// Closes the file, and opens a backup of it in its place, which begins an epoch.
    pub(crate) fn restore(&self) {
        at_once(self.store().close()).expect("a file that is in order can be closed");
        let mut now = self.lock();
        let (from, to) = (name(&now.folder, now.restored), name(&now.folder, now.restored + 1));
        SqliteStore::back_up_file(&from, &to, &SqliteOptions::default())
            .expect("a file that is in order can be backed up");
        std::fs::remove_file(from).expect("the old file can be removed");
        now.restored += 1;
        now.store = open(&now.folder, now.restored, &self.shown);
    }

    /// The power fails, now or in the middle of one of the next commits. Without a disk whose power
    /// can fail, the file is closed and opened again.
    pub(crate) fn lose_power(&self, soon: bool) {
        match (&self.power, soon) {
            (None, _) => self.restart(),
            (Some(power), true) => lock(power).fail_soon(),
            (Some(power), false) => self.fail(power, false),
        }
    }

    fn fail(&self, power: &Mutex<Power>, amid: bool) {
        let mut now = self.lock();
        now.lost += 1;
        now.folder = self.folder.path().join(format!("disk-{}", now.lost));
        lock(power).fail(amid, &now.folder).expect("the disk of the machine is in order");
        now.store = open(&now.folder, now.restored, &self.shown);
    }

    /// The store, at this moment.
    fn store(&self) -> SqliteStore {
        *self.shown.lock() = (self.calendar.wall(), self.calendar.elapsed());
        self.lock().store.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In memory where that can be, because there a flush takes no time.
fn temporary_folder() -> io::Result<TempDir> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return tempfile::tempdir_in(folder);
    }
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

fn name(folder: &Path, restored: u64) -> PathBuf {
    folder.join(format!("store-{restored}.db"))
}

fn open(folder: &Path, restored: u64, shown: &Arc<ShownClock>) -> SqliteStore {
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
        lock(&self.0)
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
        let Some(power) = self.power.as_ref().filter(|power| lock(power).fails_now()) else {
            return at_once(self.store().commit(commit));
        };
        let _never_heard = at_once(self.store().commit(commit));
        self.fail(power, true);
        let (kind, advice) = (StoreErrorKind::Unavailable, RetryAdvice::Unknown);
        Err(StoreError::new(kind, advice, StoreOperation::Commit, "the power failed"))
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
