//! What a route asks of its keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use tidelock::claims::{Fingerprint, OnFailure};

use crate::limits;

/// What becomes of a response that cannot be kept: its body is a stream, or it is too large.
///
/// In every case the first client is answered once the handler is done, and the key is not left
/// behind pending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unrecorded {
    /// The first client gets it. The key remembers that the work was done; whoever asks again is
    /// told so, with a 410.
    #[default]
    PassOnce,
    /// The first client gets it, and the key is free: whoever asks again has the work done again.
    PassAlways,
    /// Nobody gets it: the first client and whoever asks again get a 500. The work is not done
    /// again.
    Refuse,
}

/// Whom a request is for.
pub(crate) type Scope = dyn Fn(&Parts) -> Option<String> + Send + Sync;
/// What a request is told from others by.
pub(crate) type Print = dyn Fn(&Parts, &Bytes) -> Fingerprint + Send + Sync;

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) required: bool,
    pub(crate) methods: Vec<Method>,
    pub(crate) scope: Option<Arc<Scope>>,
    pub(crate) print: Arc<Print>,
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
    /// Whether a response with this status is the answer that everybody is to get.
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
