//! Connections that one caller at a time has to itself, for transactions of several trips.
//!
//! A connection comes back to the pool only when its borrower says that it is clean. Dropped in any
//! other way, by a cancelled future or a panic, it is closed, and the server undoes what was open
//! on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{Result, StoreOperation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connector::Connector;
use crate::error::closed;
use crate::failures::Failures;
use crate::session::Session;

/// Some connections, made when they are needed.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    place: Arc<Connector>,
    idle: Arc<Mutex<Vec<Arc<Session>>>>,
    places: Arc<Semaphore>,
    failures: Arc<Failures>,
}

/// A connection of one's own.
#[derive(Debug)]
pub(crate) struct Borrowed {
    session: Arc<Session>,
    pool: Pool,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(place: Arc<Connector>, size: usize) -> Self {
        Self {
            place,
            idle: Arc::default(),
            places: Arc::new(Semaphore::new(size)),
            failures: Arc::default(),
        }
    }

    /// Waits for a connection that nobody else has.
    pub(crate) async fn borrow(&self) -> Result<Borrowed> {
        let came = self.failures.come();
        let place =
            self.places.clone().acquire_owned().await.map_err(|_| closed(StoreOperation::Open))?;
        if self.place.is_closed() {
            return Err(closed(StoreOperation::Open));
        }
        let session = match (self.take_idle(), self.failures.since(came)) {
            (Some(session), _) => session,
            (None, Some(error)) => return Err(error),
            (None, None) => {
                self.place.enter(None).await.inspect_err(|error| self.failures.note(error))?
            }
        };
        Ok(Borrowed { session, pool: self.clone(), _place: place })
    }

    pub(crate) fn close(&self) {
        self.places.close();
        self.idle().clear();
    }

    /// Keeps a connection for the next one, unless there will be none.
    fn keep(&self, session: Arc<Session>) {
        let mut idle = self.idle();
        if !self.places.is_closed() {
            idle.push(session);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_idle(&self) -> Option<Arc<Session>> {
        let mut idle = self.idle();
        idle.retain(|session| !session.is_closed());
        idle.pop()
    }
}

impl Borrowed {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Gives the connection back. No transaction is open on it.
    pub(crate) fn give_back(self) {
        self.pool.keep(self.session);
    }
}
