//! Who keeps commits waiting.
//!
//! Nothing outside can hold the feed back: what is committed can be read at once. But whoever locks a row of the store and
//! leaves the transaction open, by hand or because a program hangs between two statements, holds up the commits that
//! need that row; and if it is the gate, all of them.

use std::time::Duration;

use tidelock_store::{Operation, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::committer::Committer;
use crate::error::failed;
use crate::link::Link;
use crate::statement::Statement;

/// Of all who block somebody that waits for a row of this schema, the one that is not waiting itself and has been at it
/// longest.
static LOOK: Statement = Statement::new(
    "SELECT b.pid, b.usename::text, b.application_name, coalesce(host(b.client_addr), 'local'), b.state,
            (extract(epoch FROM clock_timestamp() - b.xact_start) * 1000000)::bigint,
            (extract(epoch FROM clock_timestamp() - min(w.query_start)) * 1000000)::bigint, count(DISTINCT w.pid)
     FROM pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) AS p (pid) JOIN pg_stat_activity b ON b.pid = p.pid
     WHERE w.datname = current_database() AND w.wait_event_type = 'Lock' AND b.wait_event_type IS DISTINCT FROM 'Lock'
       AND EXISTS (
           SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE l.pid = w.pid AND n.nspname = $1)
     GROUP BY b.pid, b.usename, b.application_name, b.client_addr, b.state, b.xact_start
     ORDER BY b.xact_start NULLS LAST LIMIT 1",
    &[Type::TEXT],
);

/// Somebody's transaction that commits wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldUp {
    /// The database session, as `pg_stat_activity` and `pg_terminate_backend` know it.
    pub session: i32,
    /// The role it has.
    pub role: Option<String>,
    /// What it calls itself.
    pub application: Option<String>,
    /// Where it comes from: an address, or `local`.
    pub client: String,
    /// What it is doing; `idle in transaction`, mostly. Unknown to roles that may not see it.
    pub state: Option<String>,
    /// For how long its transaction has been open.
    pub open_for: Option<Duration>,
    /// For how long the first of those who wait for it has waited.
    pub waiting_for: Duration,
    /// How many sessions wait for it.
    pub sessions_waiting: u64,
    /// How many commits of this process are not done yet.
    pub commits_waiting: usize,
}

impl PostgresStore {
    /// Tells which database session keeps commits waiting, since when, and how many.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be asked.
    pub async fn held_up(&self) -> Result<Option<HeldUp>> {
        look(self.shared.reader(), &self.shared.committer).await.map_err(|e| e.during(Operation::Check))
    }
}

pub(crate) async fn look(link: &Link, committer: &Committer) -> Result<Option<HeldUp>> {
    let rows = link.read(&LOOK, &[&&*link.place().schema]).await?;
    rows.first().map(|row| held_up(row, committer.waiting())).transpose().map_err(failed)
}

fn held_up(row: &Row, commits_waiting: usize) -> Result<HeldUp, tokio_postgres::Error> {
    let duration = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or_default());
    Ok(HeldUp {
        session: row.try_get(0)?,
        role: row.try_get(1)?,
        application: row.try_get(2)?,
        client: row.try_get(3)?,
        state: row.try_get(4)?,
        open_for: row.try_get::<_, Option<i64>>(5)?.map(duration),
        waiting_for: row.try_get::<_, Option<i64>>(6)?.map_or(Duration::ZERO, duration),
        sessions_waiting: u64::try_from(row.try_get::<_, i64>(7)?).unwrap_or_default(),
        commits_waiting,
    })
}
