//! The layer: what is asked of the keys of some routes.
//!
//! A layer is a value: clone it and change the clone, and each route has its own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use tidelock::Tidelock;
use tidelock::claims::{Fingerprint, OnFailure};
use tower_layer::Layer;

use crate::edge::Config;
use crate::options::{Options, Unrecorded};
use crate::service::IdempotencyService;

/// Has what a request with an `Idempotency-Key` asks for done once.
#[derive(Debug, Clone)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct IdempotencyLayer {
    edge: Arc<Config>,
}

impl IdempotencyLayer {
    /// Over the claims of this store. POST and PATCH may have a key; a response is kept for a day.
    pub fn new(tidelock: &Tidelock) -> Self {
        Self { edge: Arc::new(Config { claims: tidelock.claims(), options: Options::default() }) }
    }

    /// A request without a key is refused with a 400.
    pub fn required(self) -> Self {
        self.with(|options| options.required = true)
    }

    /// A request without a key is none of this layer's business, as it is unless something else is
    /// asked for.
    pub fn optional(self) -> Self {
        self.with(|options| options.required = false)
    }

    /// Requests with these methods may have a key; POST and PATCH unless this says otherwise. The
    /// header of others is passed on unread.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|options| options.methods = methods.into_iter().collect())
    }

    /// Whose key it is: two requests share one only if this says the same of both. A request of
    /// which it says nothing is refused with a 400.
    ///
    /// Without a scope all clients share their keys, and whoever sends the same request under
    /// somebody else's key gets somebody else's response. So name the user or the tenant here, by
    /// something that was authenticated.
    pub fn scope(self, scope: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.with(|options| options.scope = Some(Arc::new(scope)))
    }

    /// What tells a retry from another request; unless this says otherwise, the method, the path
    /// with the query, and the body, byte by byte.
    pub fn fingerprint(
        self,
        of: impl Fn(&Parts, &Bytes) -> Fingerprint + Send + Sync + 'static,
    ) -> Self {
        self.with(|options| options.print = Arc::new(of))
    }

    /// How long a response is kept, from when the handler was done.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|options| options.ttl = ttl)
    }

    /// How long a process that has died keeps the keys that it was at; half a minute unless this
    /// says otherwise. The lease of one that lives is renewed, so it need not be as long as the
    /// handler takes.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|options| options.lease = lease)
    }

    /// How long to wait for somebody else who is at it before answering with a 409; not at all
    /// unless this says otherwise.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|options| options.wait = wait)
    }

    /// What `Retry-After` says where there is one; whole seconds, and a second unless this says
    /// otherwise.
    pub fn retry_after(self, after: Duration) -> Self {
        self.with(|options| options.retry_after = after)
    }

    /// A request with a key and a larger body is refused with a 413; a mebibyte unless this says
    /// otherwise.
    pub fn max_request_bytes(self, bytes: usize) -> Self {
        self.with(|options| options.request_bytes = bytes)
    }

    /// A response with a larger body is not kept; half a mebibyte unless this says otherwise. No
    /// record holds more than a mebibyte.
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        self.with(|options| options.response_bytes = bytes)
    }

    /// What a 5xx or a panic does to a key. Unless this says otherwise, the key is free again, and
    /// a retry has the work done.
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        self.with(|options| options.on_failure = on_failure)
    }

    /// Statuses below 500 that say that nothing was done and that the same request is welcome
    /// later: they are not kept. 401, 407, 408, 425 and 429 unless this says otherwise.
    pub fn releasing(self, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        self.with(|options| options.releasing = statuses.into_iter().collect())
    }

    /// What becomes of a response that cannot be kept.
    pub fn unrecorded(self, unrecorded: Unrecorded) -> Self {
        self.with(|options| options.unrecorded = unrecorded)
    }

    /// Headers of a response that are not kept, and so are in no replay; `Set-Cookie` unless this
    /// says otherwise. Those that are about a connection, and `Date`, never are.
    pub fn without_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|options| options.left_out = names.into_iter().collect())
    }

    /// A page about what can go wrong with keys. The `type` of a problem is then this with its code
    /// as the fragment.
    pub fn problems_at(self, page: impl Into<String>) -> Self {
        self.with(|options| options.help = Some(page.into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut Arc::make_mut(&mut self.edge).options);
        self
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> IdempotencyService<S> {
        IdempotencyService::new(inner, self.edge.clone())
    }
}
