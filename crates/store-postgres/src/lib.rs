//! Tidelock's store for many processes on many machines: one PostgreSQL database.
//!
//! The commits of a process go through one connection, or two under load, and share transactions
//! where possible (group commit, see `commit`). Reads, leases, heartbeats and notifications have
//! their own connections, so that none of them waits for another. The meaning of a commit is
//! [`tidelock_store::plan`]; `docs/internals/postgres.md` describes the tables for readers with an
//! SQL prompt. A commit and a user's own SQL share a transaction only through
//! [`PostgresStore::begin`].

mod blockers;
mod clock;
mod commit;
mod connect;
mod error;
mod executor;
mod forget;
mod leases;
mod log;
mod migrate;
mod open;
mod pending_commit;
mod read_column;
mod records;
mod statement;
mod sweep;
mod transactions;
mod wake;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock_store::plan::{FairShare, check_names, check_renewal};
use tidelock_store::{
    Adjusted, Adjustment, Capabilities, ChangeHint, Commit, CommitOutcome, FeedPage, FeedQuery,
    HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, ItemRef, LeaseRequest, LeaseToken,
    Leased, RecordKey, RecordPage, RecordQuery, Renewal, Result, RetryAdvice, Slot, Store,
    StoreError, StoreOperation, StreamPage, StreamQuery, Timestamp, Topic, async_trait,
};

use clock::StoreTime;
use commit::Committer;
use connect::{Address, Connector, LazyConnection, Pool, Readers, Session, server_checks};
use leases::ScanHints;
use wake::Wakes;

pub use blockers::{BlockedCommits, BlockedFeed, Blockers, BlockingSession};
pub use connect::SchemaName;
pub use executor::{ExecutorError, SqlExecutor, SqlParameter, SqlQuery, SqlRow};
pub use migrate::SCHEMA_VERSION;
pub use open::{Notify, PostgresOptions, Prepare};
pub use pending_commit::PendingCommit;
pub use tokio_postgres;
pub use transactions::PgTx;

/// Items that an adjustment changes per transaction, so that other writers get a turn.
const ADJUSTED_AT_ONCE: usize = 500;

/// A store in one schema of a PostgreSQL database. Clones are handles to the same connections.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connector: Arc<Connector>,
    time: StoreTime,
    fair_share: FairShare,
    scan_hints: ScanHints,
    wakes: Wakes,
    committer: Committer,
    readers: Readers,
    leases: LazyConnection,
    /// Renewals have their own connection: no lease is lost because other work is held up.
    heartbeats: LazyConnection,
    /// Maintenance may have to wait for a row, and nothing waits behind it.
    maintenance: LazyConnection,
    /// Adjustments repair things, and must not wait for transactions that hang.
    adjusters: Pool,
    transactions: Pool,
    /// Whether commits may be lost in a crash of the server.
    allow_lossy: bool,
    /// Whether anything was written since the clock was last saved.
    used: AtomicBool,
}

impl PostgresStore {
    /// Opens the store at a `postgres://` URL, and migrates its tables.
    ///
    /// # Errors
    /// - `Invalid`: the URL is malformed or has an unknown option; the server refuses the user, the
    ///   password or the database.
    /// - `Incompatible`: the tables are from a newer version of Tidelock, or the server could lose
    ///   acknowledged commits.
    /// - `Unavailable`: the server cannot be reached, or is not ready.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, PostgresOptions::default()).await
    }

    /// Opens the store with options that a URL cannot hold; options in the URL take precedence.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(url: &str, mut options: PostgresOptions) -> Result<Self> {
        let address =
            Address::parse(url, &mut options).map_err(|e| e.during(StoreOperation::Open))?;
        Self::open_at(address, &options).await
    }

    /// Checks a URL, its options and the files that they name, without connecting.
    ///
    /// # Errors
    /// `Invalid`: the URL is malformed, or has an unknown option.
    pub fn check_url(url: &str) -> Result<()> {
        Address::parse(url, &mut PostgresOptions::default()).map(drop)
    }

    async fn open_at(address: Address, options: &PostgresOptions) -> Result<Self> {
        let connector = Arc::new(Connector::new(address, options));
        prepare_database(&connector, options).await.map_err(|e| e.during(StoreOperation::Open))?;
        let wakes = Wakes::start(connector.clone(), options).await;
        let connection = || LazyConnection::new(connector.clone());
        let shared = Arc::new(Shared {
            time: StoreTime::new(options.clock.clone()),
            fair_share: FairShare::default(),
            scan_hints: ScanHints::new(options.clock.clone()),
            committer: Committer::start(connection(), connection(), wakes.clone()),
            wakes,
            readers: Readers::new((0..options.readers).map(|_| connection())),
            leases: connection(),
            heartbeats: connection(),
            maintenance: connection(),
            adjusters: Pool::new(connector.clone(), 1),
            transactions: Pool::new(connector.clone(), options.transactions),
            allow_lossy: options.allow_lossy,
            used: AtomicBool::new(false),
            connector,
        });
        shared
            .time
            .now(&shared.readers.reader())
            .await
            .map_err(|e| e.during(StoreOperation::Open))?;
        tokio::spawn(sweep::maintain(
            Arc::downgrade(&shared),
            options.sweep_interval,
            options.migrate,
        ));
        Ok(Self { shared })
    }
}

/// Checks the server, and migrates or checks the tables.
async fn prepare_database(connector: &Connector, options: &PostgresOptions) -> Result<()> {
    let session = connector.connect().await?;
    let check = connector.in_time(connector.deadline(), server_checks::check(&session, options));
    check.await.map_err(|e| connector.at(e))?;
    // Behind a proxy in transaction mode, a transaction that waits for another connection could
    // keep all of the proxy's.
    if connector.prepare == Prepare::Always {
        let other = connector.connect().await?;
        let seen = server_checks::check_locks_are_seen(&session, &other);
        connector.in_time(connector.deadline(), seen).await.map_err(|e| connector.at(e))?;
    }
    let migrated = if options.migrate {
        migrate::migrate(&session, &connector.schema).await
    } else {
        migrate::check(&session, &connector.schema).await
    };
    migrated.map_err(|e| connector.at(e))
}

impl Shared {
    fn used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    fn check_open(&self, operation: StoreOperation) -> Result<()> {
        if self.connector.is_closed() { Err(error::closed(operation)) } else { Ok(()) }
    }

    /// Runs an operation, unless the store is closed, and names it in its error.
    async fn run<T>(
        &self,
        operation: StoreOperation,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.check_open(operation)?;
        work.await.map_err(|e| e.during(operation))
    }

    /// Adjusts a few items at a time, so that no other transaction waits long for a row.
    async fn adjust_all(&self, filter: ItemFilter, adjustment: &Adjustment) -> Result<Adjusted> {
        let mut total = Adjusted::default();
        // Closed at the end: operators are rare, and a connection of theirs need not be kept.
        let mut own = None;
        let mut query = ItemQuery { filter, after: None, limit: ADJUSTED_AT_ONCE };
        loop {
            let page = leases::list(&self.readers.reader(), &query).await;
            let page = page.map_err(|e| half_done(e, total))?;
            let names: Vec<ItemRef> = page.items.into_iter().map(|item| item.item).collect();
            if !names.is_empty() {
                if own.is_none() {
                    own = Some(self.adjusters.borrow().await.map_err(|e| half_done(e, total))?);
                }
                let session = own.as_ref().expect("it was borrowed").session();
                let adjusted = self.adjust(session, &names, &query.filter, adjustment).await;
                let adjusted = adjusted.map_err(|e| half_done(e, total))?;
                total.matched += adjusted.matched;
                total.changed += adjusted.changed;
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(total),
            }
        }
    }

    async fn adjust(
        &self,
        session: &Session,
        items: &[ItemRef],
        filter: &ItemFilter,
        adjustment: &Adjustment,
    ) -> Result<Adjusted> {
        let (adjusted, topics) = commit::adjust(session, items, filter, adjustment).await?;
        self.wakes.written(topics);
        Ok(adjusted)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.connector.close();
        self.wakes.close();
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("postgres", true, true)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    async fn now(&self) -> Result<Timestamp> {
        let now = async { self.shared.time.now(&self.shared.readers.reader()).await };
        self.shared.run(StoreOperation::Now, now).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.shared.check_open(StoreOperation::Commit)?;
        commit.check().map_err(|e| e.during(StoreOperation::Commit))?;
        self.shared.used();
        self.shared.committer.commit(commit).await.map_err(|e| e.during(StoreOperation::Commit))
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        let read = async {
            query.check()?;
            log::read_stream(&self.shared.readers.reader(), &query).await
        };
        self.shared.run(StoreOperation::ReadStream, read).await
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        let read = async {
            query.check()?;
            log::read_feed(&self.shared.readers.reader(), &query).await
        };
        self.shared.run(StoreOperation::ReadFeed, read).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        let read = async {
            query.check()?;
            log::heads(&self.shared.readers.reader(), query).await
        };
        self.shared.run(StoreOperation::Heads, read).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        let read = async {
            check_names(keys.len())?;
            records::get(&self.shared.readers.reader(), keys).await
        };
        self.shared.run(StoreOperation::Get, read).await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        let read = async {
            query.check()?;
            records::scan(&self.shared.readers.reader(), &query).await
        };
        self.shared.run(StoreOperation::Scan, read).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        let Shared { leases, fair_share, scan_hints, .. } = &*self.shared;
        let lease = async {
            request.check()?;
            let leased = leases::lease(leases, &request, fair_share, scan_hints).await;
            self.shared.used();
            leased.map_err(|e| self.shared.connector.at(e))
        };
        self.shared.run(StoreOperation::Lease, lease).await
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        let renew = async {
            check_renewal(leases, duration)?;
            self.shared.used();
            leases::renew(&self.shared.heartbeats, leases, duration).await
        };
        self.shared.run(StoreOperation::Renew, renew).await
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        let list = async {
            query.check()?;
            leases::list(&self.shared.readers.reader(), &query).await
        };
        self.shared.run(StoreOperation::Items, list).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        let adjust = async {
            filter.check()?;
            adjustment.check()?;
            self.shared.adjust_all(filter, &adjustment).await
        };
        self.shared.run(StoreOperation::Adjust, adjust).await
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        self.shared.wakes.signal(topic)
    }

    async fn close(&self) -> Result<()> {
        self.shared.committer.close().await;
        self.shared.connector.close();
        self.shared.adjusters.close();
        self.shared.transactions.close();
        let others = [&self.shared.leases, &self.shared.heartbeats, &self.shared.maintenance];
        self.shared.readers.connections().chain(others).for_each(LazyConnection::drop_session);
        self.shared.wakes.close();
        Ok(())
    }
}

/// An adjustment that failed, perhaps after some items were changed.
fn half_done(error: StoreError, total: Adjusted) -> StoreError {
    if total.changed == 0 {
        return error;
    }
    error.about("some items were adjusted, then").advising(RetryAdvice::Unknown)
}
