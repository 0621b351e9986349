//! Host and origin checks, against DNS rebinding and cross-site requests.
//!
//! A foreign page in a browser can send requests to this machine, and can even have its own name
//! resolve here. So the host has to be one of this server's names, and the origin has to be the
//! server itself. Both are checked before anything else.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Uri;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use tidelock::problem::Problem;

use crate::app_state::AppState;
use crate::extract;

/// Admits a request if its host is one of this server's names and its origin is not foreign.
pub(crate) async fn check(
    State(served): State<AppState>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    check_names(&served, &request)?;
    Ok(next.run(request).await)
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
