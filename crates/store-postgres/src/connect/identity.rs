//! Database identity and epochs: detects a database that was restored or promoted.
//!
//! A restored backup or a promoted standby may lack the last commits of the database that it
//! replaces: positions and fences that were given out would be given out again, for other things.
//! So every new connection asks for the database's identity. When it has changed, a new *epoch*
//! begins, in which positions and fences start above all that any copy can have given out before.
//! Positions of the lost part are then known to be lost.
//!
//! Every epoch is recorded, so a server can be asked whether it knows this process's epoch. If not,
//! it is a primary that was replaced, or one of several that believe to be primary, and nothing is
//! done there.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio_postgres::error::SqlState;

use crate::connect::session::Session;
use crate::error::failed;
use crate::statement::{Statement, statement};

static READ_IDENTITY: Statement = statement!(
    "SELECT m.epoch, e.home, tidelock.home(),
            EXISTS (SELECT FROM tidelock.epochs WHERE epoch = $1 AND home = $2)
     FROM tidelock.meta m JOIN tidelock.epochs e ON e.epoch = m.epoch": INT8, TEXT);
static BEGIN_EPOCH: Statement = statement!("SELECT tidelock.begin_epoch($1)": INT8);

/// This process's knowledge of the database's identity.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    known: Mutex<Option<Known>>,
    newest: Arc<AtomicI64>,
}

/// The newest epoch that this process has seen, and the identity where it began.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    epoch: i64,
    home: String,
}

/// The epoch of a connection.
#[derive(Debug)]
pub(crate) struct Epoch {
    number: i64,
    newest: Arc<AtomicI64>,
}

impl Epoch {
    /// Whether the database has moved since: the server at the other end was replaced.
    pub(crate) fn is_over(&self) -> bool {
        self.number < self.newest.load(Ordering::SeqCst)
    }
}

impl Identity {
    /// Checks the identity behind a new connection; begins an epoch if the database has moved.
    pub(crate) async fn enter(&self, session: &Session) -> Result<Epoch> {
        loop {
            let before = self.known();
            let mut found = query(session, before.as_ref()).await?;
            if found.home != found.known.home {
                begin_epoch(session, &found).await?;
                found = query(session, before.as_ref()).await?;
            }
            // A concurrent connection may have been faster, and to another server: then this one is
            // judged by its result.
            if let Some(epoch) = self.learn(before.as_ref(), found.known) {
                return Ok(epoch);
            }
        }
    }

    /// The identity of the database, as of the newest connection.
    pub(crate) fn home(&self) -> Option<String> {
        self.known().map(|known| known.home)
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

/// Refuses a server that does not know the known epoch.
async fn query(session: &Session, known: Option<&Known>) -> Result<Found> {
    let (epoch, home) = known.map(|known| (known.epoch, &known.home)).unzip();
    let rows = session.ask(&READ_IDENTITY, &[&epoch, &home]).await.map_err(failed)?;
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
        // A read-only role leaves it to the others.
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
