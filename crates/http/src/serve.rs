//! The server behind `tidelock serve`: connections in, requests to the router, and an end that leaves nobody without an answer.
//!
//! It speaks HTTP/1.1, plain or over TLS. A client that is slow with the head of its request is cut off; when the server is to end it
//! takes no more connections, ends event streams, lets requests that have begun come to their end, and waits for them so long and no longer.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::limits::{HANDSHAKE, Limits};
use crate::samples;
use crate::tls::Tls;

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Everybody on the network could read everything.
    #[error(
        "{address} can be reached from other machines, and there are no tokens: everybody could read everything; give it tokens, or listen on 127.0.0.1"
    )]
    Unprotected {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// The socket is of no use.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
}

/// Serves an API until `shutdown`, and then until everybody has their answer.
///
/// # Errors
/// `Unprotected` if others than this machine can reach the address and the API has no tokens.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    tls: Option<Tls>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    if api.setup().tokens.is_none() && !address.ip().is_loopback() {
        return Err(ServeError::Unprotected { address });
    }
    let api = api.hosts([address.ip().to_string()]);
    let server = Server::new(&api, tls);
    tokio::select! {
        () = server.accept_all(&listener) => {}
        () = shutdown => {}
    }
    drop(listener);
    server.end().await;
    Ok(())
}

struct Server {
    router: Router,
    tls: Option<Tls>,
    limits: Limits,
    /// A permit for each connection that may be open.
    room: Arc<Semaphore>,
    connections: TaskTracker,
    closing: CancellationToken,
}

impl Server {
    fn new(api: &Api, tls: Option<Tls>) -> Self {
        let limits = api.setup().limits;
        let room = Arc::new(Semaphore::new(limits.connections));
        let closing = api.setup().closing.clone();
        let (served, router) = api.served();
        samples::keep(&served);
        Self { router, tls, limits, room, connections: TaskTracker::new(), closing }
    }

    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            let permit = self.room.clone().acquire_owned().await.expect("nobody closes the room");
            match listener.accept().await {
                Ok((stream, _)) => self.begin(stream, permit),
                Err(error) => recover(&error).await,
            }
        }
    }

    /// Serves a connection beside the others.
    fn begin(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        // An answer is written in one piece, and should not wait for the next one.
        let _without = stream.set_nodelay(true);
        let (router, closing, head, tls) =
            (self.router.clone(), self.closing.clone(), self.limits.head, self.tls.clone());
        self.connections.spawn(async move {
            match tls {
                None => converse(stream, router, head, closing).await,
                Some(tls) => {
                    // Who does not finish the handshake is nobody to talk to.
                    if let Ok(Ok(stream)) =
                        tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await
                    {
                        converse(stream, router, head, closing).await;
                    }
                }
            }
            drop(permit);
        });
    }

    async fn end(self) {
        self.closing.cancel();
        self.connections.close();
        if tokio::time::timeout(self.limits.grace, self.connections.wait()).await.is_err() {
            tracing::warn!(connections = self.connections.len(), "ended before all requests were answered");
        }
    }
}

/// Answers the requests of one connection, until it ends or the server does.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    head: Duration,
    closing: CancellationToken,
) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// What is wrong with one connection is no reason to stop; if the machine has no room for another, waiting helps.
async fn recover(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "cannot take a connection");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
