//! The connector: creates connections to the store.
//!
//! A connection is created here and kept elsewhere. Connections in use are tracked for one purpose:
//! they are closed when the database has moved.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Notification;

use crate::connect::address::Address;
use crate::connect::identity::Identity;
use crate::connect::session::Session;
use crate::connect::tls;
use crate::error::failed;
use crate::open::{PostgresOptions, Prepare};

/// Everything needed to connect to the store.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) address: Address,
    pub(crate) schema: Arc<str>,
    pub(crate) prepare: Prepare,
    pub(crate) identity: Identity,
    /// How long it may take until a connection is ready for use.
    pub(crate) connect_timeout: Duration,
    /// Connections in use, to be closed when the database has moved.
    sessions: Mutex<Vec<Weak<Session>>>,
    closed: AtomicBool,
}

impl Connector {
    pub(crate) fn new(address: Address, options: &PostgresOptions) -> Self {
        Self {
            address,
            schema: options.schema.as_str().into(),
            prepare: options.prepare,
            identity: Identity::default(),
            connect_timeout: options.connect_timeout,
            sessions: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Connects without any check, not even whether there are tables.
    pub(crate) async fn connect(&self) -> Result<Session> {
        let deadline = self.deadline();
        self.connect_by(deadline, None).await
    }

    /// Connects to the store itself.
    pub(crate) async fn enter(
        &self,
        notifications: Option<mpsc::UnboundedSender<Notification>>,
    ) -> Result<Arc<Session>> {
        let deadline = self.deadline();
        let mut session = self.connect_by(deadline, notifications).await?;
        let epoch = self
            .in_time(deadline, self.identity.enter(&session))
            .await
            .map_err(|e| self.refused(e))?;
        session.belongs_to(epoch);
        let session = Arc::new(session);
        self.count_in(&session);
        Ok(session)
    }

    /// Registers a connection, and closes all that cannot be used any more. A server that was
    /// replaced may not have closed them, and never answer.
    fn count_in(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
        let known = sessions.iter().filter_map(Weak::upgrade);
        known.filter(|known| known.is_closed()).for_each(|known| known.give_up());
    }

    async fn connect_by(
        &self,
        deadline: Instant,
        notifications: Option<mpsc::UnboundedSender<Notification>>,
    ) -> Result<Session> {
        let (client, connection) = tls::connect(&self.address).await?;
        let schema = self.schema.clone();
        let session = Session::start(
            client,
            connection,
            schema,
            self.prepare,
            notifications,
            self.connect_timeout,
        );
        self.in_time(deadline, async { session.await.map_err(failed) })
            .await
            .map_err(|e| self.at(e))
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.connect_timeout
    }

    /// Limits the time of the first queries on a connection. A server that accepts connections and
    /// never answers is no better than one that accepts none.
    pub(crate) async fn in_time<T>(
        &self,
        deadline: Instant,
        first: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match timeout_at(deadline, first).await {
            Ok(answered) => answered,
            Err(_) => {
                self.address.was_bad();
                let limit = self.connect_timeout;
                let context = format!("a connection was not ready for use within {limit:?}");
                Err(StoreError::new(
                    StoreErrorKind::Unavailable,
                    RetryAdvice::Later,
                    StoreOperation::Open,
                    context,
                ))
            }
        }
    }

    /// A server that was replaced must not keep us from the others that the URL names.
    fn refused(&self, error: StoreError) -> StoreError {
        if error.kind() == StoreErrorKind::Rewound {
            self.address.was_bad();
        }
        self.at(error)
    }

    /// Adds the server to an error, unless it names one already.
    pub(crate) fn at(&self, error: StoreError) -> StoreError {
        if error.context().starts_with(self.address.label()) {
            error
        } else {
            error.about(self.address.label())
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
