//! A server on its own socket, and a client that knows only its address.

use std::net::SocketAddr;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidelock::Tidelock;
use tidelock::store::{Commit, ExpectedRevision, RecordQuery, RecordWrite, StoreExt};
use tidelock_http::{Api, Tokens};
use tidelock_test_stage::{PATIENCE, TestStore};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::document;

/// A token of each role.
pub(crate) const READER: &str = "reader-token-0123456789";
pub(crate) const WRITER: &str = "writer-token-0123456789";
pub(crate) const OPERATOR: &str = "operator-token-0123456789";

/// Makes four tests of each case, one of them with the smallest pages (schedule 103). Sockets are
/// real, so time is too, on every store.
macro_rules! over_sockets {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $case() { tidelock_test_stage::for_real(tidelock_test_stage::TestStore::memory(), super::$case); })*
        }
        mod sqlite {
            $(#[test] fn $case() { tidelock_test_stage::for_real(tidelock_test_stage::TestStore::sqlite(), super::$case); })*
        }
        mod postgres {
            $(#[test] fn $case() { tidelock_test_stage::for_real(tidelock_test_stage::TestStore::postgres(), super::$case); })*
        }
        mod stingy {
            $(#[test] fn $case() { tidelock_test_stage::for_real(tidelock_test_stage::TestStore::stingy(), super::$case); })*
        }
    };
}

/// A server that ends when this is dropped, or when it is told to.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) tidelock: Tidelock,
    stop: Option<oneshot::Sender<()>>,
    ended: Option<JoinHandle<()>>,
}

impl Server {
    /// As if the server had died each time before it recorded the response under an idempotency
    /// key.
    pub(crate) async fn forget_answers(&self) {
        self.forget(|_| true).await;
    }

    /// As if the leases of all idempotency keys had expired.
    pub(crate) async fn let_keys_run_out(&self) {
        self.forget(|record| record.ends_with('/')).await;
    }

    async fn forget(&self, which: impl Fn(&str) -> bool) {
        let store = self.tidelock.store();
        let kept = store.rows(RecordQuery::prefix("~claim/idempotency/http:")).all().await.unwrap();
        assert!(!kept.is_empty());
        for record in kept.into_iter().filter(|record| which(record.key.as_str())) {
            let forget = RecordWrite::delete(&record.key, ExpectedRevision::Any);
            store.commit(Commit::new().write(forget)).await.unwrap().committed().unwrap();
        }
    }

    /// With a token of each role.
    pub(crate) async fn start(stage: &TestStore) -> Self {
        Self::start_with(stage, |api| api.tokens(tokens())).await
    }

    pub(crate) async fn start_with(stage: &TestStore, with: impl FnOnce(Api) -> Api) -> Self {
        Self::start_over(stage.tidelock().await, with).await
    }

    pub(crate) async fn start_over(tidelock: Tidelock, with: impl FnOnce(Api) -> Api) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, api) = (listener.local_addr().unwrap(), with(Api::over(&tidelock)));
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(async move {
            let until = async { drop(stopped.await) };
            tidelock_http::serve(listener, api, None, until).await.unwrap();
        });
        Self { address, tidelock, stop: Some(stop), ended: Some(ended) }
    }

    /// Tells the server to shut down, without waiting.
    pub(crate) fn tell(&mut self) {
        drop(self.stop.take());
    }

    /// A client with this token.
    pub(crate) fn client(&self, token: &str) -> Client {
        Client::to(self.address, token)
    }

    /// A client without a token.
    pub(crate) fn stranger(&self) -> Client {
        Client { address: self.address, token: None }
    }

    /// Tells the server to shut down, and waits for it.
    pub(crate) async fn stop(mut self) {
        self.tell();
        tokio::time::timeout(PATIENCE, self.ended.take().unwrap())
            .await
            .expect("the server ends")
            .unwrap();
    }
}

pub(crate) fn tokens() -> Tokens {
    Tokens::read(&format!("reader rita {READER}\nwriter walt {WRITER}\noperator olga {OPERATOR}"))
        .unwrap()
}

/// A client that sends each request over a new connection.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    token: Option<String>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The status and code of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.headers[CONTENT_TYPE], "application/problem+json", "{self:?}");
        let details = self.json();
        assert_eq!(details["status"], self.status, "{details}");
        assert!(details["detail"].as_str().is_some_and(|detail| detail.len() > 20), "{details}");
        (self.status, details["code"].as_str().unwrap().to_owned())
    }

    /// Asserts that this is a problem with this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.problem(), (status, code.to_owned()), "{self:?}");
    }

    /// The JSON of a response with this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }
}

impl Client {
    /// A client of the server at this address, with this token.
    pub(crate) fn to(address: SocketAddr, token: &str) -> Self {
        Self { address, token: Some(token.to_owned()) }
    }

    /// A request, ready to be changed and sent.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Request<Full<Bytes>> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let mut request =
            Request::builder().method(method).uri(path).header(HOST, self.address.to_string());
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).unwrap()
    }

    /// Sends it, and reads the head of the response; `None` if the connection breaks. The
    /// connection lives as long as the response.
    async fn try_open(&self, request: Request<Full<Bytes>>) -> Option<http::Response<Incoming>> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let stream = TcpStream::connect(self.address).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        let answer = tokio::time::timeout(PATIENCE, sender.send_request(request))
            .await
            .expect("there is an answer")
            .ok()?;
        document::check(&method, &path, answer.status()).await;
        Some(answer)
    }

    pub(crate) async fn open(&self, request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        self.try_open(request).await.expect("the connection holds")
    }

    /// Sends it; `None` if the connection breaks.
    pub(crate) async fn try_send(&self, request: Request<Full<Bytes>>) -> Option<Reply> {
        let (parts, body) = self.try_open(request).await?.into_parts();
        let body =
            tokio::time::timeout(PATIENCE, body.collect()).await.expect("the answer ends").ok()?;
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        let body = body.to_bytes();
        document::check_code(parts.status, &body).await;
        Some(Reply { status, headers, body })
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        self.try_send(request).await.expect("the connection holds")
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(self.request(Method::GET, path, None)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(self.request(Method::POST, path, Some(body))).await
    }

    /// Sends a request with additional headers.
    pub(crate) async fn send_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let mut request = self.request(method, path, body);
        for (name, value) in headers {
            request
                .headers_mut()
                .insert(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        self.send(request).await
    }
}
