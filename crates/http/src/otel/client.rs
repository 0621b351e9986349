//! The HTTP client of the exporter: one connection for each batch, plain or over TLS.
//!
//! Batches come from a thread of their own, seconds apart, so a connection is not kept. The
//! requests run on the runtime in which the exporter was made.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tidelock::store::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

/// How long a batch may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a response is read.
const RESPONSE_BYTES: usize = 1 << 20;

/// A client for one collector.
#[derive(Clone)]
pub(super) struct Client {
    runtime: Handle,
    /// For `https`.
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("is_tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the collector at this URL, on the current runtime.
    pub(super) fn begin(endpoint: &str) -> Result<Self, String> {
        let runtime = Handle::try_current().map_err(|error| error.to_string())?;
        let url: Uri = endpoint.parse().map_err(|error| format!("it is no URL: {error}"))?;
        let tls = match url.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Some(connector()?),
            Some(scheme) if *scheme == Scheme::HTTP => None,
            _ => return Err("it begins with neither http:// nor https://".to_owned()),
        };
        url.host().filter(|host| !host.is_empty()).ok_or("it names no host")?;
        Ok(Self { runtime, tls })
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let url = request.uri().clone();
        let host = url.host().ok_or("the URL names no host")?.to_owned();
        let port = url.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
        match self.tls {
            None => exchange(stream, request, &url).await,
            Some(tls) => {
                let name = ServerName::try_from(host)?;
                exchange(tls.connect(name, stream).await?, request, &url).await
            }
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.clone();
        // Made inside of the runtime: the exporter's thread has no timer.
        let sent = async move { tokio::time::timeout(TIMEOUT, client.send(request)).await };
        let sent = self.runtime.spawn(sent).await?;
        sent.map_err(|_| HttpError::from(format!("the collector took longer than {TIMEOUT:?}")))?
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Bytes>,
    url: &Uri,
) -> Result<Response<Bytes>, HttpError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (mut parts, body) = request.into_parts();
    let authority = url.authority().ok_or("the URL names no host")?;
    parts.headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
    parts.uri = url.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let response = sender.send_request(Request::from_parts(parts, Full::new(body))).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, RESPONSE_BYTES).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// Trusts what the machine trusts.
fn connector() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
