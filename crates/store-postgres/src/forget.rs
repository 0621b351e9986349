//! Removing what is past its retention.
//!
//! The functions in the database remove a few rows each, in a transaction of their own, and raise
//! the floors that keep the rows' numbers from being used again. One session of all sweeps at a
//! time. What is due is found by a look at the front of four indexes, so a store in which nothing
//! is due is asked one question.

use std::time::Duration;

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::error::failed;
use crate::lazy_connection::LazyConnection;
use crate::statement::{Statement, forget_at};

/// How many rows go in one transaction.
const AT_ONCE: i64 = 500;

/// How long a caller that sweeps waits for another that does, and how long between two tries.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// In how many microseconds the next row of each kind is due, in the order of [`FORGET`]; null if
/// there is none.
static DUE: Statement = Statement::new(
    concat!(
        "SELECT (SELECT r.expires_at FROM tidelock.records r WHERE r.expires_at IS NOT NULL
                 ORDER BY r.expires_at LIMIT 1) - m.now,
                (SELECT i.forget_at FROM tidelock.items i WHERE i.forget_at IS NOT NULL
                 ORDER BY i.forget_at LIMIT 1) - m.now,
                (SELECT s.forget_at FROM tidelock.streams s WHERE s.forget_at IS NOT NULL
                 ORDER BY s.forget_at LIMIT 1) - m.now,
                (SELECT ",
        forget_at!(),
        " FROM tidelock.commits c ORDER BY ",
        forget_at!(),
        " LIMIT 1) - m.now,
                CASE WHEN m.undated_from IS NOT NULL THEN 0::bigint END
         FROM (SELECT greatest(tidelock.calendar() + shift, clock) AS now, undated_from
               FROM tidelock.meta WHERE one OFFSET 0) m"
    ),
    &[],
);

macro_rules! forget {
    ($function:literal) => {
        Statement::new(concat!("SELECT tidelock.", $function, "($1)"), &[Type::INT8])
    };
}

static FORGET: [Statement; 5] = [
    forget!("forget_records"),
    forget!("forget_items"),
    forget!("forget_streams"),
    forget!("forget_commits"),
    forget!("date_tombstones"),
];

/// How far a sweep came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// Nothing is due; the next is in so long, if there is a next.
    All { next: Option<Duration> },
    /// Time was up before everything was removed.
    Cut,
    /// What is left is locked, or is in use again.
    Left,
    /// Another session sweeps.
    Busy,
}

impl PostgresStore {
    /// Removes everything that is past its retention now, instead of a little at a time in the
    /// background. Rows that are locked by others are left.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached, or if another process has been sweeping all
    /// the time.
    pub async fn sweep(&self) -> Result<()> {
        self.shared.check_open(StoreOperation::Commit)?;
        let given_up = Instant::now() + PATIENCE;
        while let Swept::Busy = forget_all(&self.shared.housekeeping).await? {
            if Instant::now() >= given_up {
                return Err(busy());
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }
}

fn busy() -> StoreError {
    let context = "another session has been sweeping all the time";
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Later,
        StoreOperation::Commit,
        context,
    )
}

/// Removes what is due until nothing is.
async fn forget_all(link: &LazyConnection) -> Result<Swept> {
    loop {
        match forget(link, Instant::now() + PATIENCE).await? {
            Swept::Cut => {}
            swept => return Ok(swept),
        }
    }
}

/// Removes what is due, a few rows of each kind in turn, until nothing is due or time is up.
pub(crate) async fn forget(link: &LazyConnection, until: Instant) -> Result<Swept> {
    loop {
        let due = due(link).await?;
        let mut removed = 0;
        for (_, statement) in
            due.iter().zip(&FORGET).filter(|(due, _)| due.is_some_and(|due| due <= 0))
        {
            match forget_some(link, statement).await? {
                Some(count) => removed += count,
                None => return Ok(Swept::Busy),
            }
        }
        let next = due.into_iter().flatten().min();
        match next {
            None => return Ok(Swept::All { next: None }),
            Some(next) if next > 0 => {
                return Ok(Swept::All { next: Some(Duration::from_micros(next.unsigned_abs())) });
            }
            Some(_) if removed == 0 => return Ok(Swept::Left),
            Some(_) if Instant::now() >= until => return Ok(Swept::Cut),
            Some(_) => {}
        }
    }
}

async fn due(link: &LazyConnection) -> Result<[Option<i64>; 5]> {
    let rows = link.read(&DUE, &[]).await?;
    let row =
        rows.first().ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
    let get = |column| row.try_get(column).map_err(failed);
    Ok([get(0)?, get(1)?, get(2)?, get(3)?, get(4)?])
}

/// How many rows went; nothing if another session sweeps.
async fn forget_some(link: &LazyConnection, statement: &'static Statement) -> Result<Option<i64>> {
    let rows = link.read(statement, &[&AT_ONCE]).await?;
    rows.first().map_or(Ok(None), |row: &Row| row.try_get(0)).map_err(failed)
}
