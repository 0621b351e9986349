//! Whether this is still the database that was here before.
//!
//! A backup that is restored, or a standby that is promoted, may lack the last commits of the database it stands in for:
//! positions and fences that were given out would be given out again, for other things. So every new connection asks
//! where the database lives; when it has moved, a new *epoch* begins, in which positions and fences start above all that
//! can have been given out before. Positions of the part that was lost are then known to be lost.

use std::sync::{Mutex, PoisonError};

use tidelock_store::{Advice, ErrorKind, Operation, Position, Result, StoreError};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::error::failed;
use crate::session::Session;
use crate::statement::{Statement, now};

/// How many bits of a position, or a fence, count within one epoch; the rest is the epoch.
macro_rules! epoch_bits {
    () => {
        "40"
    };
}
pub(crate) use epoch_bits;

static LOOK: Statement = Statement::new(
    "SELECT m.epoch, e.home = tidelock.home(), tidelock.home(),
            ARRAY (SELECT last_before FROM tidelock.epochs WHERE epoch > 0 ORDER BY epoch),
            ARRAY (SELECT first_after FROM tidelock.epochs WHERE epoch > 0 ORDER BY epoch)
     FROM tidelock.meta m JOIN tidelock.epochs e ON e.epoch = m.epoch",
    &[],
);
static BEGIN_EPOCH: Statement = Statement::new(
    concat!(
        "WITH old AS (SELECT m.epoch, l.base FROM tidelock.meta m, tidelock.last() l WHERE m.epoch = $1 FOR UPDATE OF m),
         raised AS (UPDATE tidelock.meta m SET epoch = old.epoch + 1, position_floor = (old.epoch + 1)::bigint << ",
        epoch_bits!(),
        " FROM old)
         INSERT INTO tidelock.epochs (epoch, home, last_before, first_after, began_at)
         SELECT epoch + 1, $2, base, (epoch + 1)::bigint << ",
        epoch_bits!(),
        ", ",
        now!(),
        " FROM old"
    ),
    &[Type::INT4, Type::TEXT],
);

/// What this process knows of the database's moves.
#[derive(Debug, Default)]
pub(crate) struct Home {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    epoch: i32,
    /// Positions above the first of each pair and up to the second belong to nothing that is here.
    lost: Vec<(i64, i64)>,
}

impl Home {
    /// Looks where a new connection leads; begins an epoch if the database has moved.
    pub(crate) async fn enter(&self, session: &Session) -> Result<()> {
        let mut found = look(session).await?;
        self.check_not_older(found.epoch)?;
        if !found.at_home {
            begin_epoch(session, &found).await?;
            found = look(session).await?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if found.epoch >= known.epoch {
            *known = Known { epoch: found.epoch, lost: found.lost };
        }
        Ok(())
    }

    /// Refuses a position that was given out before the database moved, by the part of it that did not come along.
    pub(crate) fn check_not_lost(&self, position: Position) -> Result<()> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = position.get() as i64;
        match known.lost.iter().find(|(last, first)| *last < at && at <= *first) {
            Some((last, _)) => Err(StoreError::rewound(position, Position::new(*last as u64)?)),
            None => Ok(()),
        }
    }

    fn check_not_older(&self, epoch: i32) -> Result<()> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).epoch;
        if epoch >= known {
            return Ok(());
        }
        let context = format!(
            "this server is at epoch {epoch} of the store, and this process has seen epoch {known}: it is a primary \
             that was replaced, or a backup; take it out of the address, or restart this process if it is meant"
        );
        Err(StoreError::new(ErrorKind::Rewound, Advice::Later, Operation::Open, context))
    }
}

struct Found {
    epoch: i32,
    at_home: bool,
    home: String,
    lost: Vec<(i64, i64)>,
}

async fn look(session: &Session) -> Result<Found> {
    let rows = session.ask(&LOOK, &[]).await.map_err(failed)?;
    let row = rows.first().ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
    let get = || -> std::result::Result<_, tokio_postgres::Error> {
        let (last, first): (Vec<i64>, Vec<i64>) = (row.try_get(3)?, row.try_get(4)?);
        let lost = last.into_iter().zip(first).collect();
        Ok(Found { epoch: row.try_get(0)?, at_home: row.try_get(1)?, home: row.try_get(2)?, lost })
    };
    get().map_err(failed)
}

async fn begin_epoch(session: &Session, found: &Found) -> Result<()> {
    match session.ask(&BEGIN_EPOCH, &[&found.epoch, &found.home]).await {
        Ok(_) => {
            tracing::warn!(
                epoch = found.epoch + 1,
                home = found.home,
                "the database was restored or promoted"
            );
            Ok(())
        }
        // Whoever only reads leaves it to those who write.
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
