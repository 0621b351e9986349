//! The store's clock: the database's calendar, made never to go back.
//!
//! Every statement that compares times reads the clock in the database: what the calendar says,
//! plus a shift. The shift grows when the calendar was set back (an administrator did it, or
//! another machine took over), so that leases still run out after the time they were granted for.
//! That it was set back shows when less time has passed in the database than on a stopwatch here.
//! The stopwatch decides nothing else, and no calendar of a worker decides anything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidelock_store::{Clock, Result, StoreError, Timestamp};
use tokio_postgres::types::Type;

use crate::error::{failed, is_denied};
use crate::lazy_connection::LazyConnection;
use crate::leases::micros;
use crate::statement::Statement;

/// Clocks that are only being disciplined differ by less than this between two looks.
const TOLERANCE: i64 = 100_000;

static LOOK: Statement =
    Statement::new("SELECT tidelock.calendar() + shift, clock, shift FROM tidelock.meta", &[]);
/// Of several processes that notice the same jump, the first mends it.
static MEND: Statement = Statement::new(
    "UPDATE tidelock.meta SET shift = $2 WHERE shift = $1 RETURNING tidelock.calendar() + shift, clock, shift",
    &[Type::INT8, Type::INT8],
);
/// A moment is written down, so that whoever comes later does not begin before it. Not if somebody
/// else has just done it: there is one row, and all processes would wait for each other to write
/// it.
static SAVE: Statement = Statement::new(
    "UPDATE tidelock.meta SET clock = tidelock.calendar() + shift WHERE clock <= tidelock.calendar() + shift - $1",
    &[Type::INT8],
);

/// Watches the database's calendar.
#[derive(Debug)]
pub(crate) struct StoreTime {
    stopwatch: Arc<dyn Clock>,
    last: Mutex<Option<Look>>,
}

/// What a look at the clock found, and between which two moments of the stopwatch it was.
#[derive(Debug, Clone, Copy)]
struct Look {
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

    /// The moment it is; notices, and mends, a calendar that was set.
    pub(crate) async fn now(&self, link: &LazyConnection) -> Result<Timestamp> {
        let mut look = self.look(link, &LOOK, &[]).await?;
        if let Some(shift) = self.mended_shift(&look) {
            tracing::warn!(from = look.shift, to = shift, "the database's calendar was set");
            look = self.mend(link, look, shift).await?;
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
        Timestamp::from_micros(look.time.max(look.saved))
    }

    /// The same, and writes the moment down, so that it is done about once in every interval.
    pub(crate) async fn tick(&self, link: &LazyConnection, interval: Duration) -> Result<()> {
        self.now(link).await?;
        link.read(&SAVE, &[&micros(interval / 2)]).await.map(|_| ())
    }

    /// Changes the shift, unless somebody else was quicker. Whoever may only read leaves it to
    /// those who write.
    async fn mend(&self, link: &LazyConnection, look: Look, shift: i64) -> Result<Look> {
        match self.try_look(link, &MEND, &[&look.shift, &shift]).await {
            Ok(Some(mended)) => Ok(mended),
            Ok(None) => self.look(link, &LOOK, &[]).await,
            Err(error) if is_denied(&error) => Ok(look),
            Err(error) => Err(error),
        }
    }

    /// What the shift must be, if the calendar was set since the last look.
    fn mended_shift(&self, look: &Look) -> Option<i64> {
        let last = (*self.last.lock().unwrap_or_else(PoisonError::into_inner))?;
        let passed = look.time - last.time;
        let least = micros(look.asked.saturating_sub(last.answered));
        let most = micros(look.answered.saturating_sub(last.asked));
        if passed < least - TOLERANCE {
            return Some(look.shift + (least - passed));
        }
        // Set forward: what an earlier shift made up for is no longer missing. Beyond that, time is
        // what the calendar says.
        let ahead = (passed - most).min(look.shift);
        (ahead > TOLERANCE).then(|| look.shift - ahead)
    }

    async fn look(
        &self,
        link: &LazyConnection,
        statement: &'static Statement,
        with: crate::session::Parameters<'_>,
    ) -> Result<Look> {
        let look = self.try_look(link, statement, with).await?;
        look.ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))
    }

    async fn try_look(
        &self,
        link: &LazyConnection,
        statement: &'static Statement,
        with: crate::session::Parameters<'_>,
    ) -> Result<Option<Look>> {
        let asked = self.stopwatch.elapsed();
        let rows = link.read(statement, with).await?;
        let answered = self.stopwatch.elapsed();
        let Some(row) = rows.first() else { return Ok(None) };
        let get = |column| row.try_get::<_, i64>(column).map_err(failed);
        Ok(Some(Look { time: get(0)?, saved: get(1)?, shift: get(2)?, asked, answered }))
    }
}
