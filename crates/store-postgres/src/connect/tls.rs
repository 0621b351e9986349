//! Connecting to the server, with or without TLS.
//!
//! All servers that the URL names are tried in turn, beginning with the last good one. Each gets an
//! equal part of the total time, so that one that never answers does not keep the others from being
//! tried. Nothing is tried twice: retries are up to the caller.

mod failure;
mod trust;

use std::fmt;
use std::task::{Context, Poll};

use tidelock_store::Result;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connect::address::{Address, Route};

pub(crate) use trust::{Mode, Trust, is_server_name};

/// The stream of an encrypted connection. An unencrypted one has the same type and never creates
/// one.
type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// The half of a connection that moves the bytes. Nothing is sent or received unless it is polled.
pub(crate) struct Connection(tokio_postgres::Connection<Socket, TlsStream>);

impl Connection {
    /// Moves bytes until the server sends an unsolicited message. `None` and errors are the last.
    pub(crate) fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> {
        self.0.poll_message(cx)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Connects to the first usable server of the address.
///
/// # Errors
/// - `Unavailable`, to retry later: no server answers in time, or one is starting, full, or a
///   standby.
/// - `Invalid`: the server requires another user, password, database or certificate, or this side
///   another server.
///
/// # Cancel safety
/// A connection in progress is closed when the future is dropped.
pub(crate) async fn connect(address: &Address) -> Result<(Client, Connection)> {
    let mut failures = Vec::new();
    for route in address.routes() {
        match attempt(address, route).await {
            Ok((client, connection)) => {
                address.was_good(route);
                return Ok((client, Connection(connection)));
            }
            Err(failure) => failures.push((route.host_port(), failure)),
        }
    }
    Err(failure::of_all(failures).about(address.label()))
}

type Connected = (Client, tokio_postgres::Connection<Socket, TlsStream>);

async fn attempt(address: &Address, route: &Route) -> Result<Connected> {
    let limit = address.time_for_one_server();
    match timeout(limit, route.config().connect(address.connector())).await {
        Ok(connected) => {
            let wanted = route.config().get_target_session_attrs();
            connected.map_err(|error| failure::refused(error, wanted))
        }
        Err(_) => Err(failure::timed_out(limit)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind};

    use super::*;
    use crate::open::PostgresOptions;

    /// The result of connecting to a server that reads the first message, answers with these bytes,
    /// and closes.
    async fn answered_with(bytes: &'static [u8]) -> StoreError {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://u:s3cret@{}/d", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            hear_one_message(&mut socket);
            socket.write_all(bytes).unwrap();
        });
        let address = Address::parse(&url, &mut PostgresOptions::default()).unwrap();
        let refused = connect(&address).await.unwrap_err();
        server.join().unwrap();
        refused
    }

    /// To the end: the system discards an answer if the socket is closed with unread data.
    fn hear_one_message(socket: &mut impl Read) {
        let mut length = [0; 4];
        socket.read_exact(&mut length).unwrap();
        let rest = u32::from_be_bytes(length) as usize - length.len();
        socket.read_exact(&mut vec![0; rest]).unwrap();
    }

    #[tokio::test]
    async fn a_server_that_is_starting_is_worth_another_try() {
        let starting = b"E\0\0\0\x2bSFATAL\0C57P03\0Mthe database starts up\0\0";
        let refused = answered_with(starting).await;
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Later),
            "{refused}"
        );
        assert!(refused.context().contains("the database starts up (57P03)"), "{refused}");
    }

    #[tokio::test]
    async fn a_server_that_hangs_up_is_worth_another_try() {
        let refused = answered_with(b"").await;
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Later),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn what_is_no_postgresql_server_is_told_so() {
        let refused = answered_with(b"Z\0\0\0\x05I").await;
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Invalid, RetryAdvice::Never),
            "{refused}"
        );
        assert!(refused.context().contains("is this a PostgreSQL server?"), "{refused}");
    }
}
