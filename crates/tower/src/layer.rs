//! The layer, and its options per route.
//!
//! A layer is a value: clone it and change the clone, and each route has its own options.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use tidelock::Tidelock;
use tidelock::claims::{Fingerprint, OnFailure};
use tower_layer::Layer;

use crate::config::Config;
use crate::options::{Options, Unrecorded};
use crate::service::IdempotencyService;

/// Carries out requests with an `Idempotency-Key` once.
#[derive(Debug, Clone)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct IdempotencyLayer {
    config: Arc<Config>,
}

impl IdempotencyLayer {
    /// Creates a layer on the claims of this store. By default POST and PATCH can have a key, and a
    /// response is kept for a day.
    pub fn new(tidelock: &Tidelock) -> Self {
        Self { config: Arc::new(Config { claims: tidelock.claims(), options: Options::default() }) }
    }

    /// Refuses requests without a key, with a 400.
    pub fn required(self) -> Self {
        self.with(|options| options.required = true)
    }

    /// Passes requests without a key through. This is the default.
    pub fn optional(self) -> Self {
        self.with(|options| options.required = false)
    }

    /// Sets the methods that can have a key; by default POST and PATCH. The header of others is
    /// ignored.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|options| options.methods = methods.into_iter().collect())
    }

    /// Sets the scope of keys: two requests share a key only if they have the same scope. A request
    /// without a scope is refused with a 400.
    ///
    /// Without this, all clients share their keys, and a client that sends the same request under
    /// another client's key gets that client's response. So return the user or the tenant here,
    /// from something that was authenticated.
    pub fn scope(self, scope: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.with(|options| options.scope = Some(Arc::new(scope)))
    }

    /// Sets the fingerprint, which tells a retry from another request; by default the method, the
    /// path with the query, and the body.
    pub fn fingerprint(
        self,
        of: impl Fn(&Parts, &Bytes) -> Fingerprint + Send + Sync + 'static,
    ) -> Self {
        self.with(|options| options.print = Arc::new(of))
    }

    /// Sets how long a response is kept, from when the handler returned.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|options| options.ttl = ttl)
    }

    /// Sets the lease of a key: how long a dead process holds its keys; by default 30 seconds. The
    /// lease of a live process is renewed, so it need not be as long as the handler takes.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|options| options.lease = lease)
    }

    /// Sets how long to wait for a request in progress before answering with a 409; by default 0.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|options| options.wait = wait)
    }

    /// Sets `Retry-After`, in whole seconds; by default one second.
    pub fn retry_after(self, after: Duration) -> Self {
        self.with(|options| options.retry_after = after)
    }

    /// Sets the maximum body of a request with a key, by default a mebibyte; a larger one is
    /// refused with a 413.
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.with(|options| options.request_bytes = bytes)
    }

    /// Sets the maximum body of a response that is recorded, by default half a mebibyte. No record
    /// holds more than a mebibyte.
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        self.with(|options| options.response_bytes = bytes)
    }

    /// Sets what a 5xx or a panic does to a key. By default the key is free again, and a retry runs
    /// the handler again.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.with(|options| options.on_failure = on_failure)
    }

    /// Sets the statuses below 500 that mean that nothing was done and the request can be retried:
    /// they are not recorded. By default 401, 407, 408, 425 and 429.
    pub fn releasing(self, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        self.with(|options| options.releasing = statuses.into_iter().collect())
    }

    /// Sets what happens to a response that cannot be recorded.
    pub fn unrecorded(self, unrecorded: Unrecorded) -> Self {
        self.with(|options| options.unrecorded = unrecorded)
    }

    /// Sets the headers of a response that are not recorded, and so missing in replays; by default
    /// `Set-Cookie`. Hop-by-hop headers and `Date` are never recorded.
    pub fn without_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|options| options.left_out = names.into_iter().collect())
    }

    /// Sets a page that explains the problems with keys. The `type` of a problem is then this URL
    /// with its code as the fragment.
    pub fn problems_at(self, page: impl Into<String>) -> Self {
        self.with(|options| options.help = Some(page.into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut Arc::make_mut(&mut self.config).options);
        self
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> IdempotencyService<S> {
        IdempotencyService::new(inner, self.config.clone())
    }
}
