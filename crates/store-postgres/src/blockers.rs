//! Blocking sessions: which transaction holds up commits or the feed.
//!
//! An unrelated transaction holds up neither, however long it stays open. But a transaction that
//! locks a row of the store and stays open, because it was left open by hand or because a program
//! hangs between two statements, holds up the commits that need that row. A transaction that has
//! appended and stays open holds up the feed, which cannot be read past it.

use std::time::Duration;

use tidelock_store::{Result, StoreOperation};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::commit::Committer;
use crate::connect::LazyConnection;
use crate::error::failed;
use crate::statement::{Statement, statement};

/// Of all sessions that block one waiting for a row of this schema: the one that is not waiting
/// itself and has been blocking longest.
static BLOCKED_COMMITS: Statement = statement!(file "blocked_commits": TEXT);
/// The oldest ticket after which positions were drawn. When it was taken is not known: at the
/// latest when its session last received a statement, and before the first event that waits behind
/// it. For a session of another role, and for a prepared transaction, only the second is visible.
static BLOCKED_FEED: Statement = statement!(file "blocked_feed");

/// What currently blocks commits and the feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blockers {
    /// Commits that wait for a transaction.
    pub commits: Option<BlockedCommits>,
    /// The feed waits for a transaction. Briefly, that is normal: while other processes commit.
    pub feed: Option<BlockedFeed>,
}

/// A database session with a transaction that others wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingSession {
    /// The session's process id, as for `pg_stat_activity` and `pg_terminate_backend`; 0 for a
    /// prepared transaction, which belongs to no session.
    pub session: i32,
    /// Its role.
    pub role: Option<String>,
    /// Its application name.
    pub application: Option<String>,
    /// Its client: an address, or `local`.
    pub client: String,
    /// Its state; mostly `idle in transaction`. Unknown to roles that may not see it.
    pub state: Option<String>,
    /// How long its transaction has been open.
    pub open_for: Option<Duration>,
}

/// A transaction that commits wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedCommits {
    /// Its session.
    pub by: BlockingSession,
    /// How long the first waiting session has waited.
    pub waiting_for: Duration,
    /// How many sessions wait for it.
    pub sessions_waiting: u64,
    /// How many commits of this process are in flight.
    pub commits_waiting: usize,
}

/// An open transaction that has positions, or is about to have some: later events are in the
/// streams, and not in the feed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockedFeed {
    /// Its session.
    pub by: BlockingSession,
    /// How long the feed has been held up, at least.
    pub standing_for: Duration,
    /// How many positions were drawn after the last one that can be read.
    pub behind: u64,
}

impl PostgresStore {
    /// Reports which database session blocks commits, and which blocks the feed; since when, and
    /// how many.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn blockers(&self) -> Result<Blockers> {
        query(&self.shared.readers.reader(), &self.shared.committer)
            .await
            .map_err(|e| e.during(StoreOperation::Check))
    }
}

async fn query(connection: &LazyConnection, committer: &Committer) -> Result<Blockers> {
    Ok(Blockers { commits: commits(connection, committer).await?, feed: feed(connection).await? })
}

pub(crate) async fn commits(
    connection: &LazyConnection,
    committer: &Committer,
) -> Result<Option<BlockedCommits>> {
    let rows = connection.read(&BLOCKED_COMMITS, &[&&*connection.connector().schema]).await?;
    rows.first().map(|row| held_commits(row, committer.waiting())).transpose().map_err(failed)
}

pub(crate) async fn feed(connection: &LazyConnection) -> Result<Option<BlockedFeed>> {
    let rows = connection.read(&BLOCKED_FEED, &[]).await?;
    rows.first().map(held_feed).transpose().map_err(failed)
}

fn held_commits(
    row: &Row,
    commits_waiting: usize,
) -> Result<BlockedCommits, tokio_postgres::Error> {
    Ok(BlockedCommits {
        by: holder(row)?,
        waiting_for: duration(row, 6)?.unwrap_or_default(),
        sessions_waiting: count(row, 7)?,
        commits_waiting,
    })
}

fn held_feed(row: &Row) -> Result<BlockedFeed, tokio_postgres::Error> {
    let standing_for = duration(row, 6)?.unwrap_or_default();
    Ok(BlockedFeed { by: holder(row)?, standing_for, behind: count(row, 7)? })
}

fn holder(row: &Row) -> Result<BlockingSession, tokio_postgres::Error> {
    Ok(BlockingSession {
        session: row.try_get(0)?,
        role: row.try_get(1)?,
        application: row.try_get(2)?,
        client: row.try_get(3)?,
        state: row.try_get(4)?,
        open_for: duration(row, 5)?,
    })
}

fn duration(row: &Row, column: usize) -> Result<Option<Duration>, tokio_postgres::Error> {
    let micros: Option<i64> = row.try_get(column)?;
    Ok(micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or_default())))
}

fn count(row: &Row, column: usize) -> Result<u64, tokio_postgres::Error> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or_default())
}
