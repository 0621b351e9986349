//! The server behind `tidelock serve`: accepts connections, serves the router, and shuts down
//! gracefully.
//!
//! It speaks HTTP/1.1, plain or over TLS. A client that is slow with the head or the body of its
//! request is cut off, and so is one that reads nothing of its response. When the connection limit
//! is reached, the longest idle connection is closed for a new one; if none is idle, new clients
//! are told to retry later, except for health checks. On shutdown the server accepts no more
//! connections, ends event streams, and waits for requests in flight, up to the grace period.

mod connections;
mod timed_body;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::CONNECTION;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidelock::problem::Problem;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::api::Api;
use crate::limits::{HANDSHAKE, Limits, PAUSE, RESERVE};
use crate::resources::health::is_health_check;
use crate::samples;
use crate::tls::Tls;
use connections::{ConnectionSlot, Connections};
use timed_body::{TimedBody, answered};

pub(crate) use timed_body::BodyTimeout;

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Every machine on the network could read everything.
    #[error(
        "{address} can be reached from other machines, and there are no tokens: every machine on the network could read everything; give it tokens, or listen on 127.0.0.1"
    )]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// The socket cannot be used.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
}

/// Serves an API until `shutdown`, and then until requests in flight are answered.
///
/// # Errors
/// `Unprotected` if other machines can reach the address and the API has no tokens.
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
    /// One permit per connection that can be open, and a few more for answering that the server is
    /// full.
    permits: Arc<Semaphore>,
    connections: Arc<Connections>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Server {
    fn new(api: &Api, tls: Option<Tls>) -> Self {
        let limits = api.setup().limits;
        let permits = Arc::new(Semaphore::new(limits.connections.saturating_add(RESERVE)));
        let closing = api.setup().closing.clone();
        let (served, router) = api.served();
        samples::keep(&served);
        let (connections, tasks) = (Arc::default(), TaskTracker::new());
        Self { router, tls, limits, permits, connections, tasks, closing }
    }

    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            let permit =
                self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok((stream, _)) => self.begin(stream, permit),
                Err(error) => self.recover(&error).await,
            }
        }
    }

    /// Serves a connection in its own task.
    fn begin(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        // A response is written in one piece, and should not wait for the next one.
        let _without = stream.set_nodelay(true);
        let (guard, tls) = (self.connections.admit(self.limits.connections), self.tls.clone());
        let (router, limits) = (self.router.clone(), self.limits);
        let handler = ConnectionHandler {
            router,
            limits,
            is_full: !guard.is_admitted,
            slot: guard.slot.clone(),
            closing: self.closing.clone(),
        };
        self.tasks.spawn(async move {
            tokio::select! {
                () = guard.slot.evicted() => tracing::debug!("an idle connection was closed for a new one"),
                () = handler.with(stream, tls) => {}
            }
            drop((guard, permit));
        });
    }

    /// An error of one connection does not end the server. If the machine has no room for another
    /// connection, an idle one is closed.
    async fn recover(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            return;
        }
        tracing::warn!(%error, "cannot accept a connection");
        let pause = if self.connections.evict_idle() { PAUSE.0 } else { PAUSE.1 };
        tokio::time::sleep(pause).await;
    }

    async fn end(self) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.limits.grace, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                connections = self.tasks.len(),
                "ended before all requests were answered"
            );
        }
    }
}

/// Serves the requests of one connection.
struct ConnectionHandler {
    router: Router,
    limits: Limits,
    /// Whether the connection is beyond the limit, and only told so.
    is_full: bool,
    slot: Arc<ConnectionSlot>,
    closing: CancellationToken,
}

impl ConnectionHandler {
    async fn with(self, stream: TcpStream, tls: Option<Tls>) {
        // A client that reads nothing is cut off.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.limits.taken));
        let stream = Box::pin(stream);
        match tls {
            None => self.serve_http1(stream).await,
            Some(tls) => {
                // A connection without a complete handshake is dropped.
                if let Ok(Ok(stream)) =
                    tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await
                {
                    self.serve_http1(stream).await;
                }
            }
        }
    }

    /// Answers requests until the connection or the server ends.
    async fn serve_http1(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let (head, closing, keep_alive) = (self.limits.head, self.closing.clone(), !self.is_full);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head)
            .keep_alive(keep_alive)
            .serve_connection(TokioIo::new(stream), service_fn(|request| self.answer(request)));
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

    async fn answer(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        self.slot.set_active();
        if self.is_full && !is_health_check(request.uri().path()) {
            return Ok(too_many_connections());
        }
        let request = request
            .map(|body| Body::new(TimedBody::new(body, self.limits.body, self.slot.clone())));
        let answer = self.router.clone().call(request).await?;
        Ok(answer.map(|body| answered(body, self.slot.clone())))
    }
}

fn too_many_connections() -> Response {
    let detail = "the connection limit of this server is reached; try again later";
    let mut answer = Problem::unavailable("too-many-connections", detail).into_response();
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
