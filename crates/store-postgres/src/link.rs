//! A connection that is there when it is needed: made on first use, and made anew when it was lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::try_join;
use tidelock_store::{ErrorKind, Operation, Result};
use tokio::sync::mpsc;
use tokio_postgres::{Notification, Row};

use crate::address::Address;
use crate::error::{closed, failed, is_refusal};
use crate::home::Home;
use crate::open::Prepare;
use crate::session::{Parameters, Session};
use crate::statement::Statement;
use crate::tls;

/// Where the store is: everything that it takes to make a connection to it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: Address,
    pub(crate) schema: Arc<str>,
    pub(crate) prepare: Prepare,
    pub(crate) home: Home,
    closed: AtomicBool,
}

impl Place {
    pub(crate) fn new(address: Address, schema: &str, prepare: Prepare) -> Self {
        Self {
            address,
            schema: schema.into(),
            prepare,
            home: Home::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// A connection about which nothing is known yet, not even whether there are tables.
    pub(crate) async fn connect(
        &self,
        notifications: Option<mpsc::UnboundedSender<Notification>>,
    ) -> Result<Session> {
        let (client, connection) = tls::connect(&self.address).await?;
        let started =
            Session::start(client, connection, self.schema.clone(), self.prepare, notifications).await;
        started.map_err(|e| self.at(failed(e)))
    }

    /// A connection to the store itself.
    pub(crate) async fn enter(
        &self,
        notifications: Option<mpsc::UnboundedSender<Notification>>,
    ) -> Result<Arc<Session>> {
        let mut session = self.connect(notifications).await?;
        let epoch = self.home.enter(&session).await.map_err(|e| self.refused(e))?;
        session.belongs_to(epoch);
        Ok(Arc::new(session))
    }

    /// A server that was replaced does not keep us from the others that the URL names.
    fn refused(&self, error: tidelock_store::StoreError) -> tidelock_store::StoreError {
        if error.kind() == ErrorKind::Rewound {
            self.address.was_bad();
        }
        self.at(error)
    }

    /// An error, with the server it is about, unless it says so already.
    pub(crate) fn at(&self, error: tidelock_store::StoreError) -> tidelock_store::StoreError {
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

/// A statement, and what it is run with.
pub(crate) type Question<'a> = (&'static Statement, Parameters<'a>);

/// A connection for one purpose.
#[derive(Debug)]
pub(crate) struct Link {
    place: Arc<Place>,
    session: RwLock<Option<Arc<Session>>>,
    /// Held by whoever connects, so that a crowd does not connect many times.
    connecting: tokio::sync::Mutex<()>,
}

impl Link {
    pub(crate) fn new(place: Arc<Place>) -> Self {
        Self { place, session: RwLock::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        if self.place.is_closed() {
            self.drop_session();
            return Err(closed(Operation::Open));
        }
        match self.open_session() {
            Some(session) => Ok(session),
            // Apart, because what it takes to connect is large, and every call would carry room for it.
            None => Box::pin(self.connect()).await,
        }
    }

    async fn connect(&self) -> Result<Arc<Session>> {
        let _turn = self.connecting.lock().await;
        if let Some(session) = self.open_session() {
            return Ok(session);
        }
        let session = self.place.enter(None).await?;
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        Ok(session)
    }

    /// Asks for something that can be asked again: if the connection is lost meanwhile, it is, once.
    pub(crate) async fn read(&self, statement: &'static Statement, with: Parameters<'_>) -> Result<Vec<Row>> {
        let first = self.session().await?.query(statement, with).await;
        let rows = match first {
            Err(error) if !is_refusal(&error) => self.session().await?.query(statement, with).await,
            answered => answered,
        };
        rows.map_err(|e| self.place.at(failed(e)))
    }

    /// Asks two questions in one trip. The server begins with the second when it is done with the first. If the connection is
    /// lost meanwhile, both are asked again, once.
    pub(crate) async fn read_in_turn(
        &self,
        first: Question<'_>,
        second: Question<'_>,
    ) -> Result<(Vec<Row>, Vec<Row>)> {
        let answers = match self.try_in_turn(&first, &second).await? {
            Err(error) if !is_refusal(&error) => self.try_in_turn(&first, &second).await?,
            answered => answered,
        };
        answers.map_err(|e| self.place.at(failed(e)))
    }

    async fn try_in_turn(
        &self,
        first: &Question<'_>,
        second: &Question<'_>,
    ) -> Result<std::result::Result<(Vec<Row>, Vec<Row>), tokio_postgres::Error>> {
        let session = self.session().await?;
        // What has to be prepared first would be sent after the other.
        if let Err(error) = session.prepare_all(&[first.0, second.0]).await {
            return Ok(Err(error));
        }
        Ok(try_join(session.query(first.0, first.1), session.query(second.0, second.1)).await)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn drop_session(&self) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn open_session(&self) -> Option<Arc<Session>> {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().filter(|session| !session.is_closed()).cloned()
    }
}
