//! An HTTP client in a loop, over one connection.

use std::fmt;
use std::net::SocketAddr;

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::failure::Failure;
use crate::measure::Caller;

/// The body of a request; the size of a small order.
const ORDER: &str = r#"{"order":"order-7","lines":[{"sku":"sku-1","units":2},{"sku":"sku-9","units":1}],"note":"leave it with the neighbours, please"}"#;

/// Which keys a client sends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    /// A new key each time: the handler runs, and its response is stored.
    Fresh,
    /// The same key each time: the response is replayed.
    Known,
}

impl Keys {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fresh => "first",
            Self::Known => "replay",
        }
    }
}

pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    path: &'static str,
    keys: Keys,
    nth: usize,
    asked: u64,
}

impl Client {
    pub(crate) async fn connect(
        server: SocketAddr,
        path: &'static str,
        keys: Keys,
        nth: usize,
    ) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        Ok(Self { sender, path, keys, nth, asked: 0 })
    }

    fn key(&mut self) -> String {
        if let Keys::Fresh = self.keys {
            self.asked += 1;
        }
        format!("\"client-{}-order-{}\"", self.nth, self.asked)
    }
}

impl Caller for Client {
    async fn call(&mut self) -> Result<u64, Failure> {
        let request =
            Request::post(self.path).header("host", "bench").header("idempotency-key", self.key());
        let request =
            request.body(Full::new(Bytes::from_static(ORDER.as_bytes()))).map_err(broken)?;
        self.sender.ready().await.map_err(broken)?;
        let response = self.sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(broken)?.to_bytes();
        match (status, body.as_ref() == ORDER.as_bytes()) {
            (StatusCode::CREATED, true) => Ok(1),
            _ => Err(Failure::Answer(format!("{status}: {}", String::from_utf8_lossy(&body)))),
        }
    }
}

fn broken(error: impl fmt::Display) -> Failure {
    Failure::Answer(error.to_string())
}
