//! A connection that is there when it is needed: made on first use, and made anew when it was lost.

use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::try_join;
use tidelock_store::{Result, StoreOperation};
use tokio_postgres::Row;

use crate::connector::Connector;
use crate::error::{closed, failed, is_refusal};
use crate::failures::Failures;
use crate::session::{Parameters, Session};
use crate::statement::Statement;

/// A statement, and what it is run with.
pub(crate) type Question<'a> = (&'static Statement, Parameters<'a>);

/// A connection for one purpose.
#[derive(Debug)]
pub(crate) struct LazyConnection {
    place: Arc<Connector>,
    session: RwLock<Option<Arc<Session>>>,
    /// Held by whoever connects, so that a crowd does not connect many times.
    connecting: tokio::sync::Mutex<()>,
    failures: Failures,
}

impl LazyConnection {
    pub(crate) fn new(place: Arc<Connector>) -> Self {
        Self {
            place,
            session: RwLock::default(),
            connecting: tokio::sync::Mutex::default(),
            failures: Failures::default(),
        }
    }

    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        self.check_open()?;
        match self.open_session().filter(|session| !session.is_silent()) {
            Some(session) => Ok(session),
            // Apart, because what it takes to connect is large, and every call would carry room for
            // it.
            None => Box::pin(self.connect()).await,
        }
    }

    async fn connect(&self) -> Result<Arc<Session>> {
        let came = self.failures.come();
        let _turn = self.connecting.lock().await;
        if let Some(session) = self.open_session().filter(|session| !session.is_silent()) {
            return Ok(session);
        }
        if let Some(error) = self.failures.since(came) {
            return Err(error);
        }
        self.make_session().await.inspect_err(|error| self.failures.note(error))
    }

    /// Makes sure that there is a connection which answers.
    async fn make_session(&self) -> Result<Arc<Session>> {
        match self.open_session() {
            Some(silent) => {
                let answer = async { silent.catch_up().await.map_err(failed) };
                self.place
                    .in_time(self.place.deadline(), answer)
                    .await
                    .map_err(|e| self.place.at(e))?;
                Ok(silent)
            }
            None => self.keep(self.place.enter(None).await?),
        }
    }

    /// Whether the connection has yet to answer questions for which nobody waits any more.
    pub(crate) fn is_behind(&self) -> bool {
        let session = self.session.read().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().is_some_and(|session| session.is_behind())
    }

    /// Keeps a new connection, unless the store was closed while it was made.
    fn keep(&self, session: Arc<Session>) -> Result<Arc<Session>> {
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        self.check_open()?;
        Ok(session)
    }

    /// Lets go of the connection if the store was closed.
    fn check_open(&self) -> Result<()> {
        if self.place.is_closed() {
            self.drop_session();
            return Err(closed(StoreOperation::Open));
        }
        Ok(())
    }

    /// Asks for something that can be asked again: if the connection is lost meanwhile, it is,
    /// once.
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
        rows.map_err(|e| self.place.at(failed(e)))
    }

    /// Asks two questions in one trip. The server begins with the second when it is done with the
    /// first. If the connection is lost meanwhile, both are asked again, once.
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

    pub(crate) fn place(&self) -> &Connector {
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use tidelock_store::{RetryAdvice, StoreErrorKind};
    use tokio::time::timeout;

    use super::*;
    use crate::address::Address;
    use crate::open::PostgresOptions;

    /// A server that lets everybody in, and then says nothing.
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

    fn link_to(port: u16) -> LazyConnection {
        let mut options = PostgresOptions::default();
        let url = format!(
            "postgres://u@127.0.0.1:{port}/d?target_session_attrs=any&connect_timeout_ms=500"
        );
        let address = Address::parse(&url, &mut options).unwrap();
        LazyConnection::new(Arc::new(Connector::new(address, &options)))
    }

    #[tokio::test]
    async fn a_server_that_lets_in_and_says_nothing_is_not_waited_for_for_ever() {
        let link = link_to(silent());
        let refused =
            timeout(Duration::from_secs(60), link.session()).await.expect("an answer").unwrap_err();
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Later),
            "{refused}"
        );
        assert!(refused.context().contains("not ready for use within 500ms"), "{refused}");
    }
}
