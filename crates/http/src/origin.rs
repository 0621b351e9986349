//! Host and origin checks, against DNS rebinding and cross-site requests.
//!
//! A foreign page in a browser can send requests to this machine, and can even have its own name
//! resolve here. So the host has to be one of this server's names, and the origin has to be the
//! server itself. Both are checked before anything else.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::uri::Authority;
use http::{HeaderValue, StatusCode, Uri};

use crate::app_state::AppState;
use crate::extract;
use crate::problem::Problem;

/// Admits a request if its host is one of this server's names and its origin is not foreign.
pub(crate) async fn check(
    State(served): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match check_names(&served, &request) {
        Ok(()) => answered(next.run(request)).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Runs the handler; a panic becomes a problem response instead of a broken connection.
async fn answered(answer: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        let detail = "the request failed: this is a bug, and the server's log has details";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "handler-failed", detail).into_response()
    })
}

fn check_names(served: &AppState, request: &Request) -> Result<(), Problem> {
    let host = named(request)?;
    if !is_ours(served, &host) {
        let detail = format!(
            "this server does not serve the host name {:?}: use localhost, or add it (tidelock serve --host NAME)",
            host.host()
        );
        return Err(Problem::forbidden("host-unknown", detail));
    }
    match extract::header(request.headers(), &ORIGIN)? {
        Some(origin) if !is_same(origin, &host) => Err(Problem::forbidden(
            "origin-foreign",
            "a page of another origin may not use this server",
        )),
        _ => Ok(()),
    }
}

/// The host of the request. The request target takes precedence over the header, as HTTP requires.
fn named(request: &Request) -> Result<Authority, Problem> {
    if let Some(authority) = request.uri().authority() {
        return Ok(authority.clone());
    }
    let host = extract::header(request.headers(), &HOST)?.and_then(|host| host.parse().ok());
    host.ok_or_else(|| {
        Problem::forbidden("host-unknown", "the request has no host: send the header Host")
    })
}

fn is_ours(served: &AppState, host: &Authority) -> bool {
    let name = host.host().to_ascii_lowercase();
    match address(&name) {
        Some(address) => address.is_loopback() || served.setup.hosts.contains(&address.to_string()),
        None => name == "localhost" || served.setup.hosts.contains(&name),
    }
}

/// Parses an IP address; version 6 in brackets.
fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse().ok()
}

fn is_same(origin: &str, host: &Authority) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    origin
        .authority()
        .is_some_and(|authority| authority.as_str().eq_ignore_ascii_case(host.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTTP-33.
    #[tokio::test]
    async fn a_panic_becomes_a_problem_response() {
        let response = answered(async { panic!("on purpose") }).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
