//! Lazy connection: connects on first use, and reconnects after a loss.

use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::try_join;
use tidelock_store::{Result, StoreOperation};
use tokio_postgres::Row;

use crate::connect::connect_failures::ConnectFailures;
use crate::connect::connector::Connector;
use crate::connect::session::{Parameters, Session};
use crate::error::{closed, failed, is_refusal};
use crate::statement::Statement;

/// A statement and its parameters.
pub(crate) type Question<'a> = (&'static Statement, Parameters<'a>);

/// A connection for one purpose.
#[derive(Debug)]
pub(crate) struct LazyConnection {
    connector: Arc<Connector>,
    session: RwLock<Option<Arc<Session>>>,
    /// Held while connecting, so that concurrent callers connect only once.
    connecting: tokio::sync::Mutex<()>,
    failures: ConnectFailures,
}

impl LazyConnection {
    pub(crate) fn new(connector: Arc<Connector>) -> Self {
        Self {
            connector,
            session: RwLock::default(),
            connecting: tokio::sync::Mutex::default(),
            failures: ConnectFailures::default(),
        }
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        self.check_open()?;
        match self.open_session().filter(|session| !session.is_backlogged()) {
            Some(session) => Ok(session),
            // Boxed, because the future that connects is large, and every call would carry its
            // size.
            None => Box::pin(self.connect()).await,
        }
    }

    async fn connect(&self) -> Result<Arc<Session>> {
        let wait_start = self.failures.start_wait();
        let _turn = self.connecting.lock().await;
        if let Some(session) = self.open_session().filter(|session| !session.is_backlogged()) {
            return Ok(session);
        }
        if let Some(error) = self.failures.since(wait_start) {
            return Err(error);
        }
        self.make_session().await.inspect_err(|error| self.failures.note(error))
    }

    /// Makes sure that there is a connection that answers.
    async fn make_session(&self) -> Result<Arc<Session>> {
        match self.open_session() {
            Some(silent) => {
                let answer = async { silent.catch_up().await.map_err(failed) };
                self.connector
                    .in_time(self.connector.deadline(), answer)
                    .await
                    .map_err(|e| self.connector.at(e))?;
                Ok(silent)
            }
            None => self.keep(self.connector.enter(None).await?),
        }
    }

    /// Whether the connection has yet to answer abandoned requests.
    pub(crate) fn is_behind(&self) -> bool {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().is_some_and(|session| session.is_behind())
    }

    /// Keeps a new connection, unless the store was closed in the meantime.
    fn keep(&self, session: Arc<Session>) -> Result<Arc<Session>> {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        self.check_open()?;
        Ok(session)
    }

    /// Drops the connection if the store was closed.
    fn check_open(&self) -> Result<()> {
        if self.connector.is_closed() {
            self.drop_session();
            return Err(closed(StoreOperation::Open));
        }
        Ok(())
    }

    /// Runs an idempotent query; retries it once if the connection is lost.
    pub(crate) async fn read(
        &self,
        statement: &'static Statement,
        with: Parameters<'_>,
    ) -> Result<Vec<Row>> {
        let first = self.session().await?.query(statement, with).await;
        let rows = match first {
            Err(error) if !is_refusal(&error) => self.session().await?.query(statement, with).await,
            answered => answered,
        };
        rows.map_err(|e| self.connector.at(failed(e)))
    }

    /// Pipelines two queries in one round trip. The server begins with the second when it is done
    /// with the first. If the connection is lost, both are retried once.
    pub(crate) async fn read_in_turn(
        &self,
        first: Question<'_>,
        second: Question<'_>,
    ) -> Result<(Vec<Row>, Vec<Row>)> {
        let answers = match self.try_in_turn(&first, &second).await? {
            Err(error) if !is_refusal(&error) => self.try_in_turn(&first, &second).await?,
            answered => answered,
        };
        answers.map_err(|e| self.connector.at(failed(e)))
    }

    async fn try_in_turn(
        &self,
        first: &Question<'_>,
        second: &Question<'_>,
    ) -> Result<std::result::Result<(Vec<Row>, Vec<Row>), tokio_postgres::Error>> {
        let session = self.session().await?;
        // A statement that has to be prepared first would be sent after the other.
        if let Err(error) = session.prepare_all(&[first.0, second.0]).await {
            return Ok(Err(error));
        }
        Ok(try_join(session.query(first.0, first.1), session.query(second.0, second.1)).await)
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(crate) fn drop_session(&self) {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn open_session(&self) -> Option<Arc<Session>> {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().filter(|session| !session.is_closed()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use tidelock_store::{RetryAdvice, StoreErrorKind};
    use tokio::time::timeout;

    use super::*;
    use crate::connect::address::Address;
    use crate::open::PostgresOptions;

    /// A server that accepts connections and never answers.
    fn silent() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let welcome = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
            let visitors = listener.incoming().map(|visitor| {
                let mut visitor = visitor.unwrap();
                visitor.write_all(welcome).unwrap();
                visitor
            });
            drop(visitors.collect::<Vec<_>>());
        });
        port
    }

    fn connection_to(port: u16) -> LazyConnection {
        let mut options = PostgresOptions::default();
        let url = format!(
            "postgres://u@127.0.0.1:{port}/d?target_session_attrs=any&connect_timeout_ms=500"
        );
        let address = Address::parse(&url, &mut options).unwrap();
        LazyConnection::new(Arc::new(Connector::new(address, &options)))
    }

    #[tokio::test]
    async fn a_server_that_accepts_and_never_answers_is_given_up() {
        let connection = connection_to(silent());
        let refused = timeout(Duration::from_secs(60), connection.session())
            .await
            .expect("an answer")
            .unwrap_err();
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Later),
            "{refused}"
        );
        assert!(refused.context().contains("not ready for use within 500ms"), "{refused}");
    }
}
