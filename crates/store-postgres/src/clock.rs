//! The store clock: the database's wall clock, made never to go back.
//!
//! Every statement that compares times reads the clock in the database: the wall clock plus a
//! shift. The shift grows when the wall clock was set back (by an administrator, or because another
//! machine took over), so that leases still expire after their duration. A step back is detected
//! when less time has passed in the database than on a monotonic clock here. That clock decides
//! nothing else, and no worker's wall clock decides anything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidelock_store::{Clock, Result, StoreError, Timestamp};

use crate::connect::LazyConnection;
use crate::error::{failed, is_denied};
use crate::leases::micros;
use crate::statement::{Statement, statement};

/// Clocks that are only being disciplined differ by less than this between two reads.
const TOLERANCE: i64 = 100_000;

static READ: Statement =
    statement!("SELECT tidelock.calendar() + shift, clock, shift FROM tidelock.meta");
/// Of several processes that notice the same step, the first corrects it.
static CORRECT: Statement = statement!(
    "UPDATE tidelock.meta SET shift = $2 WHERE shift = $1
     RETURNING tidelock.calendar() + shift, clock, shift": INT8, INT8);
/// Saves a moment, so that later processes do not begin before it. Skipped if another process has
/// just saved it: there is one row, and all processes would wait for each other to write it.
static SAVE: Statement = statement!(
    "UPDATE tidelock.meta SET clock = tidelock.calendar() + shift
     WHERE clock <= tidelock.calendar() + shift - $1": INT8);

/// Observes the database's wall clock.
#[derive(Debug)]
pub(crate) struct StoreTime {
    stopwatch: Arc<dyn Clock>,
    last: Mutex<Option<Reading>>,
}

/// A reading of the clock, and the two monotonic moments between which it was taken.
#[derive(Debug, Clone, Copy)]
struct Reading {
    time: i64,
    saved: i64,
    shift: i64,
    asked: Duration,
    answered: Duration,
}

impl StoreTime {
    pub(crate) fn new(stopwatch: Arc<dyn Clock>) -> Self {
        Self { stopwatch, last: Mutex::new(None) }
    }

    /// The current time; detects and corrects a wall clock that was set.
    pub(crate) async fn now(&self, connection: &LazyConnection) -> Result<Timestamp> {
        let mut reading = self.read_clock(connection, &READ, &[]).await?;
        if let Some(shift) = self.corrected_shift(&reading) {
            tracing::warn!(from = reading.shift, to = shift, "the database's calendar was set");
            reading = self.correct(connection, reading, shift).await?;
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        Timestamp::from_micros(reading.time.max(reading.saved))
    }

    /// Reads the time and saves it, about once per interval across processes.
    pub(crate) async fn tick(&self, connection: &LazyConnection, interval: Duration) -> Result<()> {
        self.now(connection).await?;
        connection.read(&SAVE, &[&micros(interval / 2)]).await.map(|_| ())
    }

    /// Changes the shift, unless another process was first. A read-only role leaves it to the
    /// others.
    async fn correct(
        &self,
        connection: &LazyConnection,
        reading: Reading,
        shift: i64,
    ) -> Result<Reading> {
        match self.try_read_clock(connection, &CORRECT, &[&reading.shift, &shift]).await {
            Ok(Some(repaired)) => Ok(repaired),
            Ok(None) => self.read_clock(connection, &READ, &[]).await,
            Err(error) if is_denied(&error) => Ok(reading),
            Err(error) => Err(error),
        }
    }

    /// The corrected shift, if the wall clock was set since the last reading.
    fn corrected_shift(&self, reading: &Reading) -> Option<i64> {
        let last = (*self.last.lock().unwrap_or_else(PoisonError::into_inner))?;
        let passed = reading.time - last.time;
        let least = micros(reading.asked.saturating_sub(last.answered));
        let most = micros(reading.answered.saturating_sub(last.asked));
        if passed < least - TOLERANCE {
            return Some(reading.shift + (least - passed));
        }
        // Set forward: an earlier shift is reduced by as much. Beyond that, the wall clock is taken
        // as it is.
        let ahead = (passed - most).min(reading.shift);
        (ahead > TOLERANCE).then(|| reading.shift - ahead)
    }

    async fn read_clock(
        &self,
        connection: &LazyConnection,
        statement: &'static Statement,
        with: crate::connect::Parameters<'_>,
    ) -> Result<Reading> {
        let reading = self.try_read_clock(connection, statement, with).await?;
        reading.ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))
    }

    async fn try_read_clock(
        &self,
        connection: &LazyConnection,
        statement: &'static Statement,
        with: crate::connect::Parameters<'_>,
    ) -> Result<Option<Reading>> {
        let asked = self.stopwatch.elapsed();
        let rows = connection.read(statement, with).await?;
        let answered = self.stopwatch.elapsed();
        let Some(row) = rows.first() else { return Ok(None) };
        let get = |column| row.try_get::<_, i64>(column).map_err(failed);
        Ok(Some(Reading { time: get(0)?, saved: get(1)?, shift: get(2)?, asked, answered }))
    }
}
