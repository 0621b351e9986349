//! The options of a route.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use tidelock::claims::{Fingerprint, OnFailure};

use crate::limits;

/// What happens to a response that cannot be recorded: its body is a stream, or it is too large.
///
/// In every case the first client is answered once the handler returns, and the key is not left
/// pending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unrecorded {
    /// The first client gets it. The key records that the work was done; retries are answered with
    /// a 410.
    #[default]
    PassOnce,
    /// The first client gets it, and the key is free: a retry runs the handler again.
    PassAlways,
    /// No client gets it: the first client and retries get a 500. The handler is not run again.
    Refuse,
}

/// Returns the scope of a request.
pub(crate) type ScopeFn = dyn Fn(&Parts) -> Option<String> + Send + Sync;
/// Returns the fingerprint of a request.
pub(crate) type FingerprintFn = dyn Fn(&Parts, &Bytes) -> Fingerprint + Send + Sync;

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) required: bool,
    pub(crate) methods: Vec<Method>,
    pub(crate) scope: Option<Arc<ScopeFn>>,
    pub(crate) print: Arc<FingerprintFn>,
    pub(crate) ttl: Duration,
    pub(crate) lease: Duration,
    pub(crate) wait: Duration,
    pub(crate) retry_after: Duration,
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
    pub(crate) on_failure: OnFailure,
    pub(crate) releasing: Vec<StatusCode>,
    pub(crate) unrecorded: Unrecorded,
    pub(crate) left_out: Vec<HeaderName>,
    pub(crate) help: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            required: false,
            methods: vec![Method::POST, Method::PATCH],
            scope: None,
            print: Arc::new(crate::fingerprint::of),
            ttl: limits::TTL,
            lease: limits::LEASE,
            wait: Duration::ZERO,
            retry_after: limits::RETRY_AFTER,
            request_bytes: limits::REQUEST_BYTES,
            response_bytes: limits::RESPONSE_BYTES,
            on_failure: OnFailure::Release,
            releasing: vec![
                StatusCode::UNAUTHORIZED,
                StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                StatusCode::REQUEST_TIMEOUT,
                StatusCode::TOO_EARLY,
                StatusCode::TOO_MANY_REQUESTS,
            ],
            unrecorded: Unrecorded::default(),
            left_out: vec![SET_COOKIE],
            help: None,
        }
    }
}

impl Options {
    /// Whether a response with this status is recorded.
    pub(crate) fn keeps(&self, status: StatusCode) -> bool {
        match status.is_server_error() {
            true => self.on_failure == OnFailure::Remember,
            false => !self.releasing.contains(&status),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("required", &self.required)
            .field("methods", &self.methods)
            .field("scoped", &self.scope.is_some())
            .field("ttl", &self.ttl)
            .field("lease", &self.lease)
            .field("wait", &self.wait)
            .field("on_failure", &self.on_failure)
            .field("unrecorded", &self.unrecorded)
            .finish_non_exhaustive()
    }
}
