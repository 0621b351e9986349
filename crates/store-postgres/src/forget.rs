//! Retention: removes rows whose time has passed.
//!
//! The functions in the database remove a few rows each, in separate transactions, and raise the
//! floors that keep the rows' numbers from being reused. Only one session sweeps at a time. Due
//! rows are found at the front of four indexes, so a store in which nothing is due costs one query.

use std::time::Duration;

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::connect::LazyConnection;
use crate::error::failed;
use crate::statement::{Statement, statement};

/// Rows per transaction.
const AT_ONCE: i64 = 500;

/// How long an explicit sweep waits for another one, and how long between two attempts.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// In how many microseconds the next row of each kind is due, in the order of [`FORGET`]; null if
/// there is none.
static DUE: Statement = statement!(file "due");

static FORGET: [Statement; 5] = [
    statement!("SELECT tidelock.forget_records($1)": INT8),
    statement!("SELECT tidelock.forget_items($1)": INT8),
    statement!("SELECT tidelock.forget_streams($1)": INT8),
    statement!("SELECT tidelock.forget_commits($1)": INT8),
    statement!("SELECT tidelock.date_tombstones($1)": INT8),
];

/// The result of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// Nothing is due; the time until the next row is, if there is one.
    All { next: Option<Duration> },
    /// The time limit was reached before everything was removed.
    Cut,
    /// The remaining rows are locked, or are in use again.
    Left,
    /// Another session sweeps.
    Busy,
}

impl PostgresStore {
    /// Removes everything past its retention now, instead of a little at a time in the background.
    /// Rows locked by other transactions are left.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached, or if another process was sweeping all the
    /// time.
    pub async fn sweep(&self) -> Result<()> {
        self.shared.check_open(StoreOperation::Commit)?;
        let given_up = Instant::now() + PATIENCE;
        while let Swept::Busy = forget_all(&self.shared.maintenance).await? {
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

/// Removes due rows until none is due.
async fn forget_all(connection: &LazyConnection) -> Result<Swept> {
    loop {
        match forget(connection, Instant::now() + PATIENCE).await? {
            Swept::Cut => {}
            swept => return Ok(swept),
        }
    }
}

/// Removes due rows, a few of each kind in turn, until none is due or the time limit is reached.
pub(crate) async fn forget(connection: &LazyConnection, until: Instant) -> Result<Swept> {
    loop {
        let due = due(connection).await?;
        let mut removed = 0;
        for (_, statement) in
            due.iter().zip(&FORGET).filter(|(due, _)| due.is_some_and(|due| due <= 0))
        {
            match forget_some(connection, statement).await? {
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

async fn due(connection: &LazyConnection) -> Result<[Option<i64>; 5]> {
    let rows = connection.read(&DUE, &[]).await?;
    let row =
        rows.first().ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
    let get = |column| row.try_get(column).map_err(failed);
    Ok([get(0)?, get(1)?, get(2)?, get(3)?, get(4)?])
}

/// How many rows were removed; none if another session sweeps.
async fn forget_some(
    connection: &LazyConnection,
    statement: &'static Statement,
) -> Result<Option<i64>> {
    let rows = connection.read(statement, &[&AT_ONCE]).await?;
    rows.first().map_or(Ok(None), |row: &Row| row.try_get(0)).map_err(failed)
}
