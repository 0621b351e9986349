//! Whether this is still the database that was here before.
//!
//! A backup that is restored, or a standby that is promoted, may lack the last commits of the
//! database it stands in for: positions and fences that were given out would be given out again,
//! for other things. So every new connection asks where the database lives; when it has moved, a
//! new *epoch* begins, in which positions and fences start above all that can have been given out
//! before, by whichever copy. Positions of the part that was lost are then known to be lost.
//!
//! Every epoch is written down, so a server can be asked whether it has been through the one that
//! this process knows. If not, it is a primary that was replaced, or one of several that think they
//! are in charge, and nothing is done there.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::error::failed;
use crate::session::Session;
use crate::statement::Statement;

static LOOK: Statement = Statement::new(
    "SELECT m.epoch, e.home, tidelock.home(), EXISTS (SELECT FROM tidelock.epochs WHERE epoch = $1 AND home = $2)
     FROM tidelock.meta m JOIN tidelock.epochs e ON e.epoch = m.epoch",
    &[Type::INT8, Type::TEXT],
);
static BEGIN_EPOCH: Statement = Statement::new("SELECT tidelock.begin_epoch($1)", &[Type::INT8]);

/// What this process knows of the database's moves.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    known: Mutex<Option<Known>>,
    newest: Arc<AtomicI64>,
}

/// The newest epoch that this process has seen, and where it began.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    epoch: i64,
    home: String,
}

/// The epoch in which a connection was made.
#[derive(Debug)]
pub(crate) struct Epoch {
    number: i64,
    newest: Arc<AtomicI64>,
}

impl Epoch {
    /// Whether the database has moved since: what is at the other end was replaced.
    pub(crate) fn is_over(&self) -> bool {
        self.number < self.newest.load(Ordering::SeqCst)
    }
}

impl Identity {
    /// Looks where a new connection leads; begins an epoch if the database has moved.
    pub(crate) async fn enter(&self, session: &Session) -> Result<Epoch> {
        loop {
            let before = self.known();
            let mut found = look(session, before.as_ref()).await?;
            if found.home != found.known.home {
                begin_epoch(session, &found).await?;
                found = look(session, before.as_ref()).await?;
            }
            // Another connection may have been quicker, and to another server: then this one is
            // judged by what that found.
            if let Some(epoch) = self.learn(before.as_ref(), found.known) {
                return Ok(epoch);
            }
        }
    }

    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn(&self, before: Option<&Known>, now: Known) -> Option<Epoch> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != before {
            return None;
        }
        let number = now.epoch;
        self.newest.store(number, Ordering::SeqCst);
        *known = Some(now);
        Some(Epoch { number, newest: self.newest.clone() })
    }
}

struct Found {
    known: Known,
    home: String,
}

/// Refuses a server that has not been through the epoch that is known.
async fn look(session: &Session, known: Option<&Known>) -> Result<Found> {
    let (epoch, home) = known.map(|known| (known.epoch, &known.home)).unzip();
    let rows = session.ask(&LOOK, &[&epoch, &home]).await.map_err(failed)?;
    let row =
        rows.first().ok_or_else(|| StoreError::corrupt("the table tidelock.meta has no row"))?;
    let get = || -> std::result::Result<_, tokio_postgres::Error> {
        let found = Known { epoch: row.try_get(0)?, home: row.try_get(1)? };
        Ok((Found { known: found, home: row.try_get(2)? }, row.try_get(3)?))
    };
    match (get().map_err(failed)?, known) {
        ((_, false), Some(known)) => Err(replaced(known)),
        ((found, _), _) => Ok(found),
    }
}

fn replaced(known: &Known) -> StoreError {
    let context = format!(
        "this server has not been through epoch {} of the store, which this process has seen: it is a primary that was \
         replaced, or an older backup; take it out of the address, or restart this process if it is meant",
        known.epoch
    );
    StoreError::new(StoreErrorKind::Rewound, RetryAdvice::Later, StoreOperation::Open, context)
}

async fn begin_epoch(session: &Session, found: &Found) -> Result<()> {
    match session.ask(&BEGIN_EPOCH, &[&found.known.epoch]).await {
        Ok(_) => {
            tracing::warn!(home = found.home, "the database was restarted, restored or promoted");
            Ok(())
        }
        // Whoever only reads leaves it to those who write.
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
