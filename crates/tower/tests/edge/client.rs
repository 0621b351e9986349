//! A client: requests with keys, and their responses.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidelock_test_stage::{PATIENCE, until};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) async fn read<B>(response: Response<B>) -> Self
    where
        B: http_body::Body,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Status and body.
    pub(crate) fn told(&self) -> (u16, &str) {
        (self.status, &self.body)
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// The status and code of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let details: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(details["status"], self.status);
        assert!(details["detail"].as_str().is_some_and(|detail| detail.len() > 20), "{details}");
        (self.status, details["code"].as_str().unwrap().to_owned())
    }

    /// Asserts that this is a problem with this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.problem(), (status, code.to_owned()), "{self:?}");
    }

    pub(crate) fn is_in_progress(&self) -> bool {
        self.status == 409
    }
}

/// A POST to `/pay` under this key.
pub(crate) fn pay(key: &str, body: &str) -> Request<Body> {
    request(Method::POST, "/pay", key, body)
}

pub(crate) fn request(method: Method, target: &str, key: &str, body: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(target).header("idempotency-key", key);
    request.body(Body::from(body.to_owned())).unwrap()
}

pub(crate) fn without_key(method: Method, body: &str) -> Request<Body> {
    Request::builder().method(method).uri("/pay").body(Body::from(body.to_owned())).unwrap()
}

/// Calls an application, without a network in between.
pub(crate) async fn ask(app: &Router, request: Request<Body>) -> Reply {
    Reply::read(app.clone().oneshot(request).await.unwrap()).await
}

/// Calls in the background.
pub(crate) fn begin(app: &Router, request: Request<Body>) -> JoinHandle<Reply> {
    let app = app.clone();
    tokio::spawn(async move { ask(&app, request).await })
}

/// The response of a background call.
pub(crate) async fn answered<T>(asked: JoinHandle<T>) -> T {
    tokio::time::timeout(PATIENCE, asked).await.expect("there is an answer").unwrap()
}

/// Retries while the request is in progress.
pub(crate) async fn ask_until_answered(app: &Router, key: &str, body: &str) -> Reply {
    let answer = std::sync::Mutex::new(None);
    until("there is an answer", async || {
        let reply = ask(app, pay(key, body)).await;
        let answered = !reply.is_in_progress();
        *answer.lock().unwrap() = Some(reply);
        answered
    })
    .await;
    answer.into_inner().unwrap().unwrap()
}

/// Calls a server over a new connection; `None` if that breaks.
pub(crate) async fn ask_over(server: SocketAddr, request: Request<Body>) -> Option<Reply> {
    let stream = TcpStream::connect(server).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.ok()?;
    let reply = Reply::read(response).await;
    connection.abort();
    Some(reply)
}

/// Calls servers in turn until one answers, as a client behind a load balancer does.
pub(crate) async fn ask_over_until_answered(
    servers: &[SocketAddr],
    key: &str,
    body: &str,
) -> Reply {
    let answer = std::sync::Mutex::new(None);
    until("there is an answer", async || {
        for server in servers {
            let reply =
                ask_over(*server, pay(key, body)).await.filter(|reply| !reply.is_in_progress());
            if reply.is_some() {
                *answer.lock().unwrap() = reply;
                return true;
            }
        }
        false
    })
    .await;
    answer.into_inner().unwrap().unwrap()
}
