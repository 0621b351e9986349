//! Connection pool: exclusive connections for transactions of several round trips.
//!
//! A connection returns to the pool only when its borrower reports that it is clean. Dropped in any
//! other way, by a cancelled future or a panic, it is closed, and the server rolls back what was
//! open on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_store::{Result, StoreOperation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connect::connect_failures::ConnectFailures;
use crate::connect::connector::Connector;
use crate::connect::session::Session;
use crate::error::closed;

/// A pool of connections, created on demand.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    connector: Arc<Connector>,
    idle: Arc<Mutex<Vec<Arc<Session>>>>,
    places: Arc<Semaphore>,
    failures: Arc<ConnectFailures>,
}

/// An exclusive connection.
#[derive(Debug)]
pub(crate) struct Borrowed {
    session: Arc<Session>,
    pool: Pool,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(connector: Arc<Connector>, size: usize) -> Self {
        Self {
            connector,
            idle: Arc::default(),
            places: Arc::new(Semaphore::new(size)),
            failures: Arc::default(),
        }
    }

    /// Waits for a free connection.
    pub(crate) async fn borrow(&self) -> Result<Borrowed> {
        let wait_start = self.failures.start_wait();
        let permit =
            self.places.clone().acquire_owned().await.map_err(|_| closed(StoreOperation::Open))?;
        if self.connector.is_closed() {
            return Err(closed(StoreOperation::Open));
        }
        let session = match (self.take_idle(), self.failures.since(wait_start)) {
            (Some(session), _) => session,
            (None, Some(error)) => return Err(error),
            (None, None) => {
                self.connector.enter(None).await.inspect_err(|error| self.failures.note(error))?
            }
        };
        Ok(Borrowed { session, pool: self.clone(), _permit: permit })
    }

    pub(crate) fn close(&self) {
        self.places.close();
        self.idle().clear();
    }

    /// Keeps a connection for the next borrower, unless the pool is closed.
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

    /// Returns the connection. No transaction is open on it.
    pub(crate) fn give_back(self) {
        self.pool.keep(self.session);
    }
}
