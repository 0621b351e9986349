//! Tidelock's store for many processes on many machines: one PostgreSQL database.
//!
//! The commits of a process go through one connection, or two under load, and share transactions
//! where they can (see `committer`); reads, leases, heartbeats and notifications have connections
//! of their own, so that none of them waits for another. The meaning of a commit is
//! [`tidelock_store::plan`]; the tables are described for people with a SQL prompt in
//! `docs/internals/postgres.md`. The one way in which a commit and a user's own SQL share a
//! transaction is [`PostgresStore::begin`].

mod address;
mod append;
mod blockers;
mod clock;
mod commit;
mod committer;
mod connector;
mod error;
mod failures;
mod forget;
mod identity;
mod lazy_connection;
mod leases;
mod log;
mod migrate;
mod open;
mod pool;
mod readers;
mod records;
mod schema_name;
mod server;
mod session;
mod setting;
mod statement;
mod sweep;
mod tls;
mod transactions;
mod wake;
mod write;

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

use address::Address;
use clock::StoreTime;
use committer::Committer;
use connector::Connector;
use lazy_connection::LazyConnection;
use leases::ScanHints;
use pool::Pool;
use readers::Readers;
use wake::Wakes;

pub use blockers::{BlockedCommits, BlockedFeed, Blockers, BlockingSession};
pub use migrate::SCHEMA_VERSION;
pub use open::{Notify, PostgresOptions, Prepare};
pub use schema_name::SchemaName;
pub use tokio_postgres;
pub use transactions::PgTx;

/// How many items an adjustment changes before others get their turn.
const ADJUSTED_AT_ONCE: usize = 500;

/// A store in one schema of a PostgreSQL database. Clones are handles on the same connections.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    place: Arc<Connector>,
    time: StoreTime,
    turns: FairShare,
    fronts: ScanHints,
    wakes: Wakes,
    committer: Committer,
    readers: Readers,
    leases: LazyConnection,
    /// Renewals have a connection to themselves: whatever holds up the others, no lease is lost for
    /// want of one.
    heartbeats: LazyConnection,
    /// What the store does by itself may have to wait for a row, and nobody waits behind it.
    housekeeping: LazyConnection,
    /// Whoever adjusts items does it to mend something, and must not wait for transactions that
    /// hang.
    adjusters: Pool,
    door: Pool,
    /// Whether anything was written since the clock was last written down.
    used: AtomicBool,
}

impl PostgresStore {
    /// Opens the store at a `postgres://` URL, and brings its tables up to date.
    ///
    /// # Errors
    /// - `Invalid`: the URL is not one, or names an option that is not known; the server refuses
    ///   the name, the password or the database.
    /// - `Incompatible`: the tables are from a newer version of Tidelock, or the server could lose
    ///   what it acknowledged.
    /// - `Unavailable`: the server cannot be reached, or is not ready.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, PostgresOptions::default()).await
    }

    /// The same, with options that a URL cannot hold; those that it does hold count for more.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(url: &str, mut options: PostgresOptions) -> Result<Self> {
        let address =
            Address::parse(url, &mut options).map_err(|e| e.during(StoreOperation::Open))?;
        Self::open_at(address, &options).await
    }

    async fn open_at(address: Address, options: &PostgresOptions) -> Result<Self> {
        let place = Arc::new(Connector::new(address, options));
        prepare_place(&place, options).await.map_err(|e| e.during(StoreOperation::Open))?;
        let wakes = Wakes::start(place.clone(), options).await;
        let link = || LazyConnection::new(place.clone());
        let shared = Arc::new(Shared {
            time: StoreTime::new(options.clock.clone()),
            turns: FairShare::default(),
            fronts: ScanHints::new(options.clock.clone()),
            committer: Committer::start(link(), link(), wakes.clone()),
            wakes,
            readers: Readers::new((0..options.readers).map(|_| link())),
            leases: link(),
            heartbeats: link(),
            housekeeping: link(),
            adjusters: Pool::new(place.clone(), 1),
            door: Pool::new(place.clone(), options.door),
            used: AtomicBool::new(false),
            place,
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

/// Looks at the server, and makes or checks the tables.
async fn prepare_place(place: &Connector, options: &PostgresOptions) -> Result<()> {
    let session = place.connect().await?;
    let check = place.in_time(place.deadline(), server::check(&session, options));
    check.await.map_err(|e| place.at(e))?;
    let migrated = if options.migrate {
        migrate::migrate(&session, &place.schema).await
    } else {
        migrate::check(&session, &place.schema).await
    };
    migrated.map_err(|e| place.at(e))
}

impl Shared {
    fn used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    fn check_open(&self, operation: StoreOperation) -> Result<()> {
        if self.place.is_closed() { Err(error::closed(operation)) } else { Ok(()) }
    }

    async fn adjust(
        &self,
        items: &[ItemRef],
        filter: &ItemFilter,
        adjustment: &Adjustment,
    ) -> Result<Adjusted> {
        let borrowed = self.adjusters.borrow().await?;
        let (adjusted, topics) =
            commit::adjust(borrowed.session(), items, filter, adjustment).await?;
        borrowed.give_back();
        self.wakes.written(topics);
        Ok(adjusted)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.place.close();
        self.wakes.close();
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("postgres", true, true)
    }

    async fn now(&self) -> Result<Timestamp> {
        self.shared.check_open(StoreOperation::Now)?;
        self.shared
            .time
            .now(&self.shared.readers.reader())
            .await
            .map_err(|e| e.during(StoreOperation::Now))
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.shared.check_open(StoreOperation::Commit)?;
        commit.check().map_err(|e| e.during(StoreOperation::Commit))?;
        self.shared.used();
        self.shared.committer.commit(commit).await.map_err(|e| e.during(StoreOperation::Commit))
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.shared.check_open(StoreOperation::ReadStream)?;
        query.check().map_err(|e| e.during(StoreOperation::ReadStream))?;
        log::read_stream(&self.shared.readers.reader(), &query)
            .await
            .map_err(|e| e.during(StoreOperation::ReadStream))
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.shared.check_open(StoreOperation::ReadFeed)?;
        query.check().map_err(|e| e.during(StoreOperation::ReadFeed))?;
        log::read_feed(&self.shared.readers.reader(), &query)
            .await
            .map_err(|e| e.during(StoreOperation::ReadFeed))
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.shared.check_open(StoreOperation::Heads)?;
        query.check().map_err(|e| e.during(StoreOperation::Heads))?;
        log::heads(&self.shared.readers.reader(), query)
            .await
            .map_err(|e| e.during(StoreOperation::Heads))
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.shared.check_open(StoreOperation::Get)?;
        check_names(keys.len()).map_err(|e| e.during(StoreOperation::Get))?;
        records::get(&self.shared.readers.reader(), keys)
            .await
            .map_err(|e| e.during(StoreOperation::Get))
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.shared.check_open(StoreOperation::Scan)?;
        query.check().map_err(|e| e.during(StoreOperation::Scan))?;
        records::scan(&self.shared.readers.reader(), &query)
            .await
            .map_err(|e| e.during(StoreOperation::Scan))
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.shared.check_open(StoreOperation::Lease)?;
        request.check().map_err(|e| e.during(StoreOperation::Lease))?;
        let leased =
            leases::lease(&self.shared.leases, &request, &self.shared.turns, &self.shared.fronts)
                .await;
        self.shared.used();
        leased.map_err(|e| self.shared.place.at(e).during(StoreOperation::Lease))
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.shared.check_open(StoreOperation::Renew)?;
        check_renewal(leases, duration).map_err(|e| e.during(StoreOperation::Renew))?;
        self.shared.used();
        leases::renew(&self.shared.heartbeats, leases, duration)
            .await
            .map_err(|e| e.during(StoreOperation::Renew))
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.shared.check_open(StoreOperation::Items)?;
        query.check().map_err(|e| e.during(StoreOperation::Items))?;
        leases::list(&self.shared.readers.reader(), &query)
            .await
            .map_err(|e| e.during(StoreOperation::Items))
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.shared.check_open(StoreOperation::Adjust)?;
        filter.check().map_err(|e| e.during(StoreOperation::Adjust))?;
        adjustment.check().map_err(|e| e.during(StoreOperation::Adjust))?;
        let mut total = Adjusted::default();
        let mut query = ItemQuery { filter, after: None, limit: ADJUSTED_AT_ONCE };
        // A few at a time, so that nobody waits long for a row.
        loop {
            let page = leases::list(&self.shared.readers.reader(), &query).await;
            let page = page.map_err(|e| half_done(e, total).during(StoreOperation::Adjust))?;
            let names: Vec<ItemRef> = page.items.into_iter().map(|item| item.item).collect();
            if !names.is_empty() {
                let adjusted = self.shared.adjust(&names, &query.filter, &adjustment).await;
                let adjusted =
                    adjusted.map_err(|e| half_done(e, total).during(StoreOperation::Adjust))?;
                total.matched += adjusted.matched;
                total.changed += adjusted.changed;
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(total),
            }
        }
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        self.shared.wakes.signal(topic)
    }

    async fn close(&self) -> Result<()> {
        self.shared.committer.close().await;
        self.shared.place.close();
        self.shared.adjusters.close();
        self.shared.door.close();
        let others = [&self.shared.leases, &self.shared.heartbeats, &self.shared.housekeeping];
        self.shared.readers.links().chain(others).for_each(LazyConnection::drop_session);
        self.shared.wakes.close();
        Ok(())
    }
}

/// An adjustment that failed, perhaps after some of its items were changed.
fn half_done(error: StoreError, total: Adjusted) -> StoreError {
    if total.changed == 0 {
        return error;
    }
    error.about("some items were adjusted, then").advising(RetryAdvice::Unknown)
}
