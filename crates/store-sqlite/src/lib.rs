//! Tidelock's embedded store: one SQLite file, several processes on one machine.
//!
//! All writes go through one connection, the `pen`, and share transactions where they can (see
//! `writer`); reads have connections of their own. The meaning of a commit is
//! [`tidelock_store::plan`]: this crate is a place to keep its rows, described for people with a
//! SQL prompt in `docs/internals/sqlite.md`. No type of rusqlite is public, so that a program may
//! link another version of it. The one way in which a commit and a user's own SQL share a
//! transaction is [`SqliteStore::commit_with`].

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
mod room;
mod statements;
mod sweep;
mod wake;
mod write_connection;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::plan::{FairShare, Rows, check_names, check_renewal};
use tidelock_store::{
    Adjusted, Adjustment, Capabilities, ChangeHint, ChangeHints, Commit, CommitOutcome, FeedPage,
    FeedQuery, HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken,
    Leased, RecordKey, RecordPage, RecordQuery, Renewal, Result, RetryAdvice, Slot, Store,
    StoreClock, StoreError, StoreOperation, StreamPage, StreamQuery, Timestamp, Topic, async_trait,
};

use checkpoint::Checkpoints;
use file::StoreFile;
use reader::Readers;
use wake::Watch;
use write_connection::WriteConnection;
use writer::Writer;

pub use migrate::SCHEMA_VERSION;
pub use open::SqliteOptions;
pub use statements::{SqlStatement, Value};

/// How many rows of each kind leave in one transaction when they are swept at once.
const SWEPT_AT_ONCE: usize = 500;

/// A store in one SQLite file. Clones are handles on the same connections.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: Arc<StoreFile>,
    clock: Arc<StoreClock>,
    turns: Arc<FairShare>,
    signals: ChangeHints,
    writer: Arc<Writer>,
    readers: Readers,
    /// Declared after the writer: it is woken when it is dropped, and ends if the writer is gone by
    /// then.
    watch: Watch,
}

impl SqliteStore {
    /// Opens a file, or creates it, and brings it up to date. Blocks while it does.
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
            // Before anything is done to a file that may be somebody else's.
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
        let mut pen = WriteConnection::new(
            connection,
            file.clone(),
            clock.clone(),
            signals.clone(),
            checkpoints,
            options,
        )?;
        if options.restored {
            pen.begin_epoch()?;
        }
        let writer =
            Arc::new(Writer::start(pen, options.callers_may_write, options.sweep_interval)?);
        let watch = Watch::start(&writer, signals.clone(), options.watch_interval)?;
        let readers = Readers::start(readers)?;
        let turns = Arc::default();
        Ok(Self {
            shared: Arc::new(Shared { file, clock, turns, signals, writer, readers, watch }),
        })
    }

    /// Removes everything that is past its retention now, and gives free pages of the file back
    /// until no more than half of it is free, or 4 MiB. Without this, a little of it happens with
    /// what is written, and every few seconds.
    ///
    /// Others can write in between. The file becomes shorter when its log is moved into it, at the
    /// latest when the last process closes it.
    ///
    /// # Errors
    /// As [`Store::commit`]; what was removed before stays removed.
    pub async fn sweep(&self) -> Result<()> {
        self.check_process(StoreOperation::Commit)?;
        let some = |tx: &mut commit::Transaction<'_>| tx.sweep(SWEPT_AT_ONCE);
        while self.shared.writer.write(StoreOperation::Commit, some).await? {}
        let room = |tx: &mut commit::Transaction<'_>| room::give_back(tx.connection);
        while self.shared.writer.write(StoreOperation::Commit, room).await? {}
        Ok(())
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
        let turns = self.shared.turns.clone();
        let lease = move |tx: &mut commit::Transaction<'_>| {
            let floor = tx.floors()?.fence;
            leases::lease(tx.connection, &request, &turns, tx.now, floor)
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
        // A few at a time, so that others can write in between.
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

/// An adjustment that failed after some of its items were changed.
fn half_done(error: StoreError) -> StoreError {
    error.about("some items were adjusted, then").advising(RetryAdvice::Unknown)
}
