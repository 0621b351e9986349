//! Tidelock's embedded store: one SQLite file, several processes on one machine.
//!
//! All writes go through a single writer connection and share transactions where possible (group
//! commit, see `writer`). Reads have their own connections. The meaning of a commit is
//! [`tidelock_store::plan`]; this crate stores its rows, and `docs/internals/sqlite.md` describes
//! them for readers with an SQL prompt. No type of rusqlite is public, so that a program may link
//! another version of it. A commit and a user's own SQL share a transaction only through
//! [`SqliteStore::commit_with`].

mod backup;
mod busy_backoff;
mod checkpoint;
mod commit;
mod cost;
mod error;
mod file;
mod group_stats;
mod identity;
mod job;
mod leases;
mod log;
mod migrate;
mod open;
mod reader;
mod records;
mod statements;
mod sweep;
mod vacuum;
mod wake;
mod write_connection;
mod writer;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidelock_store::plan::{FairShare, ReadRows, check_names, check_renewal};
use tidelock_store::{
    Adjusted, Adjustment, Capabilities, ChangeHint, ChangeHints, Commit, CommitOutcome, FeedPage,
    FeedQuery, HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken,
    Leased, RecordKey, RecordPage, RecordQuery, Renewal, Result, RetryAdvice, Slot, Store,
    StoreClock, StoreError, StoreOperation, StreamPage, StreamQuery, Timestamp, Topic, async_trait,
};
use tokio::sync::oneshot;

use checkpoint::Checkpoints;
use file::StoreFile;
use reader::Readers;
use wake::Watch;
use write_connection::WriteConnection;
use writer::Writer;

pub use backup::Backup;
pub use migrate::SCHEMA_VERSION;
pub use open::SqliteOptions;
pub use statements::{SqlOutcome, SqlRead, SqlStatement, Value};

/// Rows of each kind that an explicit sweep removes per transaction.
const SWEPT_AT_ONCE: usize = 500;

/// A store in one SQLite file. Clones are handles to the same connections.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: Arc<StoreFile>,
    clock: Arc<StoreClock>,
    fair_share: Arc<FairShare>,
    signals: ChangeHints,
    writer: Arc<Writer>,
    readers: Readers,
    /// Declared after the writer: it is woken when it is dropped, and ends if the writer is gone by
    /// then.
    watch: Watch,
}

impl SqliteStore {
    /// Opens or creates a file, and migrates it. Blocks meanwhile.
    ///
    /// # Errors
    /// - `Invalid`: the path is a folder, or in a folder that does not exist, or on a network file
    ///   system.
    /// - `Incompatible`: it is no SQLite file, or one from a newer version of Tidelock.
    /// - `Unavailable`: another process has it locked for longer than the busy timeout.
    pub fn open(path: impl AsRef<Path>, options: &SqliteOptions) -> Result<Self> {
        let path = path.as_ref();
        Self::open_checked(path, options)
            .map_err(|e| e.about(path.display()).during(StoreOperation::Open))
    }

    fn open_checked(path: &Path, options: &SqliteOptions) -> Result<Self> {
        open::check_library(rusqlite::version_number())?;
        file::check_place(path)?;
        if !options.migrate {
            // Before any change to a file that may belong to another program.
            migrate::check_applied(&open::reader(path, options)?)?;
        }
        let clock = Arc::new(StoreClock::new(options.clock.clone()));
        let mut connection = open::writer(path, options)?;
        migrate::migrate(&mut connection, clock.now())?;
        clock.at_least(write_connection::saved_clock(&connection)?);
        let file = Arc::new(StoreFile::opened(path)?);
        let signals = ChangeHints::default();
        let checkpoints = Checkpoints::start(open::writer(path, options)?)?;
        let readers =
            (0..options.readers).map(|_| open::reader(path, options)).collect::<Result<_>>()?;
        let mut write_connection = WriteConnection::new(
            connection,
            file.clone(),
            clock.clone(),
            signals.clone(),
            checkpoints,
            options,
        )?;
        if options.restored {
            write_connection.begin_epoch()?;
        }
        let writer = Arc::new(Writer::start(
            write_connection,
            options.callers_may_write,
            options.sweep_interval,
        )?);
        let watch = Watch::start(&writer, signals.clone(), options.watch_interval)?;
        let readers = Readers::start(readers)?;
        let fair_share = Arc::default();
        Ok(Self {
            shared: Arc::new(Shared { file, clock, fair_share, signals, writer, readers, watch }),
        })
    }

    /// Removes everything past its retention now, and returns free pages of the file to the file
    /// system until at most half of it, or 4 MiB, is free. Otherwise a little of this happens with
    /// every write, and every few seconds.
    ///
    /// Other writers get a turn in between. The file becomes shorter at a checkpoint, at the latest
    /// when the last process closes it.
    ///
    /// # Errors
    /// As [`Store::commit`]; what was removed before stays removed.
    pub async fn sweep(&self) -> Result<()> {
        self.check_process(StoreOperation::Commit)?;
        let some = |tx: &mut commit::Transaction<'_>| tx.sweep(SWEPT_AT_ONCE);
        while self.shared.writer.write(StoreOperation::Commit, some).await? {}
        let pages = |tx: &mut commit::Transaction<'_>| vacuum::release_pages(tx.connection);
        while self.shared.writer.write(StoreOperation::Commit, pages).await? {}
        Ok(())
    }

    /// Copies the store to a new file, while it is in use, and verifies the copy.
    ///
    /// The copy is of one moment after the call began. It gets its name once SQLite finds it whole,
    /// its tables are those of this store and it ends where the store was at that moment; until
    /// then it is beside it, with the ending `.partial`. Writers go on meanwhile, and the log grows
    /// by what they write. To restore, put it in the place of the file and open it with
    /// [`SqliteOptions::restored`].
    ///
    /// # Errors
    /// - `Invalid`: something has that name already, or the folder does not exist. Nothing is ever
    ///   overwritten.
    /// - `Corrupt`: this file is damaged, or the copy is not what it should be.
    /// - As [`Store::commit`]. No file is left behind.
    ///
    /// # Cancel safety
    /// Dropped, it goes on by itself.
    pub async fn backup(&self, to: impl Into<PathBuf>) -> Result<Backup> {
        self.check_process(StoreOperation::Open)?;
        let (from, to) = (self.shared.file.path().to_owned(), to.into());
        let (reply, answer) = oneshot::channel();
        let back_up = move || reply.send(Self::back_up_file(from, to, &SqliteOptions::default()));
        thread::Builder::new().name("tidelock-backup".into()).spawn(back_up).map_err(|e| {
            StoreError::invalid("a thread for the backup cannot be started").caused_by(e)
        })?;
        answer.await.map_err(|_| error::closed(StoreOperation::Open))?
    }

    /// Copies the store in a file to a new file, as [`backup`](Self::backup) does, without opening
    /// it: its tables need not be up to date, so it can be done before an upgrade. Blocks.
    ///
    /// # Errors
    /// As [`backup`](Self::backup); and `Incompatible` if it is no store, or one that this version
    /// does not work with.
    pub fn back_up_file(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &SqliteOptions,
    ) -> Result<Backup> {
        backup::back_up(from.as_ref(), to.as_ref(), options)
            .map_err(|e| e.during(StoreOperation::Open))
    }

    fn check_process(&self, operation: StoreOperation) -> Result<()> {
        self.shared.file.is_not_forked(operation)
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("sqlite", true, true)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    async fn now(&self) -> Result<Timestamp> {
        self.shared.readers.check_open(StoreOperation::Now)?;
        Ok(self.shared.clock.now())
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.check_process(StoreOperation::Commit)?;
        commit.check().map_err(|e| e.during(StoreOperation::Commit))?;
        self.shared
            .writer
            .write(StoreOperation::Commit, move |tx| commit::commit(tx, &commit))
            .await
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.check_process(StoreOperation::ReadStream)?;
        query.check().map_err(|e| e.during(StoreOperation::ReadStream))?;
        self.shared
            .readers
            .read(StoreOperation::ReadStream, move |reader| log::read_stream(reader, &query))
            .await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.check_process(StoreOperation::ReadFeed)?;
        query.check().map_err(|e| e.during(StoreOperation::ReadFeed))?;
        self.shared
            .readers
            .read(StoreOperation::ReadFeed, move |reader| log::read_feed(reader, &query))
            .await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.check_process(StoreOperation::Heads)?;
        query.check().map_err(|e| e.during(StoreOperation::Heads))?;
        self.shared
            .readers
            .read(StoreOperation::Heads, move |reader| log::heads(reader, query))
            .await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.check_process(StoreOperation::Get)?;
        check_names(keys.len()).map_err(|e| e.during(StoreOperation::Get))?;
        let (keys, clock) = (keys.to_vec(), self.shared.clock.clone());
        self.shared
            .readers
            .read(StoreOperation::Get, move |reader| records::get(reader, &keys, clock.now()))
            .await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.check_process(StoreOperation::Scan)?;
        query.check().map_err(|e| e.during(StoreOperation::Scan))?;
        let clock = self.shared.clock.clone();
        self.shared
            .readers
            .read(StoreOperation::Scan, move |reader| records::scan(reader, &query, clock.now()))
            .await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.check_process(StoreOperation::Lease)?;
        request.check().map_err(|e| e.during(StoreOperation::Lease))?;
        let fair_share = self.shared.fair_share.clone();
        let lease = move |tx: &mut commit::Transaction<'_>| {
            let floor = tx.floors()?.fence;
            leases::lease(tx.connection, &request, &fair_share, tx.now, floor)
        };
        self.shared.writer.write(StoreOperation::Lease, lease).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.check_process(StoreOperation::Renew)?;
        check_renewal(leases, duration).map_err(|e| e.during(StoreOperation::Renew))?;
        let tokens = leases.to_vec();
        let renew = move |tx: &mut commit::Transaction<'_>| {
            tokens
                .iter()
                .map(|token| leases::renew(tx.connection, token, duration, tx.now))
                .collect()
        };
        self.shared.writer.write(StoreOperation::Renew, renew).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.check_process(StoreOperation::Items)?;
        query.check().map_err(|e| e.during(StoreOperation::Items))?;
        self.shared
            .readers
            .read(StoreOperation::Items, move |reader| leases::list(reader, &query))
            .await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.check_process(StoreOperation::Adjust)?;
        filter.check().map_err(|e| e.during(StoreOperation::Adjust))?;
        adjustment.check().map_err(|e| e.during(StoreOperation::Adjust))?;
        let mut total = Adjusted::default();
        let mut after = None;
        // A few rows at a time, so that other writers get a turn.
        loop {
            let (filter, adjustment) = (filter.clone(), adjustment.clone());
            let some = move |tx: &mut commit::Transaction<'_>| {
                leases::adjust_some(tx.connection, &filter, &adjustment, after, tx.now)
            };
            let written = self.shared.writer.write(StoreOperation::Adjust, some).await;
            let (adjusted, topics, next) =
                written.map_err(|e| if total.changed > 0 { half_done(e) } else { e })?;
            total.matched += adjusted.matched;
            total.changed += adjusted.changed;
            self.shared.signals.notify(&topics);
            match next {
                Some(_) => after = next,
                None => return Ok(total),
            }
        }
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        let signal = self.shared.signals.signal(topic);
        self.shared.watch.wake();
        signal
    }

    async fn close(&self) -> Result<()> {
        self.check_process(StoreOperation::Open)?;
        self.shared.readers.close().await;
        let closed = self.shared.writer.close().await;
        self.shared.signals.notify_all();
        closed
    }
}

/// An adjustment that failed after some items were changed.
fn half_done(error: StoreError) -> StoreError {
    error.about("some items were adjusted, then").advising(RetryAdvice::Unknown)
}
